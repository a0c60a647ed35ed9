/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "core/clock.h"
#include "worker/registry.h"

/* A registry whose answers the test sets, and which records its calls. */
typedef struct {
	Registry registry;
	pthread_mutex_t mutex; /* protects the members below */
	pthread_cond_t unstuck;
	gboolean stuck; /* extending and releasing hang in poll; see fake_registry_unstick() */
	/* the answers */
	/* a RegistryError, or WORKS; also the extend_code of a release */
	int claim_code, extend_code;
	int cancel_code;   /* for a cancelled operation; a claim may be WORKS even then */
	gboolean pending;  /* operations stay pending; see fake_registry_go_on() */
	gboolean unheard;  /* a release stays pending, and fails at stop_by_us */
	gint64 first_tick; /* first tick of the next claim; 0 for the tick of the request */
	guint worker_id;
	gint64 wait_ticks;  /* G_MAXINT64 if unknown */
	gboolean retry_now; /* once */
	gboolean lost;      /* once: LOST, with or without a pending operation */
	gboolean reachable; /* reported by poll(); operations work even if FALSE */
	RegistryClock clock;
	RegistryClock fresh_clock; /* the clock after the next request for it, if it is known */
	gint64 late_ticks;         /* age of a claim when it is answered */
	gint64 poll_every_us;      /* 0 if not needed */
	gboolean upkeep_hangs;     /* with @stuck: poll() hangs even without a pending operation */
	guint n_workers;           /* servers in a list; 0 for no list */
	gboolean is_heard;         /* an answer is reported at each poll */
	gint64 list_age_ns;        /* age of a new list */
	gint64 reserved_until_ms;  /* end of the reservation of each server in a list */
	guint n_quarantined;       /* quarantined worker IDs in a list */
	guint n_reads;             /* reads for a list */
	RegistrySession session;
	RegistryPeers peers;
	gint64 poll_at_us, heard_at_us, claimed_at_ms; /* the values that it reports */
	/* the recorded calls */
	RegistryOperation under_way;
	guint begun;                        /* operations, of any kind */
	guint claims, extensions, releases; /* completed operations */
	guint cancels, clocks, lists;
	gint64 length_ticks;
	gint64 end_tick;        /* end of the reservation */
	gint64 asked_end_tick;  /* requested end of the last extension */
	gint64 gained_ticks[8]; /* end minus the tick of each of the first extensions */
	gint64 last_tick;
	gboolean cancelled;
	gboolean list_asked;
	guint polls;
	const Clock *system_clock;
} FakeRegistry;

#define WORKS (-1)

/* Initializes a working registry with reservations of 400 ms. @clock is the clock of the keeper, in
 * a SystemClock. */
void fake_registry_init(FakeRegistry *self, const Clock *clock);
void fake_registry_clear(FakeRegistry *self);

/* Answers the pending operations, and later ones at once. */
void fake_registry_go_on(FakeRegistry *self);

void fake_registry_unstick(FakeRegistry *self);

/* Read and write a member of a fake in a test. */
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
