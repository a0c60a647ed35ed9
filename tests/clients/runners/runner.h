/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"

/*
 * A runner of the conformance suite (../README.md) for what the C library has: runner_main() reads
 * commands and answers them; what it drives says how it is opened, asked and closed.
 */

/* Of open. Strings are the runner's. */
typedef struct {
	char **servers;
	char *agent;
	guint timeout_ms;
	int prefetch_ms; /* below 0: not given */
	int max_age_ms;  /* likewise */
	char *ca;
	char *certificate;
	char *key;
} RunnerOptions;

typedef struct {
	const char *name;
	const char *const (*lacks)[2]; /* capability and why, up to a NULL */
	gboolean is_shared;            /* by threads; else each has one of its own */
	const char *no_fork;           /* why it cannot fork with IDs in hand; NULL: it can */
	/* Returns: (transfer full): or NULL with an error of runner_unsupported_quark() or of
	 * SNOWFLAKE_CLIENT_ERROR set */
	gpointer (*open)(const RunnerOptions *options, GError **error);
	void (*close)(gpointer client);
	gboolean (*next)(gpointer client, const char *agent, gint64 *out_id, GError **error);
	gboolean (*next_ids)(gpointer client, const char *agent, guint count, gint64 *out_ids,
			     GError **error);
	gint64 (*retry_after_ms)(gpointer client); /* NULL: it does not say */
} RunnerKind;

GQuark runner_unsupported_quark(void);

/* The exit status. */
int runner_main(const RunnerKind *kind);
