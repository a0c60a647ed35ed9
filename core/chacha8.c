/* SPDX-License-Identifier: Apache-2.0 */
#include "core/chacha8.h"

#include <string.h>

#define ROUNDS 8

/* One word of each block; the compiler has a vector register for it, or does without. */
typedef guint32 Lanes __attribute__((vector_size(sizeof(guint32) * CHACHA8_LANES)));

#define ROTATE_LEFT(lanes, bits) ((lanes) << (bits) | (lanes) >> (32 - (bits)))

static inline void quarter_round(Lanes *a, Lanes *b, Lanes *c, Lanes *d)
{
	*a += *b;
	*d = ROTATE_LEFT(*d ^ *a, 16);
	*c += *d;
	*b = ROTATE_LEFT(*b ^ *c, 12);
	*a += *b;
	*d = ROTATE_LEFT(*d ^ *a, 8);
	*c += *d;
	*b = ROTATE_LEFT(*b ^ *c, 7);
}

static inline void double_round(Lanes x[static CHACHA8_BLOCK_WORDS])
{
	quarter_round(&x[0], &x[4], &x[8], &x[12]);
	quarter_round(&x[1], &x[5], &x[9], &x[13]);
	quarter_round(&x[2], &x[6], &x[10], &x[14]);
	quarter_round(&x[3], &x[7], &x[11], &x[15]);
	quarter_round(&x[0], &x[5], &x[10], &x[15]);
	quarter_round(&x[1], &x[6], &x[11], &x[12]);
	quarter_round(&x[2], &x[7], &x[8], &x[13]);
	quarter_round(&x[3], &x[4], &x[9], &x[14]);
}

void chacha8_blocks(const guint32 key[static CHACHA8_KEY_WORDS], guint32 counter,
		    guint32 out_words[static CHACHA8_BLOCK_WORDS][CHACHA8_LANES])
{
	/* "expand 32-byte k" */
	static const guint32 constants[] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
	const Lanes none = {0};
	Lanes start[CHACHA8_BLOCK_WORDS] = {0};
	Lanes x[CHACHA8_BLOCK_WORDS];

	for (int i = 0; i < 4; i++)
		start[i] = none + constants[i];
	for (int i = 0; i < CHACHA8_KEY_WORDS; i++)
		start[4 + i] = none + key[i];
	start[12] = (Lanes){0, 1, 2, 3} + counter;
	memcpy(x, start, sizeof(x));
	for (int i = 0; i < ROUNDS; i += 2)
		double_round(x);
	for (int i = 0; i < CHACHA8_BLOCK_WORDS; i++) {
		x[i] += start[i];
		memcpy(out_words[i], &x[i], sizeof(x[i]));
	}
	explicit_bzero(start, sizeof(start));
	explicit_bzero(x, sizeof(x));
}
