/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"

/* One server's answers, with the round-trip time and the clock difference. */
typedef struct {
	gint64 datacenter_id;
	gint64 worker_id;
	gint64 clock_skew_us; /* the server's clock minus ours */
	gint64 round_trip_us;
	SnowflakeClientWorker *worker; /* its reply to get_worker; NULL for an original server */
	GPtrArray
		/* (element-type SnowflakeClientCounter); NULL if not requested, or an older server
		 * / */
		*counters;
	gint64 counted_at_us; /* g_get_monotonic_time() when the counters arrived */
} CtlProbe;

/* Asks the server of @client, also for its counters if @with_counters. Returns %FALSE, with
 * @out_probe untouched and an error set, if it does not answer all calls. */
gboolean ctl_probe(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
		   GError **error);
void ctl_probe_clear(CtlProbe *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(CtlProbe, ctl_probe_clear)

/* Like ctl_probe(), but an original server, which does not identify itself, is an error. */
gboolean ctl_probe_known(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
			 GError **error);

/* Raises the limit of open files as far as this process is allowed to. */
void ctl_probe_raise_limit(void);

/* Returns how many descriptors can stay open between two calls of ctl_probe_in_parallel(). */
guint ctl_probe_room(void);

/* Calls @work, which can connect to one server at a time, for each of @items, and returns when all
 * calls have returned. Uses as many threads as the descriptors allow, so that a server that does
 * not answer does not delay others. */
void ctl_probe_in_parallel(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
			   gpointer data);
