/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/server/stack.h"

/*
 * Two servers that differ only in that one has the fast path. Each step is applied to both, and
 * after it they must be equal: their replies, where and why they stopped, their results for the
 * loop, their counters, and the last ID that they issued.
 *
 * They may get the same bytes in different pieces. So the time does not change while they read, but
 * only between two steps, when both have read the same bytes. Then one reading of the clock for
 * many calls must give the same replies as one for each call.
 */
typedef struct {
	Stack *stack;
	GByteArray *out;
	StreamStatus status;
	gboolean answered; /* a call was answered since pair_retry() */
} PairSide;

typedef struct {
	PairSide fast;
	PairSide general;
	gint64 max_ahead_ms;
	gint64 now_ns;                /* since the epoch of the layout */
	guint seen[STREAM_CLOSE + 1]; /* number of steps by final status */
} Pair;

Pair *pair_new(gint64 max_ahead_ms);
void pair_free(Pair *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Pair, pair_free)

/* Feeds bytes to both sides. @random cuts them differently for each side; NULL for one piece. Bytes
 * after a call that waits, or that has no room for its answer, are not read before pair_retry(). */
void pair_feed(Pair *self, const void *bytes, gsize length, GRand *random);

/* Like pair_feed(), but the side with the fast path gets the bytes in two pieces, and the other one
 * in one piece. */
void pair_feed_cut(Pair *self, const void *bytes, gsize length, gsize cut);

/* Lets both sides retry the calls that they have not answered. */
void pair_retry(Pair *self);

/* Removes the replies, as if they had been sent, so that there is room for @room bytes again. */
void pair_take_replies(Pair *self, gsize room);

void pair_set_frame_limit(Pair *self, gsize bytes);
void pair_set_turn(Pair *self, gboolean others_wait, guint quota, gboolean last_chance);
void pair_set_ns(Pair *self, gint64 since_epoch_ns);
void pair_publish(Pair *self, gint64 first_tick, gint64 end_tick);
void pair_extend(Pair *self, gint64 end_tick);

/* Draws from both generators, as other loops do, until at most @left IDs are left at the current
 * time. Draws nothing without a lease or a tick. */
void pair_leave(Pair *self, guint left);
