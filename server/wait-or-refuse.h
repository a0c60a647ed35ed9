/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/counters.h"
#include "rpc/rpc-service.h"
#include "server/source.h"

/* Decides whether a call without IDs waits, for example for the next millisecond, or is refused.
 * Also creates the refusals, with the messages of their exceptions: the original service's
 * message, if it had one. The codecs write the exceptions, typed or untyped. */
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
	gint64 retry_after_ms; /* set for WORKER and REGISTRY only */
} Refusal;

void refusal_clear(Refusal *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Refusal, refusal_clear)

/* Returns: (transfer full): the message of the untyped exception that legacy calls get. */
char *refusal_untyped(const Refusal *self);

/* Returns the counter for refusals of this kind. */
Counter refusal_counter(const Refusal *self);

/* Creates a refusal whose reason may be gone after @retry_after_ms. The caller must clear it. */
Refusal refusal_for_now(RefusalKind kind, const char *why, gint64 retry_after_ms);

/* Decides whether a call for which no IDs could be drawn waits or is refused. It waits if the clock
 * or the source will provide IDs within its time limit. It is refused if the clock is wrong, or the
 * wait would be too long.
 * @max_wait_ms: how long a call can be parked, at most
 * @what_for: the event that the call waits for
 * @status: status of the failed draw
 * @pass: (inout): the call's pass; its wait is set if the call waits
 * @out_refusal: (out): undefined if the call waits. Returns: whether the call waits */
gboolean wait_or_refuse(Source *source, gint64 max_wait_ms, RpcWaitFor what_for, DrawStatus status,
			const DrawRefusal *no_draw, RpcPass *pass, Refusal *out_refusal);
