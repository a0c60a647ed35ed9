/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Random numbers that nobody can guess. Any thread may draw them: each has a block of its own. For
 * each block 32 bytes come from the kernel (getrandom(2)), and ChaCha8 makes 4 KiB of them: the
 * kernel alone needs 26 ns for the 10 random bytes of a ULID, and more than the rest of it costs.
 * The key is wiped as soon as its block is there, and each number as it is handed out, so that
 * memory that leaks tells nothing of those of the past.
 *
 * A block is never used on both sides of a fork(): the child makes a new one. A child of a bare
 * clone(2) or of _Fork(3) draws its parent's numbers. random_from_kernel() differs there too.
 *
 * Before the kernel has randomness, early in the boot of a machine, the first call waits for it.
 * After that it cannot fail; if it does, as getrandom is forbidden, the process ends with a line
 * that says so: there is nothing to go on with.
 */

guint64 random_u64(void);

/* Many of them, for less each. */
void random_fill(gsize n_numbers, guint64 *out_numbers);

/* Takes the bytes from the kernel, not from a block. @n_bytes: 256 at most */
void random_from_kernel(void *out_bytes, gsize n_bytes);

/* Another number in a child of fork() than in its parent, if the process has drawn before the fork.
 * What must not go on alike on both sides remembers it. */
guint random_fork_generation(void);

/*
 * The keystream of ChaCha with 8 rounds, 64 bits of counter and 64 bits of nonce, which is 0 here:
 * D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008. No attack on as many rounds is known.
 */
#define CHACHA8_KEY_WORDS   8
#define CHACHA8_BLOCK_WORDS 16
#define CHACHA8_LANES       4 /* blocks that are made at once */

/* Writes the blocks @counter to @counter + 3, their words interleaved: @out_words[w][i] is word w
 * of block @counter + i. Leaves no copy of the key, and none of what it writes. */
void random_chacha8_blocks(const guint32 key[static CHACHA8_KEY_WORDS], guint32 counter,
			   guint32 out_words[static CHACHA8_BLOCK_WORDS][CHACHA8_LANES]);
