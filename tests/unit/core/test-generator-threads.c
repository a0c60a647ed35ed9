/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Eight threads draw from one generator in real time, while leases are extended, retired and
 * replaced.
 */
#include "core/generator.h"
#include "tests/unit/core/scaled.h"
#include "tests/unit/unit-test.h"

#include <pthread.h>
#include <sched.h>

#define N_THREADS     8
#define MAX_BATCH     100
#define TIME_LIMIT_US (100 * G_USEC_PER_SEC)

/* A layout with so many IDs per millisecond that no thread waits for the clock, and all contend for
 * the cursor. */
static const Layout roomy = {1288834974657, 1, 41, 0, 2, 20};

typedef struct _Crowd Crowd;

typedef struct {
	Crowd *crowd;
	pthread_t thread;
	GRand *rand;
	guint max_batch; /* it draws batches of 1 to @max_batch IDs */
	gint64 *ids;     /* its IDs, in the order of its draws */
	guint n_ids;
} Drawer;

/* A retired lease. */
typedef struct {
	guint worker_id;
	gint64 first_tick;
	gint64 last_tick;
	guint64 last_cursor;
} Span;

struct _Crowd {
	SystemClock clock;
	Generator *generator;
	Drawer drawers[N_THREADS];
	guint ids_each; /* a drawer ends after this many */
	GArray *spans;
	gint64 deadline_us;
	_Atomic guint n_drawn;
	_Atomic guint n_allowed; /* all pause after about this many draws */
	_Atomic guint n_finished;
};

/* Draws once if allowed. Returns whether it got IDs. */
static gboolean drawer_draw(Drawer *self, guint count)
{
	Crowd *crowd = self->crowd;
	IdRun run;
	DrawRefusal refusal;
	DrawStatus status;

	if (atomic_load(&crowd->n_drawn) >= atomic_load(&crowd->n_allowed))
		return FALSE;
	status = generator_draw(crowd->generator, count, &run, &refusal);
	if (status != DRAW_OK) {
		/* the clock never steps back here, so a thread that slept must not detect a step */
		g_assert_true(status == DRAW_WAIT || status == DRAW_UNRESERVED);
		return FALSE;
	}
	for (guint i = 0; i < count; i++)
		self->ids[self->n_ids++] = id_run_get(&run, i);
	atomic_fetch_add(&crowd->n_drawn, count);
	return TRUE;
}

static void *drawer_run(void *user_data)
{
	Drawer *self = user_data;
	Crowd *crowd = self->crowd;

	while (self->n_ids < crowd->ids_each) {
		guint count = (guint)g_rand_int_range(self->rand, 1, (gint32)self->max_batch + 1);

		if (drawer_draw(self, MIN(count, crowd->ids_each - self->n_ids)))
			continue;
		g_assert_cmpint(g_get_monotonic_time(), <, crowd->deadline_us);
		sched_yield();
	}
	atomic_fetch_add(&crowd->n_finished, 1);
	return NULL;
}

static gint64 now_tick(const Crowd *self)
{
	return layout_tick_at(&self->generator->layout, clock_now_ms(&self->clock.clock));
}

static void crowd_init(Crowd *self, const Layout *layout, gint64 max_ahead_ms,
		       guint sequence_start_range, guint n_ids)
{
	const GeneratorPolicy policy = {.max_ahead_ms = max_ahead_ms,
					.sequence_start_range = sequence_start_range,
					.max_batch = MAX_BATCH};

	system_clock_init(&self->clock);
	self->generator = generator_new(layout, &self->clock.clock, &policy);
	self->ids_each = n_ids / N_THREADS;
	self->spans = g_array_new(FALSE, FALSE, sizeof(Span));
	self->deadline_us = g_get_monotonic_time() + TIME_LIMIT_US;
	atomic_init(&self->n_drawn, 0);
	atomic_init(&self->n_allowed, 0);
	atomic_init(&self->n_finished, 0);
	for (guint i = 0; i < N_THREADS; i++) {
		self->drawers[i] = (Drawer){
			.crowd = self,
			.rand = g_rand_new_with_seed(i),
			/* half of them draw IDs one by one */
			.max_batch = i % 2 == 0 ? 1 : MAX_BATCH,
			.ids = g_new(gint64, self->ids_each),
		};
	}
}

static void crowd_start(Crowd *self)
{
	for (guint i = 0; i < N_THREADS; i++)
		g_assert_cmpint(pthread_create(&self->drawers[i].thread, NULL, drawer_run,
					       &self->drawers[i]),
				==, 0);
}

static gboolean crowd_has_finished(Crowd *self)
{
	return atomic_load(&self->n_finished) == N_THREADS;
}

static void crowd_join(Crowd *self)
{
	for (guint i = 0; i < N_THREADS; i++)
		g_assert_cmpint(pthread_join(self->drawers[i].thread, NULL), ==, 0);
}

static void crowd_clear(Crowd *self)
{
	for (guint i = 0; i < N_THREADS; i++) {
		g_rand_free(self->drawers[i].rand);
		g_free(self->drawers[i].ids);
	}
	g_array_unref(self->spans);
	generator_free(self->generator);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Crowd, crowd_clear)

/* Publishes the next lease: another worker ID, from the next tick on, with nothing reserved yet. It
 * has about @n_ids, so that a slow machine does not draw all IDs from one lease. */
static Lease *crowd_publish(Crowd *self, guint n_ids)
{
	const Layout *layout = &self->generator->layout;
	guint n = self->spans->len;
	gint64 first_tick =
		n > 0 ? g_array_index(self->spans, Span, n - 1).last_tick + 1 : now_tick(self);
	Lease *lease =
		lease_new(layout, 0, n % (1u << layout->worker_bits), first_tick, first_tick - 1);

	generator_publish(self->generator, lease);
	atomic_store(&self->n_allowed, MIN(atomic_load(&self->n_drawn), G_MAXUINT - n_ids) + n_ids);
	return lease;
}

static void crowd_retire(Crowd *self, Lease *lease)
{
	Span span = {.worker_id = lease->worker_id, .first_tick = lease->first_tick};

	span.last_tick = lease_retire(lease, &self->generator->layout);
	span.last_cursor = lease_last_cursor(lease);
	g_array_append_val(self->spans, span);
}

/* Returns the drawer with the lowest next ID, or NULL if all IDs were taken. */
static const Drawer *lowest_drawer(const Crowd *self, const guint taken[static N_THREADS])
{
	const Drawer *lowest = NULL;

	for (guint i = 0; i < N_THREADS; i++) {
		const Drawer *drawer = &self->drawers[i];

		if (taken[i] < drawer->n_ids &&
		    (lowest == NULL ||
		     drawer->ids[taken[i]] < lowest->ids[taken[lowest - self->drawers]]))
			lowest = drawer;
	}
	return lowest;
}

/*
 * Checks the IDs of all threads in order, lease by lease. No ID occurs twice, each thread drew its
 * IDs in order, each ID is within its lease, and the last ID of each lease is the one reported when
 * it was retired.
 */
static void crowd_check(const Crowd *self)
{
	const Layout *layout = &self->generator->layout;
	guint taken[N_THREADS] = {0};
	const Drawer *drawer = lowest_drawer(self, taken);
	gint64 last_id = 0;

	for (guint i = 0; i < self->spans->len; i++) {
		const Span *span = &g_array_index(self->spans, Span, i);
		guint64 last_cursor = ((guint64)span->first_tick << layout->sequence_bits) - 1;

		for (; drawer != NULL; drawer = lowest_drawer(self, taken)) {
			guint *n_taken = &taken[drawer - self->drawers];
			gint64 id = drawer->ids[*n_taken];
			LayoutParts parts = layout_decode(layout, id);
			gint64 tick = layout_tick_at(layout, parts.time_ms);

			if (tick > span->last_tick)
				break;
			g_assert_cmpint(id, >, last_id);
			g_assert_cmpint(tick, >=, span->first_tick);
			g_assert_cmpuint(parts.worker_id, ==, span->worker_id);
			last_id = id;
			last_cursor = (guint64)tick << layout->sequence_bits | parts.sequence;
			++*n_taken;
		}
		g_assert_cmpuint(last_cursor, ==, span->last_cursor);
		g_assert_cmpint(last_cursor >> layout->sequence_bits, ==, span->last_tick);
	}
	g_assert_null(drawer);
	for (guint i = 0; i < N_THREADS; i++)
		g_assert_cmpuint(taken[i], ==, self->ids_each);
}

/* All IDs are drawn from one lease. */
static void crowd_run_with_one_lease(Crowd *self)
{
	Lease *lease = crowd_publish(self, G_MAXUINT);

	lease_extend(lease, G_MAXINT64);
	crowd_start(self);
	crowd_join(self);
	crowd_retire(self, lease);
	crowd_check(self);
}

TEST("/generator-threads/ten-million", test_ten_million)
{
	g_auto(Crowd) crowd;

	crowd_init(&crowd, &LAYOUT_TWITTER, 10, 16, scaled(10000000));
	crowd_run_with_one_lease(&crowd);
}

/* Each lease has all its ticks reserved, and is retired as soon as IDs were drawn from it. */
TEST("/generator-threads/retire", test_retire)
{
	const guint ids_per_lease = 10000;
	const guint n_ids = scaled(4000000);
	g_auto(Crowd) crowd;

	crowd_init(&crowd, &roomy, 60000, 16, n_ids);
	crowd_start(&crowd);
	while (!crowd_has_finished(&crowd)) {
		Lease *lease = crowd_publish(&crowd, ids_per_lease);
		guint n_drawn = atomic_load(&crowd.n_drawn);

		lease_extend(lease, G_MAXINT64);
		while (atomic_load(&crowd.n_drawn) == n_drawn && !crowd_has_finished(&crowd))
			continue;
		crowd_retire(&crowd, lease);
	}
	crowd_join(&crowd);
	crowd_check(&crowd);
	g_assert_cmpuint(crowd.spans->len, >=, n_ids / (ids_per_lease + N_THREADS * MAX_BATCH));
}

/* Leases that are extended tick by tick, a little ahead of the clock, and retired in the end. */
TEST("/generator-threads/change-leases", test_change_leases)
{
	const guint ids_per_lease = 5000;
	const guint n_ids = scaled(2000000);
	g_auto(Crowd) crowd;

	crowd_init(&crowd, &LAYOUT_TWITTER, 10, 16, n_ids);
	crowd_start(&crowd);
	while (!crowd_has_finished(&crowd)) {
		Lease *lease = crowd_publish(&crowd, ids_per_lease);
		guint n_drawn = atomic_load(&crowd.n_drawn);

		while (atomic_load(&crowd.n_drawn) < n_drawn + ids_per_lease / 2 &&
		       !crowd_has_finished(&crowd)) {
			lease_extend(lease, now_tick(&crowd) + 2);
			sched_yield();
		}
		crowd_retire(&crowd, lease);
	}
	crowd_join(&crowd);
	crowd_check(&crowd);
	g_assert_cmpuint(crowd.spans->len, >=, n_ids / (ids_per_lease + N_THREADS * MAX_BATCH));
}

/* Any thread that begins a tick continues where the previous tick ended. */
TEST("/generator-threads/continues", test_continues)
{
	const guint n_ids = scaled(2000000);
	guint taken[N_THREADS] = {0};
	g_auto(Crowd) crowd;

	crowd_init(&crowd, &roomy, 10, GENERATOR_SEQUENCE_CONTINUES, n_ids);
	crowd_run_with_one_lease(&crowd);
	for (guint i = 0; i < crowd.ids_each * N_THREADS; i++) {
		const Drawer *drawer = lowest_drawer(&crowd, taken);
		gint64 id = drawer->ids[taken[drawer - crowd.drawers]++];

		g_assert_cmpuint(layout_decode(&roomy, id).sequence, ==,
				 i % (1u << roomy.sequence_bits));
	}
}
