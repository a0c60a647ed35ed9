/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/pool/takers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/pool/pace.h"

#define GROUP         64 /* takes between two readings of the clock */
#define TICK_NS       1000000
#define TICKS_A_BURST 100
#define CHILD_THREADS 2
#define CHILD_IDS     500

typedef struct {
	const TakersPlan *plan;
	SnowflakePool *pool;
	Seen *seen;
	pthread_barrier_t *bursts;
	_Atomic gboolean *stops;
	gint64 last;
	guint64 ids;
	guint64 failed;
	char *first_error;
	guint64 twice;
	guint64 went_back;
	gint64 longest_ns;
	GArray *burst_ns;
} Taker;

static void take_one(Taker *self)
{
	g_autoptr(GError) error = NULL;
	gint64 id;

	if (G_UNLIKELY(!snowflake_pool_take(self->pool, &id, &error))) {
		self->failed++;
		if (self->first_error == NULL)
			self->first_error = g_strdup(error->message);
		return;
	}
	self->ids++;
	self->went_back += id <= self->last;
	self->last = id;
	if (self->seen != NULL)
		self->twice += !seen_add(self->seen, id);
}

static gint64 take(Taker *self, guint64 count)
{
	gint64 begun_ns = pace_now_ns();

	for (guint64 i = 0; i < count; i++)
		take_one(self);
	return pace_now_ns() - begun_ns;
}

static void take_group(Taker *self, guint64 count)
{
	gint64 took_ns = take(self, count);

	self->longest_ns = MAX(self->longest_ns, took_ns);
}

static void take_burst(Taker *self)
{
	pthread_barrier_wait(self->bursts);

	double ns = (double)take(self, self->plan->burst) / self->plan->burst;

	g_array_append_val(self->burst_ns, ns);
}

/* Takes some IDs each millisecond, one at a time, so that each take is measured. */
static void take_at_pace(Taker *self)
{
	double ids_per_tick =
		self->plan->ids_per_s / self->plan->threads * TICK_NS / (double)PACE_NS_PER_S;
	gint64 begun_ns = pace_now_ns();
	guint64 due = 0;

	for (guint64 tick = 1; !atomic_load(self->stops); tick++) {
		pace_sleep_until(begun_ns + (gint64)tick * TICK_NS);
		for (; due < (guint64)(ids_per_tick * (double)tick); due++)
			take_group(self, 1);
		if (self->plan->burst > 0 && tick % TICKS_A_BURST == 0)
			take_burst(self);
	}
}

static void *run(void *user_data)
{
	Taker *self = user_data;

	if (self->plan->ids_per_s > 0) {
		take_at_pace(self);
		return NULL;
	}
	while (!atomic_load_explicit(self->stops, memory_order_relaxed) &&
	       (self->plan->max_ids == 0 || self->ids < self->plan->max_ids / self->plan->threads))
		take_group(self, GROUP);
	return NULL;
}

static gboolean is_well(const Taker *self)
{
	return self->failed == 0 && self->twice == 0;
}

static void *run_in_child(void *user_data)
{
	take(user_data, CHILD_IDS);
	return NULL;
}

/* Runs in a child. Its first thread got its slot before the fork; other threads may get one before
 * it. */
static int be_child(const Taker *parent, gboolean frees)
{
	Taker takers[CHILD_THREADS];
	pthread_t threads[CHILD_THREADS];
	gboolean well = TRUE;

	for (guint i = 0; i < CHILD_THREADS; i++) {
		takers[i] = (Taker){.pool = parent->pool, .seen = parent->seen};
		if (pthread_create(&threads[i], NULL, run_in_child, &takers[i]) != 0)
			return 1;
	}

	Taker first = {.pool = parent->pool, .seen = parent->seen};

	take(&first, CHILD_IDS);
	well = is_well(&first);
	for (guint i = 0; i < CHILD_THREADS; i++) {
		pthread_join(threads[i], NULL);
		well = well && is_well(&takers[i]);
	}
	if (frees)
		snowflake_pool_free(parent->pool);
	return well ? 0 : 1;
}

static void make_child(Taker *parent, TakersReport *report)
{
	int status = 0;
	pid_t pid;

	take(parent, 3);
	pid = fork();
	if (pid == 0)
		_exit(be_child(parent, report->children % 2 == 0));
	report->children++;
	report->bad_children += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
	take(parent, 3);
}

static volatile sig_atomic_t is_interrupted;

static void on_interrupt(int number G_GNUC_UNUSED)
{
	is_interrupted = TRUE;
}

/* Waits in the main thread until the time is over or SIGINT arrives. */
static void preside(Taker *self, TakersReport *report)
{
	gint64 end_ns = pace_now_ns() + (gint64)(self->plan->seconds * (double)PACE_NS_PER_S);
	gint64 pause_ns = PACE_NS_PER_S / MAX(self->plan->forks_per_s, 20);

	signal(SIGINT, on_interrupt);
	while (!is_interrupted && pace_now_ns() < end_ns) {
		pace_sleep_until(MIN(pace_now_ns() + pause_ns, end_ns));
		if (self->plan->forks_per_s > 0)
			make_child(self, report);
	}
}

static void add_up(TakersReport *report, Taker *taker)
{
	report->ids += taker->ids;
	report->failed += taker->failed;
	report->twice += taker->twice;
	report->went_back += taker->went_back;
	report->longest_us = MAX(report->longest_us, (double)taker->longest_ns / 1000);
	g_array_append_vals(report->burst_ns, taker->burst_ns->data, taker->burst_ns->len);
	g_array_unref(taker->burst_ns);
	if (report->first_error == NULL)
		report->first_error = g_steal_pointer(&taker->first_error);
	g_free(taker->first_error);
}

void takers_run(const TakersPlan *plan, SnowflakePool *pool, Seen *seen, TakersReport *out_report)
{
	Taker takers[TAKERS_MAX_THREADS + 1]; /* the last is the program's first thread */
	pthread_t threads[TAKERS_MAX_THREADS];
	pthread_barrier_t bursts;
	_Atomic gboolean stops = FALSE;
	gint64 begun_ns = pace_now_ns();

	*out_report = (TakersReport){.burst_ns = g_array_new(FALSE, FALSE, sizeof(double))};
	pthread_barrier_init(&bursts, NULL, plan->threads);
	for (guint i = 0; i <= plan->threads; i++) {
		takers[i] = (Taker){.plan = plan,
				    .pool = pool,
				    .seen = seen,
				    .bursts = &bursts,
				    .stops = &stops};
		takers[i].burst_ns = g_array_new(FALSE, FALSE, sizeof(double));
	}
	for (guint i = 0; i < plan->threads; i++)
		g_assert_cmpint(pthread_create(&threads[i], NULL, run, &takers[i]), ==, 0);
	preside(&takers[plan->threads], out_report);
	atomic_store(&stops, TRUE);
	for (guint i = 0; i < plan->threads; i++)
		pthread_join(threads[i], NULL);
	out_report->seconds = (double)(pace_now_ns() - begun_ns) / (double)PACE_NS_PER_S;
	for (guint i = 0; i <= plan->threads; i++)
		add_up(out_report, &takers[i]);
	pthread_barrier_destroy(&bursts);
}

void takers_report_clear(TakersReport *self)
{
	g_free(self->first_error);
	g_array_unref(self->burst_ns);
}
