/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Unpredictable random numbers. Any thread can draw them from its own block. ChaCha8 makes each
 * block of 4 KiB from 32 bytes of the kernel (getrandom(2)), because the kernel takes 26 ns for the
 * 10 random bytes of a ULID, more than all else. The key is wiped after use, and each number when
 * it is handed out, so that leaked memory reveals no earlier numbers.
 *
 * A block is never used on both sides of a fork(): the child makes a new one. A child of a bare
 * clone(2) or of _Fork(3) draws its parent's numbers; only random_from_kernel() differs there too.
 *
 * Early in the boot of a machine, the first call waits until the kernel has randomness. Later calls
 * cannot fail; if getrandom is forbidden, the process ends with a message.
 */

guint64 random_u64(void);

/* Many numbers, cheaper for each. */
void random_fill(gsize n_numbers, guint64 *out_numbers);

/* Takes the bytes from the kernel, not from a block. @n_bytes: 256 at most */
void random_from_kernel(void *out_bytes, gsize n_bytes);

/* A number that differs between a child of fork() and its parent, if the process has drawn before.
 * State that must not continue equally on both sides remembers it. */
guint random_fork_generation(void);

/*
 * The keystream of ChaCha with 8 rounds, 64 bits of counter and 64 bits of nonce, which is 0 here:
 * D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008. No attack on 8 rounds is known.
 */
#define CHACHA8_KEY_WORDS   8
#define CHACHA8_BLOCK_WORDS 16
#define CHACHA8_LANES       4 /* blocks that are made at once */

/* Writes the blocks @counter to @counter + 3, their words interleaved: @out_words[w][i] is word w
 * of block @counter + i. Leaves no copy of the key or of the blocks. */
void random_chacha8_blocks(const guint32 key[static CHACHA8_KEY_WORDS], guint32 counter,
			   guint32 out_words[static CHACHA8_BLOCK_WORDS][CHACHA8_LANES]);
