/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "core/clock.h"
#include "worker/registry.h"

/* A registry that does as it is told, and remembers what it was asked. */
typedef struct {
	Registry registry;
	pthread_mutex_t mutex; /* for what follows */
	pthread_cond_t unstuck;
	gboolean stuck; /* extending and releasing hang in poll; see fake_registry_unstick() */
	/* what to answer */
	int claim_code, extend_code; /* a RegistryError, or WORKS; extend_code of a release too */
	int cancel_code;             /* for one that is cancelled; a claim may still WORK then */
	gboolean pending;            /* operations stay under way; see fake_registry_go_on() */
	gboolean unheard;            /* a release stays under way, and fails at stop_by_us */
	gint64 first_tick;           /* of the next claim; 0: the tick asked at */
	guint worker_id;
	gint64 wait_ticks;  /* G_MAXINT64: nobody knows until when */
	gboolean retry_now; /* once */
	gboolean lost;      /* once: LOST, whatever is under way, if anything is */
	gboolean reachable; /* what poll() says of it; operations go on all the same */
	RegistryClock clock;
	RegistryClock fresh_clock; /* what the clock becomes when it is asked for, if it is known */
	gint64 late_ticks;         /* how long ago a claim that is answered was written */
	gint64 poll_every_us;      /* 0: no need to */
	gboolean upkeep_hangs;     /* with @stuck: poll() does, with nothing under way too */
	guint n_workers;           /* in a list; 0: none comes */
	gboolean is_heard;         /* whenever it is polled */
	gint64 list_age_ns;        /* how long ago a list was read that comes now */
	gint64 reserved_until_ms;  /* of each in a list */
	guint n_quarantined;       /* that come with a list */
	guint n_reads;             /* of a list */
	RegistrySession session;
	RegistryPeers peers;
	gint64 poll_at_us, heard_at_us, claimed_at_ms; /* as it reports them */
	/* what was asked */
	RegistryOperation under_way;
	guint begun;                        /* operations, of any kind */
	guint claims, extensions, releases; /* that have come to their end */
	guint cancels, clocks, lists;
	gint64 length_ticks;
	gint64 end_tick;        /* reserved */
	gint64 asked_end_tick;  /* of the last extension */
	gint64 gained_ticks[8]; /* by each of the first extensions: its end minus the tick then */
	gint64 last_tick;
	gboolean cancelled;
	gboolean list_asked;
	guint polls;
	const Clock *system_clock;
} FakeRegistry;

#define WORKS (-1)

/* It works, with reservations of 400 ms. @clock is what the keeper goes by, a SystemClock's. */
void fake_registry_init(FakeRegistry *self, const Clock *clock);
void fake_registry_clear(FakeRegistry *self);

/* What has been pending is answered, and nothing is pending any more. */
void fake_registry_go_on(FakeRegistry *self);

void fake_registry_unstick(FakeRegistry *self);

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
