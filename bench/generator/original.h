/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>

/*
 * The original algorithm, for comparison: one mutex protects reading the clock, comparing it with
 * the last time, and incrementing the sequence. Any thread can draw IDs.
 */

/* Members are private. */
typedef struct {
	pthread_mutex_t mutex;
	guint sequence_bits;
	gint64 last_ms;
	guint64 sequence;
} Original;

/* @sequence_bits: 1 to 22; the 41 bits of the time are directly above. */
void original_init(Original *self, guint sequence_bits);
void original_clear(Original *self);

/* Returns an ID, or -1 if the clock stepped back. If the sequence of this millisecond is used up,
 * spins until the next one. */
gint64 original_next_id(Original *self);
