/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/generator.h"

#include "tests/unit/core/scripted-clock.h"

/*
 * A generator with a scripted clock, and draws that are compared with the expected results. Times
 * and ticks are in Twitter's layout unless a test says otherwise; T0 is any time in it.
 */
#define T0_MS   G_GINT64_CONSTANT(1700000000000)
#define T0_TICK (T0_MS - G_GINT64_CONSTANT(1288834974657))
#define MS      G_GINT64_CONSTANT(1000000)

typedef struct {
	ScriptedClock clock;
	Generator *generator;
	Lease *lease; /* the one published last */
} Draws;

static inline void draws_publish(Draws *self, guint worker_id, gint64 first_tick, gint64 end_tick)
{
	self->lease = lease_new(&self->generator->layout, 1, worker_id, first_tick, end_tick);
	generator_publish(self->generator, self->lease);
}

/* Initializes without a lease, at T0. */
static inline void draws_init(Draws *self, const Layout *layout, const GeneratorPolicy *policy)
{
	scripted_clock_init(&self->clock, T0_MS);
	self->generator = generator_new(layout, &self->clock.clock, policy);
	self->lease = NULL;
}

/* Initializes without a lease, at T0. Ticks begin at 0, and only the layout limits batches. */
static inline void draws_init_ahead(Draws *self, const Layout *layout, gint64 max_ahead_ms)
{
	const GeneratorPolicy policy = {
		.max_ahead_ms = max_ahead_ms, .sequence_start_range = 1, .max_batch = G_MAXUINT};

	draws_init(self, layout, &policy);
}

/* Initializes with Twitter's layout, datacenter 1, worker 2 and a lease for T0 and later ticks. */
static inline void draws_init_ready(Draws *self, gint64 max_ahead_ms)
{
	draws_init_ahead(self, &LAYOUT_TWITTER, max_ahead_ms);
	draws_publish(self, 2, T0_TICK - 1000, layout_max_tick(&LAYOUT_TWITTER));
}

static inline void draws_clear(Draws *self)
{
	generator_free(self->generator);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Draws, draws_clear)

static inline void draws_set_ms(Draws *self, gint64 after_t0_ms)
{
	scripted_clock_set_ms(&self->clock, T0_MS + after_t0_ms);
}

/* Draws @count IDs, which must succeed. */
static inline IdRun draws_run(Draws *self, guint count)
{
	IdRun run;
	DrawRefusal refusal = {-1, -1};

	g_assert_cmpint(generator_draw(self->generator, count, &run, &refusal), ==, DRAW_OK);
	g_assert_cmpuint(run.count, ==, count);
	g_assert_cmpint(refusal.wait_ns, ==, -1);
	g_assert_cmpint(refusal.behind_ms, ==, -1);
	return run;
}

static inline gint64 draws_id(Draws *self)
{
	IdRun run = draws_run(self, 1);

	return id_run_get(&run, 0);
}

/* Draws an ID, which must have this tick and sequence. */
static inline void draws_expect(Draws *self, gint64 tick, guint sequence)
{
	const Layout *layout = &self->generator->layout;
	gint64 id = draws_id(self);
	LayoutParts parts = layout_decode(layout, id);

	g_assert_cmpint(layout_tick_at(layout, parts.time_ms), ==, tick);
	g_assert_cmpuint(parts.sequence, ==, sequence);
	g_assert_cmpuint(parts.datacenter_id, ==, self->lease->datacenter_id);
	g_assert_cmpuint(parts.worker_id, ==, self->lease->worker_id);
}

/* Draws, which must be refused with this status and change nothing. */
static inline void draws_expect_refusal(Draws *self, guint count, DrawStatus status, gint64 wait_ns,
					gint64 behind_ms)
{
	const Lease *lease = generator_lease(self->generator);
	guint64 cursor = lease != NULL ? atomic_load(&lease->cursor) : 0;
	gint64 end_tick = lease != NULL ? atomic_load(&lease->end_tick) : 0;
	const IdRun untouched = {1, 2, 3, 4, 5};
	IdRun run = untouched;
	DrawRefusal refusal = {-1, -1};

	g_assert_cmpint(generator_draw(self->generator, count, &run, &refusal), ==, status);
	g_assert_cmpint(refusal.wait_ns, ==, wait_ns);
	g_assert_cmpint(refusal.behind_ms, ==, behind_ms);
	g_assert_true(generator_lease(self->generator) == lease);
	if (lease != NULL) {
		g_assert_cmphex(atomic_load(&lease->cursor), ==, cursor);
		g_assert_cmpint(atomic_load(&lease->end_tick), ==, end_tick);
	}
	g_assert_cmpuint(run.first_cursor, ==, untouched.first_cursor);
	g_assert_cmpuint(run.fixed_bits, ==, untouched.fixed_bits);
	g_assert_cmpuint(run.count, ==, untouched.count);
	g_assert_cmpuint(run.sequence_bits, ==, untouched.sequence_bits);
	g_assert_cmpuint(run.time_shift, ==, untouched.time_shift);
}
