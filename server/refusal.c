/* SPDX-License-Identifier: Apache-2.0 */
#include "server/refusal.h"

#include "common/useragent.h"
#include "core/text.h"
#include "core/ulid.h"

void refusal_clear(Refusal *self)
{
	g_clear_pointer(&self->message, g_free);
}

char *refusal_untyped(const Refusal *self)
{
	static const char *const NAMES[] = {
		[REFUSAL_CLOCK] = "InvalidSystemClock",
		[REFUSAL_AGENT] = "InvalidUserAgentError",
		[REFUSAL_WORKER] = "WorkerIdUnavailable",
		[REFUSAL_COUNT] = "InvalidCount",
		[REFUSAL_REGISTRY] = "RegistryUnavailable",
		[REFUSAL_LAYOUT] = "UnsupportedLayout",
	};

	return g_strconcat(NAMES[self->kind], ": ", self->message, NULL);
}

Counter refusal_counter(const Refusal *self)
{
	static const Counter COUNTERS[] = {
		[REFUSAL_CLOCK] = COUNTER_REFUSED_CLOCK,
		[REFUSAL_AGENT] = COUNTER_REFUSED_AGENT,
		[REFUSAL_WORKER] = COUNTER_REFUSED_WORKER,
		[REFUSAL_COUNT] = COUNTER_REFUSED_COUNT,
		[REFUSAL_REGISTRY] = COUNTER_REFUSED_REGISTRY,
		[REFUSAL_LAYOUT] = COUNTER_REFUSED_LAYOUT,
	};

	return COUNTERS[self->kind];
}

Refusal refusal_of_clock_back(gint64 behind_ms)
{
	return (Refusal){
		.kind = REFUSAL_CLOCK,
		.message = g_strdup_printf("Clock moved backwards.  Refusing to generate id "
					   "for %" G_GINT64_FORMAT " milliseconds",
					   behind_ms),
	};
}

Refusal refusal_of_clock_outside(const Layout *layout)
{
	g_autofree char *first = text_time_ms(layout->epoch_ms);
	g_autofree char *last = layout_tick_text(layout, layout_max_tick(layout));

	return (Refusal){
		.kind = REFUSAL_CLOCK,
		.message = g_strdup_printf("the clock is outside the layout's range, %s to %s",
					   first, last),
	};
}

Refusal refusal_of_agent(const char *agent, gsize length)
{
	g_autofree char *quoted = text_escape(agent, length);

	return (Refusal){
		.kind = REFUSAL_AGENT,
		.message = g_strdup_printf("useragent '%s' is not a letter followed by letters, "
					   "digits and hyphens, %d bytes at most",
					   quoted, USERAGENT_MAX_BYTES),
	};
}

/* A relay reads the limit from the end of the message: see read_count_limit() in client/call.c. */
Refusal refusal_of_count(gint count, guint max)
{
	return (Refusal){
		.kind = REFUSAL_COUNT,
		.message = g_strdup_printf("count %d is out of range, 1 to %u", count, max),
	};
}

Refusal refusal_of_worker_id(void)
{
	return (Refusal){
		.kind = REFUSAL_WORKER,
		.message = g_strdup("no worker ID is claimed yet"),
	};
}

Refusal refusal_of_ulids(const GError *error)
{
	if (g_error_matches(error, ID_ERROR, ID_ERROR_OVERFLOW))
		return refusal_for_now(REFUSAL_WORKER,
				       "every ULID of the present millisecond is taken", 1);
	return (Refusal){.kind = REFUSAL_CLOCK, .message = g_strdup(error->message)};
}

Refusal refusal_of_layout(const Layout *layout)
{
	g_autofree char *text = layout_to_string(layout);

	return (Refusal){
		.kind = REFUSAL_LAYOUT,
		.message = g_strdup_printf(
			"UUIDs are made of IDs of the layout twitter, and this server has %s: "
			"ask a server with --layout twitter, or call get_ids or get_ulids",
			text),
	};
}

Refusal refusal_for_now(RefusalKind kind, const char *why, gint64 retry_after_ms)
{
	return (Refusal){
		.kind = kind,
		.message = g_strdup_printf("%s, retry after %" G_GINT64_FORMAT " ms", why,
					   retry_after_ms),
		.retry_after_ms = retry_after_ms,
	};
}
