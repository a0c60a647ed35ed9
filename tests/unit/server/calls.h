/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/server/wire.h"

/*
 * Random calls, for tests that compare two servers: valid ones, and ones that begin like a valid
 * one.
 */

/* Appends a call of any method, with valid arguments in two of three cases, in the framing of
 * @framing, and most often in the strict protocol. */
void calls_append(GRand *random, WireForm framing, GByteArray *out);

/* Appends @count good calls to get_id, as clients send them in a row. */
void calls_append_row(GRand *random, WireForm form, guint count, GByteArray *out);

/* Changes, removes, inserts or repeats a few bytes. */
void calls_damage(GRand *random, GByteArray *bytes);

/* Returns a random number in [0, n). */
static inline guint calls_pick(GRand *random, gsize n)
{
	return (guint)g_rand_int_range(random, 0, (gint32)n);
}
