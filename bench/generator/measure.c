/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/generator/measure.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The number of IDs per thread that are checked; a multiple of every batch. */
#define SAMPLE 64000

typedef struct {
	const MeasureCase *measured;
	Subject *subject;
	pthread_barrier_t *start;
	guint number;
	guint64 sum;
	gint64 end_ns;
	gint64 sample[SAMPLE];
} Task;

static gint64 monotonic_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * G_GINT64_CONSTANT(1000000000) + time.tv_nsec;
}

static void fail(const MeasureCase *measured, const char *what)
{
	fprintf(stderr, "bench-generator: %s, %u threads, batches of %u: %s\n", measured->name,
		measured->n_threads, measured->batch, what);
	exit(1);
}

/* Binds the thread to a CPU: otherwise the scheduler may run two short threads on one CPU, where
 * they do not compete. A failure is ignored. */
static void stay_on_cpu(guint number)
{
	cpu_set_t allowed;
	guint seen = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;

	guint wanted = number % (guint)CPU_COUNT(&allowed);

	for (guint cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || seen++ != wanted)
			continue;

		cpu_set_t one;

		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static void *run(void *user_data)
{
	Task *self = user_data;
	const MeasureCase *measured = self->measured;

	stay_on_cpu(self->number);
	pthread_barrier_wait(self->start);
	self->sum =
		subject_sum(self->subject, measured->batch, (guint64)measured->n_thousands * 1000);
	self->end_ns = monotonic_ns();
	subject_collect(self->subject, measured->batch, SAMPLE, self->sample);
	return NULL;
}

static int compare_ids(const void *a, const void *b)
{
	gint64 left = *(const gint64 *)a;
	gint64 right = *(const gint64 *)b;

	return (left > right) - (left < right);
}

static void check_samples(const MeasureCase *measured, const Task *tasks)
{
	gsize n_ids = (gsize)measured->n_threads * SAMPLE;
	g_autofree gint64 *ids = g_new(gint64, n_ids);

	for (guint i = 0; i < measured->n_threads; i++) {
		for (gsize j = 0; j < SAMPLE; j++) {
			if (j > 0 && subject_increases(measured->subject) &&
			    tasks[i].sample[j] <= tasks[i].sample[j - 1])
				fail(measured, "the IDs of a thread do not increase");
			ids[i * SAMPLE + j] = tasks[i].sample[j];
		}
	}
	qsort(ids, n_ids, sizeof(*ids), compare_ids);
	for (gsize i = 1; i < n_ids; i++) {
		if (ids[i] == ids[i - 1])
			fail(measured, "an ID came twice");
	}
}

double measure_ns_per_id(const MeasureCase *self)
{
	g_autoptr(Subject) subject = subject_new(self->subject);
	g_autofree Task *tasks = g_new0(Task, self->n_threads);
	pthread_t threads[MEASURE_MAX_THREADS];
	pthread_barrier_t start;
	gint64 end_ns = 0;

	pthread_barrier_init(&start, NULL, self->n_threads + 1);
	for (guint i = 0; i < self->n_threads; i++) {
		tasks[i].measured = self;
		tasks[i].subject = subject;
		tasks[i].start = &start;
		tasks[i].number = i;
		if (pthread_create(&threads[i], NULL, run, &tasks[i]) != 0)
			fail(self, "no thread could be made");
	}
	/* read the clock before the barrier: the last thread to arrive may be the last to be
	 * scheduled again */
	gint64 start_ns = monotonic_ns();

	pthread_barrier_wait(&start);
	for (guint i = 0; i < self->n_threads; i++) {
		pthread_join(threads[i], NULL);
		end_ns = MAX(end_ns, tasks[i].end_ns);
	}
	pthread_barrier_destroy(&start);
	if (self->subject != SUBJECT_CLOCK)
		check_samples(self, tasks);
	return (double)(end_ns - start_ns) / (self->n_thousands * 1000.0 * self->n_threads);
}
