/* SPDX-License-Identifier: Apache-2.0 */
#include "core/random.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#include "core/chacha8.h"

#define BLOCK_NUMBERS 512

typedef guint32 Words[CHACHA8_BLOCK_WORDS][CHACHA8_LANES];

typedef struct {
	union {
		Words words[BLOCK_NUMBERS * sizeof(guint64) / sizeof(Words)];
		guint64 numbers[BLOCK_NUMBERS];
	};
	gsize n_left; /* of the numbers, the first ones */
	guint fork_generation;
} Block;

static _Thread_local Block thread_block;
static _Atomic guint fork_generation;
static pthread_once_t watch_once = PTHREAD_ONCE_INIT;

static void begin_generation(void)
{
	atomic_fetch_add_explicit(&fork_generation, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
	if (pthread_atfork(NULL, NULL, begin_generation) != 0)
		g_error("pthread_atfork: no memory"); /* lint: allow fatal: as GLib does */
}

guint random_fork_generation(void)
{
	return atomic_load_explicit(&fork_generation, memory_order_relaxed);
}

void random_from_kernel(void *out_bytes, gsize n_bytes)
{
	/* getentropy() calls getrandom() again if a signal interrupts it */
	if (getentropy(out_bytes, n_bytes) != 0)
		g_error("getrandom: %s", g_strerror(errno)); /* lint: allow fatal: as in random.h */
}

static G_GNUC_NO_INLINE void refill(Block *self)
{
	guint32 key[CHACHA8_KEY_WORDS];

	pthread_once(&watch_once, watch_forks);
	self->fork_generation = random_fork_generation();
	random_from_kernel(key, sizeof(key));
	for (guint32 i = 0; i < G_N_ELEMENTS(self->words); i++)
		chacha8_blocks(key, i * CHACHA8_LANES, self->words[i]);
	explicit_bzero(key, sizeof(key));
	self->n_left = BLOCK_NUMBERS;
}

/* The thread's block, with a number left at least. */
static inline Block *ready_block(void)
{
	Block *self = &thread_block;

	if (G_UNLIKELY(self->n_left == 0 || self->fork_generation != random_fork_generation()))
		refill(self);
	return self;
}

guint64 random_u64(void)
{
	Block *self = ready_block();
	guint64 *number = &self->numbers[--self->n_left];
	guint64 value = *number;

	*number = 0;
	return value;
}

void random_fill(gsize n_numbers, guint64 *out_numbers)
{
	while (n_numbers > 0) {
		Block *self = ready_block();
		gsize n = MIN(n_numbers, self->n_left);
		guint64 *numbers = &self->numbers[self->n_left - n];

		memcpy(out_numbers, numbers, n * sizeof(*numbers));
		memset(numbers, 0, n * sizeof(*numbers));
		self->n_left -= n;
		out_numbers += n;
		n_numbers -= n;
	}
}
