/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "client/ctl-tree.h"
#include "client/snowflake-client.h"

/* The servers that live, as "workers" lists them. */

typedef struct {
	guint datacenter_id;
	gint worker_id; /* -1: none yet */
	char *address;  /* host:port; NULL: its claim does not tell */
	char *nonce;
	gint64 claimed_at_ms;     /* since the Unix epoch; 0: not known */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is, or not known */

	char *state;           /* NULL: not asked */
	gboolean has_answered; /* then: */
	gint64 round_trip_us;
	gint64 clock_skew_us; /* the server's clock minus ours */
} CtlWorker;

/* (transfer full): the workers of a tree, not asked yet. */
GPtrArray *ctl_worker_of_tree(const CtlTree *tree);

/* (transfer full) (nullable): the workers that a server knows of, not asked yet but for itself. */
GPtrArray *ctl_worker_of_server(SnowflakeClient *client, GError **error);

/* By datacenter ID and worker ID; those without one come last. */
void ctl_worker_sort(GPtrArray *workers);

/**
 * ctl_worker_ask_all:
 *
 * Asks all that were not asked, many at a time, for their state and clock. One that does not answer
 * within @timeout_ms is "unreachable", and so is one at whose address another server answers.
 */
void ctl_worker_ask_all(GPtrArray *workers, guint timeout_ms);

/* To standard output. */
void ctl_worker_print_table(const GPtrArray *workers);
/* (transfer full) */
JsonObject *ctl_worker_to_json(const CtlWorker *self);
