/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"

/* What a server says about itself, and how far away it and its clock are. */
typedef struct {
	gint64 datacenter_id;
	gint64 worker_id;
	gint64 clock_skew_us; /* the server's clock minus ours */
	gint64 round_trip_us;
	SnowflakeClientWorker *worker; /* all that it says; NULL: a server of 2010 */
	GPtrArray *counters;           /* of SnowflakeClientCounter; NULL: not asked for, or a
					* server that does not know the call */
	gint64 counted_at_us;          /* by g_get_monotonic_time(), when they came */
} CtlProbe;

/* Asks the server that @client stands for, also for what it counts if @with_counters. %FALSE, with
 * @out_probe untouched and an error set, if it does not answer all of it. */
gboolean ctl_probe(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
		   GError **error);
void ctl_probe_clear(CtlProbe *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(CtlProbe, ctl_probe_clear)
