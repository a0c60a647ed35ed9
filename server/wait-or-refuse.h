/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/counters.h"
#include "rpc/rpc-service.h"
#include "server/source.h"

/*
 * Whether a call for which there are no IDs waits, for example for the next millisecond, or is
 * refused; and why calls are refused, with the message of the exception, which is the original's if
 * it had one. The codecs write it, typed or not.
 */
typedef enum {
	REFUSAL_CLOCK,    /* InvalidSystemClock */
	REFUSAL_AGENT,    /* InvalidUserAgentError */
	REFUSAL_WORKER,   /* WorkerIdUnavailable */
	REFUSAL_COUNT,    /* InvalidCount */
	REFUSAL_REGISTRY, /* RegistryUnavailable */
	REFUSAL_LAYOUT,   /* UnsupportedLayout */
} RefusalKind;

typedef struct {
	RefusalKind kind;
	char *message;
	gint64 retry_after_ms; /* of WORKER and REGISTRY */
} Refusal;

void refusal_clear(Refusal *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Refusal, refusal_clear)

/* (transfer full): the message of an untyped exception, for legacy calls. */
char *refusal_untyped(const Refusal *self);

/* Returns the counter of such refusals. */
Counter refusal_counter(const Refusal *self);

/* The caller clears each of them. */
Refusal refusal_of_agent(const char *agent, gsize length);
Refusal refusal_of_count(gint count, guint max);
/* For get_uuids, on a server with @layout. */
Refusal refusal_of_layout(const Layout *layout);

/* The reason can be over in @retry_after_ms. */
Refusal refusal_for_now(RefusalKind kind, const char *why, gint64 retry_after_ms);

/* Decides what becomes of a call for which no IDs could be drawn. It waits if the clock or the
 * source will bring IDs within its time limit. It is refused if the clock is wrong, or the wait is
 * too long.
 * @max_wait_ms: how long a call can be parked
 * @what_for: what the call waits for
 * @status: of the draw that failed
 * @pass: (inout): of the call; its wait is set if the call waits
 * @out_refusal: (out): undefined if the call waits
 * Returns: whether the call waits */
gboolean wait_or_refuse(Source *source, gint64 max_wait_ms, RpcWaitFor what_for, DrawStatus status,
			const DrawRefusal *no_draw, RpcPass *pass, Refusal *out_refusal);
