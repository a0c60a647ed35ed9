/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/counters.h"
#include "core/layout.h"

/*
 * Why a call is refused, in the words that its exception tells: those of the original where it had
 * any. How it is written, typed or not, is for the path that answers.
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

/* (transfer full): the message of an untyped exception, as the calls of 2010 have them. */
char *refusal_untyped(const Refusal *self);

/* What such a refusal is counted as. */
Counter refusal_counter(const Refusal *self);

/* To be cleared, each of them. */
Refusal refusal_of_clock_back(gint64 behind_ms);
Refusal refusal_of_clock_outside(const Layout *layout);
Refusal refusal_of_agent(const char *agent, gsize length);
Refusal refusal_of_count(gint count, guint max);
Refusal refusal_of_worker_id(void);
/* @error: of ulid_generator_draw() */
Refusal refusal_of_ulids(const GError *error);
/* get_uuids, of a server of @layout. */
Refusal refusal_of_layout(const Layout *layout);

/* What may be over in @retry_after_ms. */
Refusal refusal_for_now(RefusalKind kind, const char *why, gint64 retry_after_ms);
