/* SPDX-License-Identifier: Apache-2.0 */
#include "server/health.h"

/* Number of checks without progress after which a thread counts as hanging. */
#define MISSED_CHECKS 4

/* If a reservation cannot be extended, the server is unhealthy during this time before its end, or
 * during the last quarter if that is shorter, so that calls go to other servers. */
#define LAST_MS   10000
#define LAST_PART 4

void health_init(Health *self, const ServiceConfig *service)
{
	self->service = service;
	self->check_ms = HEALTH_CHECK_MS;
	health_note(self, 0);
}

void health_note(Health *self, gint64 for_ms)
{
	atomic_store(&self->progress_at_us, g_get_monotonic_time() + for_ms * 1000);
}

char *health_why_not_alive(const Health *self)
{
	gint64 ago_ms = (g_get_monotonic_time() - atomic_load(&self->progress_at_us)) / 1000;

	if (ago_ms < MISSED_CHECKS * self->check_ms)
		return NULL;
	return g_strdup_printf("a thread hangs: for %" G_GINT64_FORMAT
			       " s, not all threads have reported",
			       ago_ms / 1000);
}

/* Returns: (transfer full): @what, followed by the reason, if it is known. @what: (transfer
 * full) */
static char *add_reason(const Health *self, char *what)
{
	Source *source = self->service->source;
	g_autofree char *reason = source->ops->waiting_why(source);
	char *text;

	if (reason == NULL)
		return what;
	text = g_strdup_printf("%s: %s", what, reason);
	g_free(what);
	return text;
}

char *health_why_not_healthy(const Health *self)
{
	Source *source = self->service->source;
	char *why = health_why_not_alive(self);
	KeeperStatus status;
	gint64 left_ms;

	if (why != NULL)
		return why;
	source->ops->get_status(source, &status);
	if (status.state != KEEPER_SERVING)
		return add_reason(self, g_strdup_printf("no IDs: the server is %s",
							keeper_state_name(status.state)));
	left_ms = status.reserved_until_ms - clock_now_ms(source->clock);
	if (!status.extending_fails || left_ms >= MIN(LAST_MS, status.reservation_ms / LAST_PART))
		return NULL;
	return add_reason(self, g_strdup_printf("the reservation cannot be extended, and ends in "
						"%" G_GINT64_FORMAT " ms",
						MAX(left_ms, 0)));
}

char *health_why_not_ready(const Health *self)
{
	if (atomic_load_explicit(&self->service->draining, memory_order_relaxed))
		return g_strdup("draining: the server is about to stop");
	return health_why_not_healthy(self);
}
