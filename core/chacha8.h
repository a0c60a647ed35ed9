/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The keystream of ChaCha with 8 rounds, 64 bits of counter and 64 bits of nonce, which is 0 here:
 * D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008. No attack on as many rounds is known.
 */
#define CHACHA8_KEY_WORDS   8
#define CHACHA8_BLOCK_WORDS 16
#define CHACHA8_LANES       4 /* blocks that are made at once */

/* Writes the blocks @counter to @counter + 3, their words interleaved: @out_words[w][i] is word w
 * of block @counter + i. Leaves no copy of the key, and none of what it writes. */
void chacha8_blocks(const guint32 key[static CHACHA8_KEY_WORDS], guint32 counter,
		    guint32 out_words[static CHACHA8_BLOCK_WORDS][CHACHA8_LANES]);
