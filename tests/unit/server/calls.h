/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/unit/server/wire.h"

/*
 * Random calls, for tests that hold two servers against each other: good ones,
 * and ones that look like a good one for a while.
 */

/* Appends a call of any method, its arguments as they should be in two of three; in the framing of
 * @framing, and most often in the strict protocol. */
void calls_append(GRand *random, WireForm framing, GByteArray *out);

/* Appends @count good calls of get_id, as clients send them in a row. */
void calls_append_row(GRand *random, WireForm form, guint count, GByteArray *out);

/* A few bytes changed, lost, put in or put in twice. */
void calls_damage(GRand *random, GByteArray *bytes);

/* In [0, n). */
static inline guint calls_pick(GRand *random, gsize n)
{
	return (guint)g_rand_int_range(random, 0, (gint32)n);
}
