/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "ctl/format.h"

void ctl_probe_clear(CtlProbe *self)
{
	g_clear_pointer(&self->worker, snowflake_client_worker_free);
	g_clear_pointer(&self->counters, g_ptr_array_unref);
}

/* Measures the server's clock, on the assumption that the server read it in the middle of the round
 * trip. The server truncates its time to milliseconds, so half a millisecond is added. */
static gboolean measure_clock(SnowflakeClient *client, CtlProbe *probe, GError **error)
{
	gint64 sent_us = g_get_monotonic_time();
	gint64 sent_real_us = g_get_real_time();
	gint64 server_ms;

	if (!snowflake_client_get_timestamp(client, &server_ms, error))
		return FALSE;
	if (server_ms < 0 || server_ms > CTL_FORMAT_MAX_TIME_MS) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			    "%s: not a reply from a Snowflake server: a time of %" G_GINT64_FORMAT
			    " ms",
			    snowflake_client_get_server(client), server_ms);
		return FALSE;
	}
	probe->round_trip_us = g_get_monotonic_time() - sent_us;
	probe->clock_skew_us = server_ms * 1000 + 500 - (sent_real_us + probe->round_trip_us / 2);
	return TRUE;
}

static gboolean call_server(SnowflakeClient *client, gboolean known, gboolean with_counters,
			    CtlProbe *out_probe, GError **error)
{
	g_auto(CtlProbe) probe = {0};
	g_autoptr(GError) failure = NULL;

	probe.worker = snowflake_client_get_worker(client, &failure);
	if (probe.worker != NULL) {
		probe.datacenter_id = probe.worker->datacenter_id;
		probe.worker_id = probe.worker->worker_id;
	} else if (!g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED)) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return FALSE;
	} else if (known) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
			    "%s: a legacy server, which cannot describe itself; use ping",
			    snowflake_client_get_server(client));
		return FALSE;
	} else if (!snowflake_client_get_datacenter_id(client, &probe.datacenter_id, error) ||
		   !snowflake_client_get_worker_id(client, &probe.worker_id, error)) {
		/* the original server does not support get_worker */
		return FALSE;
	}
	g_clear_error(&failure);
	if (with_counters) {
		probe.counters = snowflake_client_get_counters(client, &failure);
		probe.counted_at_us = g_get_monotonic_time();
	}
	if (failure != NULL &&
	    !g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED)) {
		g_propagate_error(error, g_steal_pointer(&failure));
		return FALSE;
	}
	if (!measure_clock(client, &probe, error))
		return FALSE;
	*out_probe = probe;
	probe = (CtlProbe){0};
	return TRUE;
}

gboolean ctl_probe(const CtlOptions *options, SnowflakeClient *client, gboolean known,
		   gboolean with_counters, CtlProbe *out_probe, GError **error)
{
	g_autoptr(GError) failure = NULL;

	if (call_server(client, known, with_counters, out_probe, &failure))
		return TRUE;
	ctl_options_add_remedy(options, failure);
	g_propagate_error(error, g_steal_pointer(&failure));
	return FALSE;
}

/* In parallel */

#define MAX_THREADS   256
#define FDS_OF_SERVER 8 /* for a DNS lookup, and for attempts at several addresses of a name */

typedef struct {
	const GPtrArray *items;
	void (*work)(gpointer item, gpointer data);
	gpointer data;
	atomic_uint next;
} Parallel;

void ctl_probe_raise_limit(void)
{
	struct rlimit limit;

	/* if this fails, fewer servers are queried at a time */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

guint ctl_probe_room(void)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit); /* can fail only if its arguments are invalid */
	return (guint)MIN(limit.rlim_cur / FDS_OF_SERVER, G_MAXUINT);
}

static void *run_thread(void *data)
{
	Parallel *self = data;

	for (;;) {
		guint i = atomic_fetch_add(&self->next, 1);

		if (i >= self->items->len)
			return NULL;
		self->work(self->items->pdata[i], self->data);
	}
}

void ctl_probe_in_parallel(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
			   gpointer data)
{
	Parallel self = {.items = items, .work = work, .data = data};
	pthread_t threads[MAX_THREADS];
	guint wanted = MIN(MIN(items->len, ctl_probe_room()), MAX_THREADS);
	guint count = 0;

	while (count + 1 < wanted && pthread_create(&threads[count], NULL, run_thread, &self) == 0)
		count++;
	run_thread(&self);
	for (guint i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}
