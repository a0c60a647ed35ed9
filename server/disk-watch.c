/* SPDX-License-Identifier: Apache-2.0 */
#include "server/disk-watch.h"

#include "common/log.h"

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
	return is_same && now_us - self->reported_us < REPORT_AGAIN_US ? DISK_WATCH_NOTHING
								       : DISK_WATCH_HANGS;
}

static void report(LogEvent event, const DiskCall *call, gint64 now_us)
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
		report(LOG_DISK_HANGS, &call, now_us);
		disk_call_clear(&self->call);
		self->call = call;
		self->reported_us = now_us;
		call = (DiskCall){0};
		break;
	case DISK_WATCH_RECOVERED:
		report(LOG_DISK_RECOVERED, &self->call, now_us);
		disk_watch_clear(self);
		break;
	}
}

void disk_watch_clear(DiskWatch *self)
{
	disk_call_clear(&self->call);
}
