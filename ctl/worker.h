/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/options.h"
#include "ctl/probe.h"
#include "ctl/table.h"
#include "ctl/zookeeper.h"

/* The counters of a server that "top" shows. */
typedef struct {
	gint64 ids;
	gint64 calls;
	gint64 connections; /* now */
	gint64 at_us;       /* of the reply, by g_get_monotonic_time() */
} CtlCounts;

/* A server as "workers" and "top" list it. */
typedef struct {
	guint datacenter_id;
	gint worker_id; /* -1: none yet, or it is a relay, which holds none */
	char *address;  /* host:port; NULL: not known, or it takes no calls */
	char *program;  /* PROGRAM@HOST of an embedded node; NULL: a server */
	char *nonce;
	gint64 claimed_at_ms;     /* since the Unix epoch; 0: not known */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: no reservation, or not known */
	gint64 as_of_ms;          /* the time of this report, by our clock */
	gint64 age_ms;            /* of the report when it was received */
	gboolean has_clock;       /* the clock of @reserved_until_ms is known; then: */
	gint64 ahead_ms;          /* that clock minus ours */
	char *kind;               /* NULL: not known */
	char *relay_of;           /* of a relay, the server that its IDs are from; else NULL */
	gboolean is_hearsay;      /* others report it: its own answer replaces this */

	char *state;           /* NULL: not asked; of an embedded node, from its claim */
	gboolean has_answered; /* then: */
	gint64 round_trip_us;
	gint64 clock_skew_us; /* the server's clock minus ours */

	gboolean has_counts; /* it has reported counters; then: */
	CtlCounts counts;
	gboolean has_rates; /* set by "top"; then, in a second: */
	double ids_per_s;
	double calls_per_s;
} CtlWorker;

void ctl_worker_free(CtlWorker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlWorker, ctl_worker_free)

/* (transfer full) (element-type CtlWorker) */
GPtrArray *ctl_worker_list_new(void);

/* (transfer full): the workers of a tree, not asked yet.
 * @as_of_ms: the time of the tree, since the Unix epoch */
GPtrArray *ctl_worker_of_tree(const CtlRegistryTree *tree, gint64 as_of_ms);

/* (transfer full): a worker that another server reports, not asked yet.
 * @clock_skew_us: of the reporting server */
CtlWorker *ctl_worker_of_hearsay(const SnowflakeClientWorker *said, gint64 clock_skew_us);

/* (transfer full): a server that has answered. @probe: with its worker */
CtlWorker *ctl_worker_of_probe(const CtlProbe *probe);

/* (transfer full): a named server that has not answered. @worker_id: -1: not known */
CtlWorker *ctl_worker_of_address(const char *address, guint datacenter_id, gint worker_id);

/* Sets the state, so that the worker is not asked. */
void ctl_worker_set_unreachable(CtlWorker *self);

/* Returns how much of the reservation is left when our clock shows @now_ms, by the reservation's
 * own clock; 0: no reservation, or it has ended. */
gint64 ctl_worker_left_ms(const CtlWorker *self, gint64 now_ms);

/**
 * ctl_worker_ask_all:
 *
 * Asks all workers that were not asked for their state and clock, and for their counters if
 * @with_counts, many at a time. A worker that does not answer in time is "unreachable", and so is
 * one at whose address another server answers. An embedded node cannot be asked: it is serving
 * until its reservation ends. Its clock is not known, so the known clock that is furthest behind is
 * assumed. Then sorts all by datacenter ID and worker ID; those without a worker ID come last, and
 * relays after all others.
 */
void ctl_worker_ask_all(GPtrArray *workers, const CtlOptions *options, gboolean with_counts);

/* Whether it hands out the IDs of other servers. */
gboolean ctl_worker_is_relay(const CtlWorker *self);

/* (transfer full): the address as tables show it, with "(relay)" after a relay's; or the program of
 * an embedded node. */
char *ctl_worker_place(const CtlWorker *self);

/* Whether a report of that age can be out of date. Servers report each other a second or two late.
 */
gboolean ctl_worker_is_old(gint64 age_ms);

/* @out_full: (transfer full): with all columns
 * @out_brief: (transfer full): with the columns that fit a terminal of 80 */
void ctl_worker_make_tables(const GPtrArray *workers, gint64 now_ms, CtlTable **out_full,
			    CtlTable **out_brief);

/* (transfer full) */
JsonObject *ctl_worker_to_json(const CtlWorker *self);
