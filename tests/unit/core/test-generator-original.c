/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The cases of the test suite that Twitter's Snowflake of 2010 had for its ID worker, with
 * max-ahead 0, which is its behaviour. Where it used times near 0, these use times near the
 * epoch, as no ID is issued before it.
 */
#include "core/generator.h"

#include "tests/unit/core/draws.h"
#include "tests/unit/patience.h"
#include "tests/unit/unit-test.h"

#define WORKER_MASK     G_GINT64_CONSTANT(0x000000000001f000)
#define DATACENTER_MASK G_GINT64_CONSTANT(0x00000000003e0000)
#define TIMESTAMP_MASK  ((gint64)G_GUINT64_CONSTANT(0xffffffffffc00000))

static const GeneratorPolicy original = {
	.max_ahead_ms = 0, .sequence_start_range = 1, .max_batch = 1};

typedef struct {
	SystemClock clock;
	Generator *generator;
} Worker;

/* A worker in true time. */
static void worker_init(Worker *self, guint datacenter_id, guint worker_id)
{
	system_clock_init(&self->clock);
	self->generator = generator_new(&LAYOUT_TWITTER, &self->clock.clock, &original);
	generator_publish(self->generator, lease_new(&LAYOUT_TWITTER, datacenter_id, worker_id, 1,
						     layout_max_tick(&LAYOUT_TWITTER)));
}

static void worker_clear(Worker *self)
{
	generator_free(self->generator);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Worker, worker_clear)

/* As the original did when the sequence ran out, it spins until the next millisecond. */
static gint64 worker_next_id(Worker *self)
{
	for (;;) {
		IdRun run;
		DrawRefusal refusal;
		DrawStatus status = generator_draw(self->generator, 1, &run, &refusal);

		if (status == DRAW_OK)
			return id_run_get(&run, 0);
		g_assert_cmpint(status, ==, DRAW_WAIT);
		g_assert_cmpint(refusal.wait_ns, >, 0);
		g_assert_cmpint(refusal.wait_ns, <=, MS);
	}
}

/* The same for a scripted clock, which is moved on by exactly what the refusal asks for. */
static gint64 next_id(Draws *draws, guint *waits)
{
	for (;;) {
		IdRun run;
		DrawRefusal refusal;
		DrawStatus status = generator_draw(draws->generator, 1, &run, &refusal);

		if (status == DRAW_OK)
			return id_run_get(&run, 0);
		g_assert_cmpint(status, ==, DRAW_WAIT);
		draws->clock.now_ns += refusal.wait_ns;
		++*waits;
	}
}

TEST("/generator-original/generates-an-id", test_generates_an_id)
{
	g_auto(Worker) worker;

	worker_init(&worker, 1, 1);
	g_assert_cmpint(worker_next_id(&worker), >, 0);
}

TEST("/generator-original/accurate-timestamp", test_accurate_timestamp)
{
	g_auto(Worker) worker;

	worker_init(&worker, 1, 1);

	gint64 before_ms = g_get_real_time() / 1000;
	gint64 id_ms = layout_decode(&LAYOUT_TWITTER, worker_next_id(&worker)).time_ms;
	gint64 after_ms = g_get_real_time() / 1000;

	g_assert_cmpint(id_ms, >=, before_ms - 50);
	g_assert_cmpint(id_ms, <=, after_ms + 50);
}

TEST("/generator-original/worker-and-datacenter-id", test_worker_and_datacenter_id)
{
	g_auto(Worker) worker;

	worker_init(&worker, 17, 25);

	const Lease *lease = generator_lease(worker.generator);
	LayoutParts parts = layout_decode(&LAYOUT_TWITTER, worker_next_id(&worker));

	g_assert_cmpuint(lease->datacenter_id, ==, 17);
	g_assert_cmpuint(lease->worker_id, ==, 25);
	g_assert_cmpuint(parts.datacenter_id, ==, 17);
	g_assert_cmpuint(parts.worker_id, ==, 25);
}

TEST("/generator-original/masks-worker-id", test_masks_worker_id)
{
	g_auto(Worker) worker;

	worker_init(&worker, 0, 0x1f);
	for (int i = 0; i < 1000; i++)
		g_assert_cmpint((worker_next_id(&worker) & WORKER_MASK) >> 12, ==, 0x1f);
}

TEST("/generator-original/masks-datacenter-id", test_masks_datacenter_id)
{
	g_auto(Worker) worker;

	worker_init(&worker, 0x1f, 0);
	g_assert_cmpint((worker_next_id(&worker) & DATACENTER_MASK) >> 17, ==, 0x1f);
}

TEST("/generator-original/masks-timestamp", test_masks_timestamp)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 0);
	for (int i = 1; i <= 100; i++) {
		draws_set_ms(&draws, i);
		g_assert_cmpint((draws_id(&draws) & TIMESTAMP_MASK) >> 22, ==, T0_TICK + i);
	}
}

TEST("/generator-original/rolls-over-sequence", test_rolls_over_sequence)
{
	const gint64 worker_id = 4;
	g_auto(Draws) draws;
	guint waits = 0;

	draws_init(&draws, &LAYOUT_TWITTER, &original);
	draws_publish(&draws, worker_id, T0_TICK, layout_max_tick(&LAYOUT_TWITTER));
	/* a tick has 4096 IDs: two roll-overs and one ID more */
	for (int i = 0; i <= 2 * 4096; i++) {
		gint64 id = next_id(&draws, &waits);

		g_assert_cmpint((id & WORKER_MASK) >> 12, ==, worker_id);
		g_assert_cmpint((id & DATACENTER_MASK) >> 17, ==, 1);
		g_assert_cmpint(id & 4095, ==, i % 4096);
	}
	g_assert_cmpuint(waits, ==, 2);
}

TEST("/generator-original/increasing", test_increasing)
{
	g_auto(Worker) worker;
	gint64 last_id = 0;

	worker_init(&worker, 1, 1);
	for (int i = 0; i < 100; i++) {
		gint64 id = worker_next_id(&worker);

		g_assert_cmpint(id, >, last_id);
		last_id = id;
	}
}

/* A million IDs fill 245 milliseconds. The rest of the limit is for a slow machine. */
TEST("/generator-original/a-million-quickly", test_a_million_quickly)
{
	g_auto(Worker) worker;

	worker_init(&worker, 31, 31);

	gint64 start_us = g_get_monotonic_time();

	for (int i = 0; i < 1000000; i++)
		worker_next_id(&worker);
	g_assert_cmpint(g_get_monotonic_time() - start_us, >=, 243 * 1000);
	g_assert_cmpint(g_get_monotonic_time() - start_us, <, PATIENCE_US);
}

TEST("/generator-original/one-wait-for-a-second-roll-over", test_one_wait_for_a_second_roll_over)
{
	g_auto(Draws) draws;
	guint waits = 0;

	draws_init_ready(&draws, 0);
	for (int i = 0; i < 4096; i++)
		next_id(&draws, &waits);
	g_assert_cmpuint(waits, ==, 0);
	g_assert_cmpint((next_id(&draws, &waits) & TIMESTAMP_MASK) >> 22, ==, T0_TICK + 1);
	g_assert_cmpuint(waits, ==, 1);
	g_assert_cmpint(draws.clock.now_ns, ==, (T0_MS + 1) * MS);
}

/* Unique because each is greater than the one before. */
TEST("/generator-original/two-million-unique", test_two_million_unique)
{
	g_auto(Draws) draws;
	gint64 last_id = 0;
	guint waits = 0;

	draws_init_ready(&draws, 0);
	for (int i = 0; i < 2000000; i++) {
		gint64 id = next_id(&draws, &waits);

		g_assert_cmpint(id, >, last_id);
		last_id = id;
	}
	g_assert_cmpuint(waits, ==, (2000000 - 1) / 4096);
}

TEST("/generator-original/over-50-billion", test_over_50_billion)
{
	g_auto(Worker) worker;

	worker_init(&worker, 0, 0);
	g_assert_cmpint(worker_next_id(&worker), >, G_GINT64_CONSTANT(50000000000));
}

TEST("/generator-original/time-goes-backwards", test_time_goes_backwards)
{
	g_auto(Draws) draws;

	draws_init_ready(&draws, 0);
	draws_set_ms(&draws, 1);
	draws_expect(&draws, T0_TICK + 1, 0);
	draws_expect(&draws, T0_TICK + 1, 1);
	draws_set_ms(&draws, 0);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_BACK, 0, 1);
	draws_set_ms(&draws, 1);
	draws_expect(&draws, T0_TICK + 1, 2);
}
