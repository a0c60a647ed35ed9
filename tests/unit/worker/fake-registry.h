/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "core/clock.h"
#include "server/worker/registry.h"

/* A registry that does as it is told, and remembers what it was asked. */
typedef struct {
	Registry registry;
	pthread_mutex_t stuck; /* while a test holds it, extend and hand_back hang */
	pthread_mutex_t mutex; /* for what follows */
	/* what to answer */
	int claim_code, extend_code; /* a RegistryError, or WORKS */
	gint64 first_tick;           /* of the next claim; 0: the tick asked at */
	guint worker_id;
	gint64 wait_ticks;
	/* what was asked */
	guint claims, extensions, hand_backs;
	gint64 claimed_at_tick;
	gint64 end_tick;        /* reserved */
	gint64 gained_ticks[8]; /* by each of the first extensions: its end minus the tick then */
	gint64 last_tick;
	const Clock *clock;
} FakeRegistry;

#define WORKS (-1)

/* It works, with reservations of 400 ms. @clock is what the keeper goes by. */
void fake_registry_init(FakeRegistry *self, const Clock *clock);
void fake_registry_clear(FakeRegistry *self);

/* Reading and writing a field of a fake, from a test. */
#define FAKE_GET(fake, field)                                                                      \
	({                                                                                         \
		pthread_mutex_lock(&(fake)->mutex);                                                \
		__typeof__((fake)->field) value_ = (fake)->field;                                  \
		pthread_mutex_unlock(&(fake)->mutex);                                              \
		value_;                                                                            \
	})
#define FAKE_SET(fake, field, new_value)                                                           \
	do {                                                                                       \
		pthread_mutex_lock(&(fake)->mutex);                                                \
		(fake)->field = new_value;                                                         \
		pthread_mutex_unlock(&(fake)->mutex);                                              \
	} while (0)
