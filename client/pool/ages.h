/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * How old what is in hand may be. IDs that were asked for within a 64th of the greatest age are one
 * batch, which is as old as the first of it; so an ID is thrown away a little early, and never
 * late. Batches are numbered from 1. Pure: times come in, in microseconds of one clock.
 *
 * An answer that was long under way may be older than the batch before its own. When it is too old,
 * that batch goes with it.
 */

#define POOL_AGES_BATCHES 128

/* Members are private. */
typedef struct {
	gint64 max_age_us;
	guint64 oldest;                     /* that may be handed out */
	guint64 newest;                     /* oldest - 1: there is none */
	gint64 asked_us[POOL_AGES_BATCHES]; /* of batch number % POOL_AGES_BATCHES */
} PoolAges;

void pool_ages_init(PoolAges *self, gint64 max_age_us);

/* The batch that IDs belong to which were asked for at @asked_us. */
guint64 pool_ages_batch(PoolAges *self, gint64 asked_us);

/* The oldest batch that may be handed out at @now_us. */
guint64 pool_ages_oldest(PoolAges *self, gint64 now_us);

/* When the next one is too old; POOL_NEVER_US: there is none. */
gint64 pool_ages_next_us(const PoolAges *self);
