/* SPDX-License-Identifier: Apache-2.0 */
#include "server/watchdog.h"

#include <systemd/sd-daemon.h>

#include "common/log.h"

/* If a write takes longer than this, only a restart of the process helps. */
#define KEEPER_HANGS_MS 60000

#define DISK_CHECK_MS 1000

#define HANGS_US        (3 * G_TIME_SPAN_SECOND)
#define REPORT_AGAIN_US G_TIME_SPAN_MINUTE

/* Disk calls that hang */

DiskWatchVerdict disk_watch_judge(const DiskWatch *self, const DiskCall *call, gint64 now_us)
{
	gboolean is_reported = self->call.number != 0;
	gboolean is_same = is_reported && call != NULL && call->number == self->call.number;

	if (is_reported && !is_same)
		return DISK_WATCH_RECOVERED;
	if (call == NULL || now_us - call->began_us < HANGS_US)
		return DISK_WATCH_NOTHING;
	return is_same && now_us - self->reported_at_us < REPORT_AGAIN_US ? DISK_WATCH_NOTHING
									  : DISK_WATCH_HANGS;
}

void disk_watch_check(DiskWatch *self, gint64 now_us)
{
	g_auto(DiskCall) call = {0};
	gboolean is_under_way = disk_call_find(&call);
	DiskWatchVerdict verdict = disk_watch_judge(self, is_under_way ? &call : NULL, now_us);
	const DiskCall *reported = verdict == DISK_WATCH_HANGS ? &call : &self->call;

	if (verdict == DISK_WATCH_NOTHING)
		return;
	log_event(verdict == DISK_WATCH_HANGS ? LOG_DISK_HANGS : LOG_DISK_RECOVERED,
		  log_text("operation", reported->operation), log_text("path", reported->path),
		  log_number("for_ms", (now_us - reported->began_us) / G_TIME_SPAN_MILLISECOND));
	disk_call_clear(&self->call);
	if (verdict == DISK_WATCH_HANGS) {
		self->call = call;
		self->reported_at_us = now_us;
		call = (DiskCall){0};
	}
}

/* The watchdog */

static gboolean on_check(gpointer user_data)
{
	Watchdog *self = user_data;
	gint64 (*idle_ms)(Source *) = self->source->ops->idle_ms;

	if (rpc_server_responds(self->rpc) &&
	    (idle_ms == NULL || idle_ms(self->source) < KEEPER_HANGS_MS)) {
		health_note(self->health, 0);
		sd_notify(0, "WATCHDOG=1");
	}
	return G_SOURCE_CONTINUE;
}

static gboolean on_check_disk(gpointer user_data)
{
	disk_watch_check(&((Watchdog *)user_data)->disk_watch, g_get_monotonic_time());
	return G_SOURCE_CONTINUE;
}

void watchdog_start(Watchdog *self, RpcServer *rpc, Source *source, Health *health,
		    gboolean watches_disk)
{
	uint64_t watchdog_us = 0;
	uint64_t check_ms = HEALTH_CHECK_MS;

	*self = (Watchdog){.rpc = rpc, .source = source, .health = health};
	if (sd_watchdog_enabled(0, &watchdog_us) > 0)
		check_ms = MIN(check_ms, MAX(watchdog_us / 2000, 1));
	health->check_ms = (gint64)check_ms;
	g_timeout_add((guint)check_ms, on_check, self);
	if (watches_disk)
		g_timeout_add(DISK_CHECK_MS, on_check_disk, self);
}

void watchdog_clear(Watchdog *self)
{
	disk_call_clear(&self->disk_watch.call);
}
