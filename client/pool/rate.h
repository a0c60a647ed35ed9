/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * How much to have in hand, by how fast it goes. Pure: times come in, in microseconds of one clock.
 *
 * The rate is a moving average, quick to rise and slower to fall. It cannot show more than was
 * there to be taken; so when takers find nothing, the target doubles until they find something.
 * When nobody has taken any for a while, it is 0.
 */

#define POOL_RATE_FIRST      16        /* IDs: the target when takers find nothing for once */
#define POOL_RATE_MAX_TARGET (1 << 20) /* IDs: 50 ms of 20 million a second */

/* Members are private. */
typedef struct {
	gint64 idle_us;
	gint64 moved_us; /* when takers last had some, or found nothing */
	gint64 seen_us;
	guint64 seen_gone;
	double per_us;
	double pushed; /* IDs: by takers that found nothing */
} PoolRate;

/* @idle_us: how long nobody takes any, until nobody is expected to */
void pool_rate_init(PoolRate *self, gint64 idle_us, gint64 now_us);

/**
 * pool_rate_observe:
 * @gone: IDs that takers have had since the start
 * @is_dry: takers have found nothing since the last time
 */
void pool_rate_observe(PoolRate *self, gint64 now_us, guint64 gone, gboolean is_dry);

/* Returns: how many IDs to have in hand for the next @span_us; 0: nobody takes any */
guint pool_rate_target(const PoolRate *self, gint64 span_us);
