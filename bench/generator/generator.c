/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What an ID costs, without the network: nanoseconds per reading of the clock and per ID, drawn one
 * by one and in batches of 64, by one thread and by two. Of several rounds it prints the best,
 * which is what the code costs, and the median, which is what the machine made of it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/generator.h"

#define ROUNDS      25
#define READINGS    1000000
#define IDS         (64 * 16000) /* per thread and round */
#define MAX_THREADS 2

/* So many IDs a millisecond that no draw has to wait. */
static const Layout layout = {.epoch_ms = 1288834974657,
			      .tick_ms = 1,
			      .time_bits = 41,
			      .datacenter_bits = 0,
			      .worker_bits = 0,
			      .sequence_bits = 22};

typedef struct {
	Generator *generator;
	pthread_barrier_t *start;
	guint batch;
	guint64 sum; /* of the IDs, so that they are computed */
} Task;

typedef struct {
	double best;
	double median;
} Figure;

static gint64 monotonic_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * G_GINT64_CONSTANT(1000000000) + time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double difference = *(const double *)a - *(const double *)b;

	return (difference > 0) - (difference < 0);
}

static Figure figure(double rounds[static ROUNDS])
{
	qsort(rounds, ROUNDS, sizeof(*rounds), compare);
	return (Figure){.best = rounds[0], .median = rounds[ROUNDS / 2]};
}

static void *draw(void *user_data)
{
	Task *task = user_data;
	guint64 sum = 0;
	DrawRefusal refusal;
	IdRun run;

	pthread_barrier_wait(task->start);
	for (guint drawn = 0; drawn < IDS; drawn += task->batch) {
		if (generator_draw(task->generator, task->batch, &run, &refusal) != DRAW_OK) {
			fputs("bench-generator: a draw was refused\n", stderr);
			exit(1);
		}
		for (guint i = 0; i < run.count; i++)
			sum += (guint64)id_run_get(&run, i);
	}
	task->sum = sum;
	return NULL;
}

static double round_ns_per_id(Generator *generator, guint batch, guint n_threads)
{
	pthread_t threads[MAX_THREADS];
	Task tasks[MAX_THREADS];
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, n_threads + 1);
	for (guint i = 0; i < n_threads; i++) {
		tasks[i] = (Task){.generator = generator, .start = &start, .batch = batch};
		if (pthread_create(&threads[i], NULL, draw, &tasks[i]) != 0)
			abort();
	}
	/* before the barrier: its last thread to arrive may be the last to be scheduled again */
	gint64 start_ns = monotonic_ns();

	pthread_barrier_wait(&start);
	for (guint i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);

	gint64 end_ns = monotonic_ns();

	pthread_barrier_destroy(&start);
	return (double)(end_ns - start_ns) / ((double)IDS * n_threads);
}

static Figure ns_per_id(Generator *generator, guint batch, guint n_threads)
{
	double rounds[ROUNDS];

	for (guint i = 0; i < ROUNDS; i++)
		rounds[i] = round_ns_per_id(generator, batch, n_threads);
	return figure(rounds);
}

static Figure ns_per_reading(const Clock *clock)
{
	double rounds[ROUNDS];

	for (guint i = 0; i < ROUNDS; i++) {
		gint64 start_ns = monotonic_ns();

		for (guint j = 0; j < READINGS; j++)
			clock_now_ns(clock);
		rounds[i] = (double)(monotonic_ns() - start_ns) / READINGS;
	}
	return figure(rounds);
}

static void print(const char *what, Figure figure)
{
	printf("%-28s %8.2f %8.2f\n", what, figure.best, figure.median);
}

int main(void)
{
	const GeneratorPolicy policy = {
		.max_ahead_ms = 10, .sequence_start_range = 1, .max_batch = 64};
	SystemClock clock;

	system_clock_init(&clock);

	g_autoptr(Generator) generator = generator_new(&layout, &clock.clock, &policy);
	gint64 now_tick = layout_tick_at(&layout, clock_now_ms(&clock.clock));

	generator_publish(generator, lease_new(&layout, 0, 0, now_tick, layout_max_tick(&layout)));

	printf("%-28s %8s %8s\n", "ns", "best", "median");
	print("clock reading", ns_per_reading(&clock.clock));
	print("ID, one thread", ns_per_id(generator, 1, 1));
	print("ID of 64, one thread", ns_per_id(generator, 64, 1));
	print("ID, two threads", ns_per_id(generator, 1, 2));
	print("ID of 64, two threads", ns_per_id(generator, 64, 2));
	return 0;
}
