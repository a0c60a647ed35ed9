/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"
#include "ctl/options.h"

/* One server's answers, with the round-trip time and the clock difference. */
typedef struct {
	gint64 datacenter_id;
	gint64 worker_id;
	gint64 clock_skew_us; /* the server's clock minus the clock of this machine */
	gint64 round_trip_us;
	SnowflakeClientWorker *worker; /* its reply to get_worker; NULL for an original server */
	GPtrArray
		/* (element-type SnowflakeClientCounter); NULL if not requested, or from an older
		 * server */
		*counters;
	gint64 counted_at_us; /* g_get_monotonic_time() at the arrival of the counters */
} CtlProbe;

/* Queries the server of @client, and also its counters if @with_counters. Returns %FALSE, with
 * @out_probe untouched and an error set, if it does not answer all calls. @options: the options of
 * @client */
gboolean ctl_probe(const CtlOptions *options, SnowflakeClient *client, gboolean with_counters,
		   CtlProbe *out_probe, GError **error);
void ctl_probe_clear(CtlProbe *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(CtlProbe, ctl_probe_clear)

/* Like ctl_probe(), but fails for an original server, because it does not identify itself. */
gboolean ctl_probe_known(const CtlOptions *options, SnowflakeClient *client, gboolean with_counters,
			 CtlProbe *out_probe, GError **error);

/* Raises the limit on open files as far as this process is permitted to. */
void ctl_probe_raise_limit(void);

/* Returns how many descriptors can stay open between calls to ctl_probe_in_parallel(). */
guint ctl_probe_room(void);

/* Calls @work for each of @items, and returns when all calls have returned. A call can connect to
 * one server at a time. Uses as many threads as the descriptors allow, so that a server that does
 * not answer does not delay others. */
void ctl_probe_in_parallel(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
			   gpointer data);
