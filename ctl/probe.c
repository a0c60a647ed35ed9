/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/probe.h"

#include "ctl/format.h"

void ctl_probe_clear(CtlProbe *self)
{
	g_clear_pointer(&self->worker, snowflake_client_worker_free);
	g_clear_pointer(&self->counters, g_ptr_array_unref);
}

/* A server of 2010 has no get_worker. */
static gboolean identify_by_numbers(SnowflakeClient *client, CtlProbe *probe, GError **error)
{
	return snowflake_client_get_datacenter_id(client, &probe->datacenter_id, error) &&
	       snowflake_client_get_worker_id(client, &probe->worker_id, error);
}

static gboolean identify(SnowflakeClient *client, CtlProbe *probe, GError **error)
{
	g_autoptr(GError) failure = NULL;
	g_autoptr(SnowflakeClientWorker) worker = snowflake_client_get_worker(client, &failure);

	if (g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED))
		return identify_by_numbers(client, probe, error);
	if (worker == NULL) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return FALSE;
	}
	probe->datacenter_id = worker->datacenter_id;
	probe->worker_id = worker->worker_id;
	probe->worker = g_steal_pointer(&worker);
	return TRUE;
}

static gboolean take_counters(SnowflakeClient *client, CtlProbe *probe, GError **error)
{
	g_autoptr(GError) failure = NULL;

	probe->counters = snowflake_client_get_counters(client, &failure);
	probe->counted_at_us = g_get_monotonic_time();
	if (probe->counters != NULL ||
	    g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED))
		return TRUE;
	g_propagate_error(error, g_steal_pointer(&failure));
	return FALSE;
}

/* Takes the server's time to be that of the middle of the round trip. It comes in whole
 * milliseconds, cut off, so the true one is half of one later on average. */
static gboolean measure(SnowflakeClient *client, CtlProbe *probe, GError **error)
{
	gint64 sent_us = g_get_monotonic_time();
	gint64 sent_real_us = g_get_real_time();
	gint64 server_ms;

	if (!snowflake_client_get_timestamp(client, &server_ms, error))
		return FALSE;
	if (server_ms < 0 || server_ms > CTL_FORMAT_MAX_TIME_MS) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "%s: not an answer of a Snowflake server: a time of %" G_GINT64_FORMAT
			    " ms",
			    snowflake_client_get_server(client), server_ms);
		return FALSE;
	}
	probe->round_trip_us = g_get_monotonic_time() - sent_us;
	probe->clock_skew_us = server_ms * 1000 + 500 - (sent_real_us + probe->round_trip_us / 2);
	return TRUE;
}

gboolean ctl_probe(SnowflakeClient *client, gboolean with_counters, CtlProbe *out_probe,
		   GError **error)
{
	g_auto(CtlProbe) probe = {0};

	if (!identify(client, &probe, error) ||
	    (with_counters && !take_counters(client, &probe, error)) ||
	    !measure(client, &probe, error))
		return FALSE;
	*out_probe = probe;
	probe = (CtlProbe){0};
	return TRUE;
}
