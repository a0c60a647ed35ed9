/* SPDX-License-Identifier: Apache-2.0 */
#include "core/random.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>

#define BLOCK_NUMBERS 512

typedef guint32 Words[CHACHA8_BLOCK_WORDS][CHACHA8_LANES];

typedef struct {
	union {
		Words words[BLOCK_NUMBERS * sizeof(guint64) / sizeof(Words)];
		guint64 numbers[BLOCK_NUMBERS];
	};
	gsize n_left; /* the first n_left numbers are unused */
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

static G_GNUC_NO_INLINE void refill_block(Block *self)
{
	guint32 key[CHACHA8_KEY_WORDS];

	pthread_once(&watch_once, watch_forks);
	self->fork_generation = random_fork_generation();
	random_from_kernel(key, sizeof(key));
	for (guint32 i = 0; i < G_N_ELEMENTS(self->words); i++)
		random_chacha8_blocks(key, i * CHACHA8_LANES, self->words[i]);
	explicit_bzero(key, sizeof(key));
	self->n_left = BLOCK_NUMBERS;
}

/* Returns the thread's block, which contains at least one unused number. */
static inline Block *ready_block(void)
{
	Block *self = &thread_block;

	if (G_UNLIKELY(self->n_left == 0 || self->fork_generation != random_fork_generation()))
		refill_block(self);
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

#define ROUNDS 8

/* Contains one word of each block. The compiler uses a vector register if the processor has one. */
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

void random_chacha8_blocks(const guint32 key[static CHACHA8_KEY_WORDS], guint32 counter,
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
	for (int i = 0; i < ROUNDS; i += 2) {
		quarter_round(&x[0], &x[4], &x[8], &x[12]);
		quarter_round(&x[1], &x[5], &x[9], &x[13]);
		quarter_round(&x[2], &x[6], &x[10], &x[14]);
		quarter_round(&x[3], &x[7], &x[11], &x[15]);
		quarter_round(&x[0], &x[5], &x[10], &x[15]);
		quarter_round(&x[1], &x[6], &x[11], &x[12]);
		quarter_round(&x[2], &x[7], &x[8], &x[13]);
		quarter_round(&x[3], &x[4], &x[9], &x[14]);
	}
	for (int i = 0; i < CHACHA8_BLOCK_WORDS; i++) {
		x[i] += start[i];
		memcpy(out_words[i], &x[i], sizeof(x[i]));
	}
	explicit_bzero(start, sizeof(start));
	explicit_bzero(x, sizeof(x));
}
