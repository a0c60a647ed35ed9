/* SPDX-License-Identifier: Apache-2.0 */
#include "server/wait-or-refuse.h"

#include "core/text.h"

static const struct {
	const char *exception;
	Counter counter;
} KINDS[] = {
	[REFUSAL_CLOCK] = {"InvalidSystemClock", COUNTER_REFUSED_CLOCK},
	[REFUSAL_AGENT] = {"InvalidUserAgentError", COUNTER_REFUSED_AGENT},
	[REFUSAL_WORKER] = {"WorkerIdUnavailable", COUNTER_REFUSED_WORKER},
	[REFUSAL_COUNT] = {"InvalidCount", COUNTER_REFUSED_COUNT},
	[REFUSAL_REGISTRY] = {"RegistryUnavailable", COUNTER_REFUSED_REGISTRY},
	[REFUSAL_LAYOUT] = {"UnsupportedLayout", COUNTER_REFUSED_LAYOUT},
};

void refusal_clear(Refusal *self)
{
	g_clear_pointer(&self->message, g_free);
}

char *refusal_untyped(const Refusal *self)
{
	return g_strconcat(KINDS[self->kind].exception, ": ", self->message, NULL);
}

Counter refusal_counter(const Refusal *self)
{
	return KINDS[self->kind].counter;
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

gboolean wait_or_refuse(Source *source, gint64 max_wait_ms, RpcWaitFor what_for, DrawStatus status,
			const DrawRefusal *no_draw, RpcPass *pass, Refusal *out_refusal)
{
	g_autofree char *why = NULL;
	gint64 wait_ns = no_draw->wait_ns;
	gint64 retry_after_ms;
	gboolean may_wait;

	*out_refusal = (Refusal){.kind = REFUSAL_CLOCK};
	if (status == DRAW_CLOCK_BACK) {
		out_refusal->message =
			g_strdup_printf("Clock moved backwards.  Refusing to generate id for "
					"%" G_GINT64_FORMAT " milliseconds",
					no_draw->behind_ms);
		return FALSE;
	}
	if (status == DRAW_CLOCK_OUTSIDE) {
		const Layout *layout = source->layout;
		g_autofree char *first = text_time_ms(layout->epoch_ms);
		g_autofree char *last = layout_tick_text(layout, layout_max_tick(layout));

		out_refusal->message = g_strdup_printf(
			"the clock is outside the layout's range, %s to %s", first, last);
		return FALSE;
	}
	if (wait_ns != 0) { /* IDs will be available when the clock advances */
		may_wait = wait_ns <= max_wait_ms * 1000000;
		retry_after_ms = wait_ns / 1000000 + 1;
		/* only the source can provide IDs, so notify it, and let it decide whether waiting
		 * makes sense */
	} else {
		retry_after_ms = source->ops->demand(source);
		may_wait = retry_after_ms == 0;
		retry_after_ms = MAX(retry_after_ms, source->retry_after_ms);
	}
	if (may_wait && rpc_pass_may_wait(pass)) {
		pass->wait = (RpcWait){what_for, wait_ns};
		return TRUE;
	}
	why = status == DRAW_WAIT ? g_strdup("all IDs for the current time have been issued")
				  : source->ops->why_none(source);
	*out_refusal = refusal_for_now(REFUSAL_WORKER, why, retry_after_ms);
	return FALSE;
}
