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
 * @out_probe untouched and an error set, if it does not answer all calls, or, with @known, if it is
 * an original server, which does not identify itself. @options: the options of @client */
gboolean ctl_probe(const CtlOptions *options, SnowflakeClient *client, gboolean known,
		   gboolean with_counters, CtlProbe *out_probe, GError **error);
void ctl_probe_clear(CtlProbe *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(CtlProbe, ctl_probe_clear)

/* Raises the limit on open files as far as this process is permitted to. */
void ctl_probe_raise_limit(void);

/* Returns how many servers can be connected at the same time. */
guint ctl_probe_room(void);

/* Calls @work for each of @items, and returns when all calls have returned. A call can connect to
 * one server at a time. Uses many threads, so that a server that does not answer does not delay
 * others. */
void ctl_probe_in_parallel(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
			   gpointer data);
