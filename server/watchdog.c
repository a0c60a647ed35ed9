/* SPDX-License-Identifier: Apache-2.0 */
#include "server/watchdog.h"

#include <systemd/sd-daemon.h>

#include "common/log.h"

/* If a write takes longer than this, the keeper does not recover; a new process can. */
#define KEEPER_HANGS_MS 60000

#define DISK_CHECK_MS 1000

#define HANGS_US        (3 * G_TIME_SPAN_SECOND)
#define REPORT_AGAIN_US G_TIME_SPAN_MINUTE

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

static void report_disk_call(LogEvent event, const DiskCall *call, gint64 now_us)
{
	log_event(event, log_text("operation", call->operation), log_text("path", call->path),
		  log_number("for_ms", (now_us - call->began_us) / G_TIME_SPAN_MILLISECOND));
}

void disk_watch_check(DiskWatch *self, gint64 now_us)
{
	g_auto(DiskCall) call = {0};
	gboolean is_under_way = disk_call_find(&call);

	switch (disk_watch_judge(self, is_under_way ? &call : NULL, now_us)) {
	case DISK_WATCH_NOTHING:
		break;
	case DISK_WATCH_HANGS:
		report_disk_call(LOG_DISK_HANGS, &call, now_us);
		disk_call_clear(&self->call);
		self->call = call;
		self->reported_at_us = now_us;
		call = (DiskCall){0};
		break;
	case DISK_WATCH_RECOVERED:
		report_disk_call(LOG_DISK_RECOVERED, &self->call, now_us);
		disk_watch_clear(self);
		break;
	}
}

void disk_watch_clear(DiskWatch *self)
{
	disk_call_clear(&self->call);
}

static gboolean on_check(gpointer user_data)
{
	Watchdog *self = user_data;

	if (rpc_server_responds(self->rpc) &&
	    self->source->ops->idle_ms(self->source) < KEEPER_HANGS_MS) {
		health_note(self->health);
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
	health_set_check_ms(health, (gint64)check_ms);
	g_timeout_add((guint)check_ms, on_check, self);
	if (watches_disk)
		g_timeout_add(DISK_CHECK_MS, on_check_disk, self);
}

void watchdog_clear(Watchdog *self)
{
	disk_watch_clear(&self->disk_watch);
}
