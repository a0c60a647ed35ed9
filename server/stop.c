/* SPDX-License-Identifier: Apache-2.0 */
#include "server/stop.h"

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "common/log.h"
#include "server/signals.h"

/* For the hand-back and the audit log, when --stop-timeout is short, or what was in flight took all
 * of it. */
#define LAST_STEPS_LEAST_MS 1000

/* What a stop may take beyond its options: the last answers and replies, LAST_STEPS_LEAST_MS, the
 * end of the keeper and of its session, and some. */
#define STOP_SPARE_MS 5000

/* It ends from now on, within @within_ms, but for what STOP_SPARE_MS is for. */
static void tell_systemd(gint64 within_ms)
{
	sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%" G_GINT64_FORMAT,
		   1000 * (within_ms + STOP_SPARE_MS));
}

void stop_begin(Server *self, const char *signal)
{
	gint64 delay_ms = self->options->drain_delay_ms;

	self->service.draining = TRUE;
	log_event(LOG_STOPPING, log_text("signal", signal), log_number("drain_ms", delay_ms));
	tell_systemd(delay_ms + self->options->stop_timeout_ms);
	/* whoever asks twice does not want to wait */
	signals_kill_at_next_stop();
	g_timeout_add_once((guint)delay_ms, (GSourceOnceFunc)g_main_loop_quit, self->loop);
}

static gint64 sum_of(const Server *self, Counter counter)
{
	return (gint64)counter_set_sum(self->counters, counter);
}

void stop_threads(Server *self)
{
	gint64 timeout_ms = self->options->stop_timeout_ms;
	gint64 began_us = g_get_monotonic_time();
	gint64 left_ms;
	gboolean source_ended;

	/* after a failure nobody has said so, nor with a --stop-timeout that was reread since */
	self->service.draining = TRUE;
	tell_systemd(timeout_ms);
	health_put_off_checks(&self->health, timeout_ms + STOP_SPARE_MS);
	rpc_server_stop(self->rpc, timeout_ms);
	if (self->admin != NULL)
		admin_stop(self->admin);
	/* the rest is done when nobody draws any more */
	left_ms = MAX(timeout_ms - (g_get_monotonic_time() - began_us) / 1000, LAST_STEPS_LEAST_MS);
	audit_log_finish(self->audit, g_get_monotonic_time() + left_ms * 1000);
	source_ended = self->source->ops->stop(self->source, left_ms);
	audit_log_join(self->audit);
	log_tell_suppressed();
	log_event(LOG_STOPPED, log_number("ids", sum_of(self, COUNTER_IDS_GENERATED)),
		  log_number("calls", sum_of(self, COUNTER_CALLS)),
		  log_number("exceptions", sum_of(self, COUNTER_EXCEPTIONS)),
		  log_number("uptime_s",
			     (g_get_monotonic_time() - self->started_us) / G_USEC_PER_SEC));
	if (source_ended)
		return;
	log_event(LOG_FAILED, log_text("error", "the worker ID was not handed back in time"));
	_exit(EXIT_FAILURE); /* its thread may still use all that would be freed */
}
