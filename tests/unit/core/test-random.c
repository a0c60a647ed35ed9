/* SPDX-License-Identifier: Apache-2.0 */
#include "core/random.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit-test.h"

#define MANY      5000 /* numbers from several blocks */
#define FEW       700  /* more than the rest of a block */
#define N_THREADS 4

static int compare_numbers(const void *a, const void *b)
{
	guint64 left = *(const guint64 *)a;
	guint64 right = *(const guint64 *)b;

	return (left > right) - (left < right);
}

/* Sorts the numbers, and asserts that all differ. Two are equal by chance once in 2^40 runs. */
static void assert_all_differ(guint64 *numbers, gsize n_numbers)
{
	qsort(numbers, n_numbers, sizeof(*numbers), compare_numbers);
	for (gsize i = 1; i < n_numbers; i++)
		g_assert_cmphex(numbers[i], !=, numbers[i - 1]);
}

/* draft-strombergson-chacha-test-vectors-00, 8 rounds, 256 bits of key, IV 0: TC1 and TC2 */
TEST("/random/chacha8", test_chacha8)
{
	static const struct {
		guint32 first_key_word;
		const char *blocks[2];
	} cases[] = {
		{0,
		 {"3e00ef2f895f40d67f5bb8e81f09a5a12c840ec3ce9a7f3b181be188ef711a1e"
		  "984ce172b9216f419f445367456d5619314a42a3da86b001387bfdb80e0cfe42",
		  "d2aefa0deaa5c151bf0adb6c01f2a5adc0fd581259f9a2aadcf20f8fd566a26b"
		  "5032ec38bbc5da98ee0c6f568b872a65a08abf251deb21bb4b56e5d8821e68aa"}},
		{1,
		 {"cf5ee9a0494aa9613e05d5ed725b804b12f4a465ee635acc3a311de8740489ea"
		  "289d04f43c7518db56eb4433e498a1238cd8464d3763ddbb9222ee3bd8fae3c8",
		  NULL}},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		const guint32 key[CHACHA8_KEY_WORDS] = {cases[i].first_key_word};

		for (guint32 block = 0; block < 2 && cases[i].blocks[block] != NULL; block++) {
			/* each block at each position of a group that is made at once */
			for (guint32 lane = 0; lane < CHACHA8_LANES; lane++) {
				guint32 words[CHACHA8_BLOCK_WORDS][CHACHA8_LANES];
				g_autoptr(GString) text = g_string_new(NULL);

				random_chacha8_blocks(key, block - lane, words);
				for (int word = 0; word < CHACHA8_BLOCK_WORDS; word++)
					g_string_append_printf(
						text, "%08x",
						GUINT32_SWAP_LE_BE(words[word][lane]));
				g_assert_cmpstr(text->str, ==, cases[i].blocks[block]);
			}
		}
	}
}

/* Numbers are drawn in pieces of each length, across the ends of blocks. */
TEST("/random/all-differ", test_all_differ)
{
	guint64 numbers[MANY];

	for (gsize n_numbers = 0, n = 1; n_numbers < MANY; n_numbers += n, n++) {
		n = MIN(n, MANY - n_numbers);
		random_fill(n, &numbers[n_numbers]);
	}
	assert_all_differ(numbers, MANY);
}

/* Halves of numbers do not repeat either, as they would if a block overlapped itself. Two are equal
 * by chance once in 80 runs. */
TEST("/random/halves-differ", test_halves_differ)
{
	guint64 halves[2 * MANY];
	guint n_alike = 0;

	for (gsize i = 0; i < MANY; i++) {
		guint64 number = random_u64();

		halves[2 * i] = number >> 32;
		halves[2 * i + 1] = number & G_MAXUINT32;
	}
	qsort(halves, 2 * MANY, sizeof(*halves), compare_numbers);
	for (gsize i = 1; i < 2 * MANY; i++)
		n_alike += halves[i] == halves[i - 1];
	g_assert_cmpuint(n_alike, <, 5);
}

/* Each bit is set in about half of the numbers: within 5 standard deviations. */
TEST("/random/even", test_even)
{
	const guint n_numbers = 100000;
	const gint limit = 5 * 158; /* sqrt(n / 4) */

	for (guint bit = 0; bit < 64; bit++) {
		gint n_set = 0;

		for (guint i = 0; i < n_numbers; i++)
			n_set += (random_u64() >> bit & 1) != 0;
		g_assert_cmpint(ABS(n_set - (gint)n_numbers / 2), <, limit);
	}
}

static _Thread_local volatile guint64 kept;

/* Returns how often a number, given with inverted bits, occurs in the thread-local storage. */
__attribute__((no_sanitize_address)) static guint count_in_thread_storage(guint64 inverted)
{
	g_autofree char *maps = NULL;
	g_autoptr(GError) error = NULL;
	guintptr here = (guintptr)&kept;
	guint n_found = 0;

	g_assert_true(g_file_get_contents("/proc/self/maps", &maps, NULL, &error));
	for (const char *line = maps; *line != '\0'; line = strchr(line, '\n') + 1) {
		char *end_text;
		guintptr start = g_ascii_strtoull(line, &end_text, 16);
		guintptr end = g_ascii_strtoull(end_text + 1, NULL, 16);

		if (here < start || here >= end)
			continue;
		for (const volatile guint64 *word = (guint64 *)start; word < (guint64 *)end; word++)
			n_found += *word == ~inverted;
	}
	return n_found;
}

TEST("/random/wiped", test_wiped)
{
	guint64 numbers[3];

	random_fill(2, numbers);
	numbers[2] = random_u64();
	for (gsize i = 0; i < G_N_ELEMENTS(numbers); i++) {
		guint64 inverted = ~numbers[i];

		g_assert_cmpuint(count_in_thread_storage(inverted), ==, 0);
		kept = numbers[i];
		g_assert_cmpuint(count_in_thread_storage(inverted), ==, 1);
		kept = 0;
	}
}

static void read_all(int fd, void *out_bytes, gsize n_bytes)
{
	for (gsize done = 0; done < n_bytes;) {
		gssize n = read(fd, (char *)out_bytes + done, n_bytes - done);

		g_assert_cmpint(n, >, 0);
		done += (gsize)n;
	}
}

/* Draws @FEW numbers in a forked child, and sends them to the parent. */
static void draw_in_child(guint64 out_numbers[static FEW])
{
	int fds[2];

	g_assert_cmpint(pipe(fds), ==, 0);

	pid_t pid = fork();

	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		guint64 numbers[FEW];

		random_fill(FEW, numbers);
		_exit(write(fds[1], numbers, sizeof(numbers)) == sizeof(numbers) ? 0 : 1);
	}
	close(fds[1]);
	read_all(fds[0], out_numbers, FEW * sizeof(*out_numbers));
	close(fds[0]);

	int status;

	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
}

/* Two children and their parent draw from the same block of the parent. */
static void *fork_twice(G_GNUC_UNUSED void *user_data)
{
	guint64 numbers[3][FEW];
	guint generation = random_fork_generation();

	random_u64();
	draw_in_child(numbers[0]);
	draw_in_child(numbers[1]);
	g_assert_cmpuint(random_fork_generation(), ==, generation);
	random_fill(FEW, numbers[2]);
	assert_all_differ(&numbers[0][0], G_N_ELEMENTS(numbers) * FEW);
	return NULL;
}

/* Each thread has a block that must not be reused after a fork, not only the first thread. */
TEST("/random/fork", test_fork)
{
	pthread_t thread;

	fork_twice(NULL);
	random_u64();
	g_assert_cmpint(pthread_create(&thread, NULL, fork_twice, NULL), ==, 0);
	g_assert_cmpint(pthread_join(thread, NULL), ==, 0);
}

typedef struct {
	pthread_barrier_t *start;
	guint64 numbers[MANY];
} Drawer;

static void *draw(void *user_data)
{
	Drawer *self = user_data;

	pthread_barrier_wait(self->start);
	for (gsize i = 0; i < MANY; i++)
		self->numbers[i] = random_u64();
	return NULL;
}

TEST("/random/threads", test_threads)
{
	pthread_barrier_t start;
	pthread_t threads[N_THREADS];
	Drawer drawers[N_THREADS];
	guint64 numbers[N_THREADS][MANY];

	pthread_barrier_init(&start, NULL, N_THREADS);
	for (gsize i = 0; i < N_THREADS; i++) {
		drawers[i].start = &start;
		g_assert_cmpint(pthread_create(&threads[i], NULL, draw, &drawers[i]), ==, 0);
	}
	for (gsize i = 0; i < N_THREADS; i++) {
		g_assert_cmpint(pthread_join(threads[i], NULL), ==, 0);
		memcpy(numbers[i], drawers[i].numbers, sizeof(numbers[i]));
	}
	pthread_barrier_destroy(&start);
	assert_all_differ(&numbers[0][0], N_THREADS * MANY);
}
