/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <pthread.h>

/*
 * The algorithm of 2010 as it was, to compare with: one mutex around reading the clock, comparing
 * with the last time and counting up. Any thread may ask it for IDs.
 */

/* Members are private. */
typedef struct {
	pthread_mutex_t mutex;
	guint sequence_bits;
	gint64 last_ms;
	guint64 sequence;
} Original;

/* @sequence_bits: 1 to 22; the 41 bits of the time stand directly above. */
void original_init(Original *self, guint sequence_bits);
void original_clear(Original *self);

/* An ID, or -1 if the clock stepped back. Spins until the next millisecond if the sequence of this
 * one is used up. */
gint64 original_next_id(Original *self);
