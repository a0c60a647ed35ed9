/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Unpredictable random numbers. Any thread can draw them from its own block. ChaCha8 makes each
 * block of 4 KiB from 32 bytes from the kernel (getrandom(2)). Asking the kernel for the 10 random
 * bytes of each ULID would take 26 ns, more than the rest of the work. The key is wiped after use,
 * and each number when it is returned, so that leaked memory reveals no earlier numbers.
 *
 * Parent and child never use the same block after a fork(), because the child makes a new one. A
 * child of clone(2) or _Fork(3) draws the same numbers as its parent, except from
 * random_from_kernel().
 *
 * Early in the boot of a machine, the first call waits until the kernel's generator is ready. Later
 * calls cannot fail; if getrandom() is forbidden, the process is aborted with a message. */

guint64 random_u64(void);

/* Draws many numbers, at a lower cost per number. */
void random_fill(gsize n_numbers, guint64 *out_numbers);

/* Gets bytes directly from the kernel. @n_bytes: at most 256 */
void random_from_kernel(void *out_bytes, gsize n_bytes);

/* Returns a number that differs between parent and child after a fork(), if the parent has drawn a
 * number before. A generator stores it to detect that it is used in a child. */
guint random_fork_generation(void);

/* The keystream of ChaCha with 8 rounds, 64 bits of counter and 64 bits of nonce, which is 0 here:
 * D. J. Bernstein, "ChaCha, a variant of Salsa20", 2008. No attack on 8 rounds is known. */
#define CHACHA8_KEY_WORDS   8
#define CHACHA8_BLOCK_WORDS 16
#define CHACHA8_LANES       4 /* number of blocks that are computed at once */

/* Writes the blocks @counter to @counter + 3 with interleaved words: @out_words[w][i] is word w of
 * block @counter + i. Leaves no copy of the key or of the blocks. */
void random_chacha8_blocks(const guint32 key[static CHACHA8_KEY_WORDS], guint32 counter,
			   guint32 out_words[static CHACHA8_BLOCK_WORDS][CHACHA8_LANES]);
