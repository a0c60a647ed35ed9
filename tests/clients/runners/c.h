/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/snowflake-client.h"

/*
 * The functions of the C library that c.py calls for the conformance suite. c-client.c or c-pool.c
 * defines them, and c.c defines those that both share.
 */

/* Creates a client or a pool. Options that are negative or NULL are not set. Returns: (transfer
 * full) */
gpointer runner_open(const char *const *servers, const char *agent, int timeout_ms,
		     int attempt_timeout_ms, int prefetch_ms, int max_age_ms, const char *ca,
		     const char *certificate, const char *key, GError **error);
void runner_close(gpointer client);
gboolean runner_next(gpointer client, const char *agent, gint64 *out_id, GError **error);
gboolean runner_next_ids(gpointer client, const char *agent, guint count, gint64 *out_ids,
			 GError **error);
gint64 runner_retry_after_ms(gpointer client);

/* Returns: the suite's name for an error of SNOWFLAKE_CLIENT_ERROR */
const char *runner_kind_of(const GError *error);
const char *runner_version(void);
