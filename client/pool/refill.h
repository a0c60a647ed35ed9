/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/buffer.h"
#include "client/pool/config.h"
#include "client/pool/fleet.h"
#include "client/pool/watch.h"

/* The refill thread, which fills the prefetch buffer. It draws IDs as fast as they are taken,
 * discards IDs that are too old, and manages the fleet. The fleet chooses servers; this thread
 * decides when to draw, and how many IDs to draw. */
typedef struct _PoolRefill PoolRefill;

/* The arguments must outlive the object.
 * @watch: (nullable): shared with a relay; %NULL if not a relay's pool
 * Returns: (transfer full): an object whose thread is running, or %NULL with UNSUPPORTED set */
PoolRefill *pool_refill_new(const PoolConfig *config, PoolBuffer *buffer, PoolWatch *watch,
			    GError **error);

/* Ends the thread, if it belongs to this process. */
void pool_refill_free(PoolRefill *self);

/* Call it in a child process. Returns: %TRUE if the child was created without fork(), so that no
 * handler has closed the descriptors. In such a child, locks may stay locked for ever, and the
 * thread cannot be joined. */
gboolean pool_refill_has_descriptors(const PoolRefill *self);

/* Wakes the thread, because takers have found no IDs, or @watch has pending work. Can be called
 * from any thread. Makes a system call unless the thread has already been woken. */
void pool_refill_wake(PoolRefill *self);

/* Gets the statistics. Can be called from any thread. */
void pool_refill_get_statistics(const PoolRefill *self, SnowflakePoolStatistics *out_statistics);

/* Runs one pass of the thread, without waiting. For the thread itself, or for a program that
 * replaces thread_start() and runs the passes, such as a simulation in virtual time.
 * @out_fds: (out): the descriptors to poll until the next pass; has room for POOL_FLEET_MAX_SERVERS
 * @out_count: (out): the number of descriptors
 * Returns: when the next pass is due, by CLOCK_BOOTTIME, unless pool_refill_wake() or an event
 * comes first */
gint64 pool_refill_run_pass(PoolRefill *self, struct pollfd *out_fds, guint *out_count);

/* Computes the number of IDs to prefetch from the take rate. The functions are pure. All times are
 * in microseconds of one clock.
 *
 * The rate is a moving average that rises quickly and falls more slowly. It cannot exceed the rate
 * at which IDs become available. So if takes find the buffer empty, the target doubles until they
 * find IDs. After some time without takes, the target is 0.
 */

#define POOL_RATE_FIRST      16        /* target after the first take that found no IDs */
#define POOL_RATE_MAX_TARGET (1 << 20) /* 50 ms at 20 million IDs a second */

/* Members are private. */
typedef struct {
	gint64 idle_us;
	gint64 active_at_us; /* time of the last take, or of the last take that found no IDs */
	gint64 seen_at_us;
	guint64 seen_gone;
	double per_us;
	double pushed; /* number of IDs added because takes found no IDs */
} PoolRate;

/* @idle_us: time without takes after which no further takes are expected */
void pool_rate_init(PoolRate *self, gint64 idle_us, gint64 now_us);

/* Records an observation. @gone: number of IDs taken since the start. @is_empty: a take has found
 * no IDs since the last call */
void pool_rate_observe(PoolRate *self, gint64 now_us, guint64 gone, gboolean is_empty);

/* Returns: the number of IDs to prefetch for the next @span_us; 0 if no IDs are being taken */
guint pool_rate_target(const PoolRate *self, gint64 span_us);

/* The ages of prefetched IDs. IDs that were requested within 1/64 of the maximum age form one
 * batch, which is as old as its first ID. So an ID may be discarded slightly early, but never late.
 * Batches are numbered from 1. The functions are pure.
 *
 * The IDs of a slow reply may be older than the previous batch. When they are too old, the previous
 * batch is discarded too. */

#define POOL_AGES_BATCHES 128

/* Members are private. */
typedef struct {
	gint64 max_age_us;
	guint64 oldest; /* oldest batch that may be handed out */
	guint64 newest; /* oldest - 1 if there is none */
	/* request times, indexed by batch number % POOL_AGES_BATCHES */
	gint64 asked_at_us[POOL_AGES_BATCHES];
} PoolAges;

void pool_ages_init(PoolAges *self, gint64 max_age_us);

/* Returns: the batch for IDs that were requested at @asked_at_us */
guint64 pool_ages_batch(PoolAges *self, gint64 asked_at_us);

/* Returns: the oldest batch that may be handed out at @now_us */
guint64 pool_ages_oldest(PoolAges *self, gint64 now_us);

/* Returns: when the next batch becomes too old; POOL_NEVER_US if there is none */
gint64 pool_ages_next_us(const PoolAges *self);
