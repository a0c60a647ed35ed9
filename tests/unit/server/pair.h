/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/server/stack.h"

/*
 * Two servers that differ in nothing but that one has the fast path. All that
 * is done to them is done to both, and after each step they must be equal: the
 * bytes that they answered, where they stopped and why, what the loop is told,
 * their counters, and the last ID that they issued.
 *
 * They may be given the same bytes in different pieces. So time stands still
 * while they read: it moves between two steps, when both have seen the same
 * bytes. Whoever takes one reading of the clock for many calls must then say
 * what is said with one for each.
 */
typedef struct {
	Stack *stack;
	GByteArray *out;
	StreamStatus status;
	gboolean answered; /* a call was, since pair_retry() */
} PairSide;

typedef struct {
	PairSide fast;
	PairSide general;
	gint64 max_ahead_ms;
	gint64 now_ns;                /* since the epoch of the layout */
	guint seen[STREAM_CLOSE + 1]; /* how often a step ended with which status */
} Pair;

Pair *pair_new(gint64 max_ahead_ms);
void pair_free(Pair *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Pair, pair_free)

/* Bytes arrive. @random cuts them, for each side in its own way; NULL: they come in one piece. What
 * comes after calls that wait, or that there is no room to answer, is not read before
 * pair_retry(). */
void pair_feed(Pair *self, const void *bytes, gsize length, GRand *random);

/* As pair_feed(), but the side with the fast path gets them in two pieces, and the other in one. */
void pair_feed_cut(Pair *self, const void *bytes, gsize length, gsize cut);

/* Both sides try again what they have not answered. */
void pair_retry(Pair *self);

/* As if the replies had been sent: there is as much room again. */
void pair_take_replies(Pair *self, gsize room);

void pair_set_frame_limit(Pair *self, gsize bytes);
void pair_set_turn(Pair *self, gboolean others_wait, guint quota, gboolean last_chance);
void pair_set_ns(Pair *self, gint64 since_epoch_ns);
void pair_publish(Pair *self, gint64 first_tick, gint64 end_tick);
void pair_extend(Pair *self, gint64 end_tick);

/* Draws behind their backs, as other loops do, until no more than @left can be drawn at the present
 * time. Nothing is drawn if there is no lease, or no tick. */
void pair_leave(Pair *self, guint left);
