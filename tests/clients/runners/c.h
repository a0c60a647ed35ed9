/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/snowflake-client.h"

/*
 * The functions of the C library that the conformance suite drives, by c.py: c-client.c or c-pool.c
 * has them, and c.c what both share.
 */

/* The options that are below 0 or NULL are not given. Returns: (transfer full) */
gpointer runner_open(const char *const *servers, const char *agent, int timeout_ms, int prefetch_ms,
		     int max_age_ms, const char *ca, const char *certificate, const char *key,
		     GError **error);
void runner_close(gpointer client);
gboolean runner_next(gpointer client, const char *agent, gint64 *out_id, GError **error);
gboolean runner_next_ids(gpointer client, const char *agent, guint count, gint64 *out_ids,
			 GError **error);
gint64 runner_retry_after_ms(gpointer client);

/* What the suite calls this error of SNOWFLAKE_CLIENT_ERROR. */
const char *runner_kind_of(const GError *error);
const char *runner_version(void);
