/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generator.h"

#include "tests/unit/core/draws.h"
#include "tests/unit/unit-test.h"

#define TICK_SIZE 4096 /* IDs in a tick of Twitter's layout */

static const Layout uid_generator = {1474300800000, 1000, 29, 0, 21, 13};

static const Layout *const layouts[] = {
	&LAYOUT_TWITTER,
	&uid_generator,
	&(const Layout){0, 1, 41, 0, 0, 22},
	&(const Layout){0, 1, 41, 22, 0, 0},
	&(const Layout){1600000000000, 100, 32, 0, 0, 31},
};

TEST("/generator/runs", test_runs)
{
	const GeneratorPolicy policy = {
		.max_ahead_ms = 2000, .sequence_start_range = 1, .max_batch = 3000};

	for (gsize i = 0; i < G_N_ELEMENTS(layouts); i++) {
		const Layout *layout = layouts[i];
		const guint datacenter_id = (1u << layout->datacenter_bits) - 1;
		const guint worker_id = (1u << layout->worker_bits) - 1;
		g_auto(Draws) draws;
		gint64 last_id = 0;

		g_assert_true(layout_check(layout, NULL));
		draws_init(&draws, layout, &policy);
		draws.lease = lease_new(layout, datacenter_id, worker_id,
					layout_tick_at(layout, T0_MS), layout_max_tick(layout));
		generator_publish(draws.generator, draws.lease);
		for (guint count = 1; count <= MIN(1000, draws.generator->max_batch); count *= 3) {
			IdRun run = draws_run(&draws, count);

			for (guint j = 0; j < count; j++) {
				LayoutParts parts = layout_decode(layout, id_run_get(&run, j));
				gint64 id;

				g_assert_true(layout_encode(layout, &parts, &id, NULL));
				g_assert_cmpint(id, ==, id_run_get(&run, j));
				g_assert_cmpint(id, >, last_id);
				g_assert_cmpuint(parts.datacenter_id, ==, datacenter_id);
				g_assert_cmpuint(parts.worker_id, ==, worker_id);
				last_id = id;
			}
			g_assert_cmpuint(lease_last_cursor(draws.lease), ==,
					 run.first_cursor + count - 1);
		}
	}
}

/*
 * Each case is a script. A step sets the clock, draws, and has the expected result: the tick and
 * the sequence of the last ID, or the reason for the refusal. Times and ticks count from T0.
 */
typedef struct {
	enum { END, DRAW, EXTEND, RETIRE } what;
	gint64 at_ns;
	guint count;
	DrawStatus status;
	gint64 tick;      /* last ID; EXTEND: end of the lease; RETIRE: last tick used */
	guint sequence;   /* last ID */
	gint64 wait_ns;   /* refusal */
	gint64 behind_ms; /* refusal */
} Step;

#define RUN(at_ns, count, tick, sequence) DRAW, at_ns, count, DRAW_OK, tick, sequence, 0, 0
#define ID(at_ns, tick, sequence)         RUN(at_ns, 1, tick, sequence)
#define WAIT(at_ns, count, wait_ns)       DRAW, at_ns, count, DRAW_WAIT, 0, 0, wait_ns, 0
#define BACK(at_ns, behind_ms)            DRAW, at_ns, 1, DRAW_CLOCK_BACK, 0, 0, 0, behind_ms
#define UNRESERVED(at_ns, count, wait_ns) DRAW, at_ns, count, DRAW_UNRESERVED, 0, 0, wait_ns, 0
#define EXTEND_TO(tick_)                  EXTEND, .tick = tick_
#define RETIRE_AT(tick_)                  RETIRE, .tick = tick_

#define FOREVER G_MAXINT32 /* longer than any script */

/* The lease begins and ends with these ticks. */
typedef struct {
	gint64 first_tick, end_tick;
	gint64 max_ahead_ms;
	guint start_range;
	const Layout *layout;
} Setting;

static const Setting READY = {-1000, FOREVER, 10, 1, &LAYOUT_TWITTER};
static const Setting NEVER_AHEAD = {-1000, FOREVER, 0, 1, &LAYOUT_TWITTER};
static const Setting SECONDS = {0, 100, 2500, 1, &uid_generator};
static const Setting ENDS = {-5, 1, 10, 1, &LAYOUT_TWITTER};
static const Setting BEGINS_AND_ENDS = {0, 1, 10, 1, &LAYOUT_TWITTER};
static const Setting BEGINS_LATER = {30, 40, 10, 1, &LAYOUT_TWITTER};
static const Setting EMPTY = {0, -1, 10, 1, &LAYOUT_TWITTER};
static const Setting CONTINUES = {0, FOREVER, 10, GENERATOR_SEQUENCE_CONTINUES, &LAYOUT_TWITTER};
static const Setting CONTINUES_NEVER_AHEAD = {0, FOREVER, 0, GENERATOR_SEQUENCE_CONTINUES,
					      &LAYOUT_TWITTER};

static const struct {
	const char *name;
	const Setting *setting;
	Step steps[17];
} SCRIPTS[] = {
	/* a run continues in the next tick, and so do IDs when the clock reaches that tick */
	{"carry",
	 &READY,
	 {{RUN(0, TICK_SIZE - 2, 0, TICK_SIZE - 3)},
	  {RUN(0, 5, 1, 2)},
	  {ID(1 * MS, 1, 3)},
	  {ID(2 * MS, 2, 0)}}},
	{"sequence runs out",
	 &READY,
	 {{RUN(300000, 11 * TICK_SIZE - 2, 10, TICK_SIZE - 3)},
	  {WAIT(300000, 3, MS - 300000)},
	  {RUN(300000, 2, 10, TICK_SIZE - 1)},
	  {WAIT(300000, 1, MS - 300000)},
	  {WAIT(300000, TICK_SIZE, MS - 300000)},
	  {WAIT(300000, TICK_SIZE + 1, 2 * MS - 300000)},
	  {WAIT(MS - 1, 1, 1)},
	  {ID(MS, 11, 0)}}},
	/* IDs have the time of the clock again as soon as it is past the last ID */
	{"clock back, within max-ahead",
	 &READY,
	 {{ID(0, 0, 0)},
	  {ID(-1 * MS, 0, 1)},
	  {ID(-9 * MS, 0, 2)},
	  {ID(-10 * MS, 0, 3)},
	  {ID(1 * MS, 1, 0)}}},
	/* a part of a millisecond does not count, as in the original */
	{"clock back, beyond max-ahead",
	 &READY,
	 {{ID(0, 0, 0)},
	  {BACK(-11 * MS, 11)},
	  {BACK(-900 * MS, 900)},
	  {BACK(-899 * MS - 1, 900)},
	  {ID(-10 * MS, 0, 1)}}},
	/* the refusal is for the step of the clock, not for the start of the lease */
	{"clock back, before the lease", &READY, {{ID(0, 0, 0)}, {BACK(-5000 * MS, 5000)}}},
	/* as in the original, any step back is refused, and a full sequence waits a tick */
	{"max-ahead 0",
	 &NEVER_AHEAD,
	 {{ID(0, 0, 0)},
	  {BACK(-1 * MS, 1)},
	  {ID(0, 0, 1)},
	  {RUN(0, TICK_SIZE - 2, 0, TICK_SIZE - 1)},
	  {WAIT(0, 1, MS)},
	  {ID(1 * MS, 1, 0)},
	  {WAIT(1 * MS, TICK_SIZE, MS)},
	  {BACK(0, 1)}}},
	/* 2 ticks ahead: 2500 ms are rounded down */
	{"ticks of a second",
	 &SECONDS,
	 {{ID(999 * MS, 0, 0)},
	  {ID(1000 * MS, 1, 0)},
	  {RUN(1000 * MS, 3 * 8192 - 1, 3, 8191)},
	  {WAIT(1250 * MS, 1, 750 * MS)},
	  {BACK(999 * MS, 3000 - 999)},
	  {ID(2000 * MS, 4, 0)}}},
	/* the clock may be past the end while the lease still has IDs at an earlier time */
	{"lease end",
	 &ENDS,
	 {{ID(1 * MS, 1, 0)},
	  {UNRESERVED(2 * MS, 1, 0)},
	  {RUN(0, TICK_SIZE - 2, 1, TICK_SIZE - 2)},
	  {ID(0, 1, TICK_SIZE - 1)},
	  {UNRESERVED(0, 1, 0)},
	  {EXTEND_TO(2)},
	  {ID(0, 2, 0)},
	  {UNRESERVED(3 * MS, 1, 0)}}},
	{"batch past the lease's end",
	 &BEGINS_AND_ENDS,
	 {{RUN(0, 100, 0, 99)},
	  {UNRESERVED(0, 2 * TICK_SIZE - 99, 0)},
	  {RUN(0, 2 * TICK_SIZE - 100, 1, TICK_SIZE - 1)},
	  {UNRESERVED(0, 1, 0)}}},
	{"lease begins later",
	 &BEGINS_LATER,
	 {{UNRESERVED(0, 1, 20 * MS)},
	  {UNRESERVED(0, TICK_SIZE + 1, 21 * MS)},
	  {UNRESERVED(20 * MS - 1, 1, 1)},
	  {WAIT(20 * MS, TICK_SIZE + 1, MS)},
	  {ID(20 * MS, 30, 0)}}},
	{"nothing reserved", &EMPTY, {{UNRESERVED(0, 1, 0)}, {EXTEND_TO(0)}, {ID(0, 0, 0)}}},
	{"retired",
	 &READY,
	 {{ID(0, 0, 0)},
	  {RETIRE_AT(0)},
	  {UNRESERVED(0, 1, 0)},
	  {UNRESERVED(100 * MS, 1, 0)},
	  {UNRESERVED(-100 * MS, 1, 0)},
	  {EXTEND_TO(FOREVER)},
	  {UNRESERVED(-100 * MS, 1, 0)},
	  {RETIRE_AT(0)}}},
	/* 2 IDs left in a tick, a carry, a clock that catches up, and one that steps back */
	{"sequence continues",
	 &CONTINUES,
	 {{ID(0, 0, 0)},
	  {ID(0, 0, 1)},
	  {ID(1 * MS, 1, 2)},
	  {RUN(1 * MS, 4090, 1, 4092)},
	  {ID(2 * MS, 2, 4093)},
	  {RUN(3 * MS, 2, 3, 4095)},
	  {ID(4 * MS, 4, 0)},
	  {RUN(5 * MS, 4094, 5, 4094)},
	  {ID(7 * MS, 7, 4095)},
	  {ID(7 * MS, 8, 0)},
	  {RUN(7 * MS, 10, 8, 10)},
	  {ID(8 * MS, 8, 11)},
	  {ID(9 * MS, 9, 12)},
	  {ID(5 * MS, 9, 13)},
	  {ID(10 * MS, 10, 14)}}},
	/* A tick can begin with its last sequence, and the next ID waits for the next tick. A tick
	 * never begins with too few IDs left for a batch. */
	{"sequence continues, max-ahead 0",
	 &CONTINUES_NEVER_AHEAD,
	 {{RUN(0, TICK_SIZE - 1, 0, TICK_SIZE - 2)},
	  {ID(1 * MS, 1, TICK_SIZE - 1)},
	  {WAIT(1 * MS, 1, MS)},
	  {RUN(2 * MS, TICK_SIZE, 2, TICK_SIZE - 1)},
	  {ID(3 * MS, 3, 0)},
	  {RUN(4 * MS, TICK_SIZE, 4, TICK_SIZE - 1)},
	  {WAIT(4 * MS, 1, MS)}}},
};

/* Draws a run whose last ID must have @tick and @sequence. */
static void expect_run(Draws *draws, guint count, gint64 tick, guint sequence)
{
	const Layout *layout = &draws->generator->layout;
	guint64 last_cursor = (guint64)tick << layout->sequence_bits | sequence;
	IdRun run = draws_run(draws, count);

	for (guint i = 0; i < count; i++) {
		LayoutParts parts = layout_decode(layout, id_run_get(&run, i));
		guint64 cursor = cursor_first(layout, layout_tick_at(layout, parts.time_ms));

		g_assert_cmpuint(cursor + parts.sequence, ==, last_cursor - (count - 1 - i));
		g_assert_cmpuint(parts.datacenter_id, ==, draws->lease->datacenter_id);
		g_assert_cmpuint(parts.worker_id, ==, draws->lease->worker_id);
	}
}

static void run_step(Draws *draws, const Step *step, gint64 t0_tick)
{
	draws->clock.now_ns = T0_MS * MS + step->at_ns;
	if (step->what == EXTEND)
		lease_extend(draws->lease, t0_tick + step->tick);
	else if (step->what == RETIRE)
		g_assert_cmpint(lease_retire(draws->lease, &draws->generator->layout), ==,
				t0_tick + step->tick);
	else if (step->status == DRAW_OK)
		expect_run(draws, step->count, t0_tick + step->tick, step->sequence);
	else
		draws_expect_refusal(draws, step->count, step->status, step->wait_ns,
				     step->behind_ms);
}

TEST("/generator/scripts", test_scripts)
{
	for (gsize i = 0; i < G_N_ELEMENTS(SCRIPTS); i++) {
		const Setting *setting = SCRIPTS[i].setting;
		const Layout *layout = setting->layout;
		const gint64 t0_tick = layout_tick_at(layout, T0_MS);
		const GeneratorPolicy policy = {.max_ahead_ms = setting->max_ahead_ms,
						.sequence_start_range = setting->start_range,
						.max_batch = G_MAXUINT};
		g_auto(Draws) draws;

		draws_init(&draws, layout, &policy);
		draws.lease = lease_new(layout, layout->datacenter_bits > 0, 2,
					t0_tick + setting->first_tick, t0_tick + setting->end_tick);
		generator_publish(draws.generator, draws.lease);
		for (const Step *step = SCRIPTS[i].steps; step->what != END; step++) {
			g_test_message("%s, step %d", SCRIPTS[i].name,
				       (int)(step - SCRIPTS[i].steps));
			run_step(&draws, step, t0_tick);
		}
	}
}

/* After any draws, the largest batch is granted after the wait that the refusal names. */
TEST("/generator/wait-is-enough", test_wait_is_enough)
{
	static const guint drawn_before[] = {1, 2, TICK_SIZE, TICK_SIZE + 1, 11 * TICK_SIZE};

	for (gsize i = 0; i < G_N_ELEMENTS(drawn_before); i++) {
		g_auto(Draws) draws;
		IdRun run;
		DrawRefusal refusal;

		draws_init_ready(&draws, 10);
		draws_run(&draws, drawn_before[i]);

		guint count = draws.generator->max_batch;

		g_assert_cmpuint(count, ==, 11 * TICK_SIZE);
		g_assert_cmpint(generator_draw(draws.generator, count, &run, &refusal), ==,
				DRAW_WAIT);
		draws.clock.now_ns += refusal.wait_ns - 1;
		draws_expect_refusal(&draws, count, DRAW_WAIT, 1, 0);
		draws.clock.now_ns += 1;
		draws_run(&draws, count);
	}
}

TEST("/generator/max-batch", test_max_batch)
{
	const struct {
		const Layout *layout;
		gint64 max_ahead_ms;
		guint wanted;
		guint got;
	} cases[] = {
		{&LAYOUT_TWITTER, 0, G_MAXUINT, 4096},
		{&LAYOUT_TWITTER, 0, 10000, 4096},
		{&LAYOUT_TWITTER, 1, 10000, 8192},
		{&LAYOUT_TWITTER, 10, 10000, 10000},
		{&LAYOUT_TWITTER, 10, 1, 1},
		{&uid_generator, 999, 10000, 8192},
		{&uid_generator, 1000, 10000, 10000},
		{&uid_generator, 2999, G_MAXUINT, 3 * 8192},
		{&(const Layout){0, 1000, 32, 0, 0, 31}, 60000, G_MAXUINT, G_MAXUINT},
		{&(const Layout){0, 1, 41, 22, 0, 0}, 0, 10000, 1},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		const GeneratorPolicy policy = {.max_ahead_ms = cases[i].max_ahead_ms,
						.sequence_start_range = 1,
						.max_batch = cases[i].wanted};
		g_auto(Draws) draws;

		draws_init(&draws, cases[i].layout, &policy);
		g_assert_cmpuint(draws.generator->max_batch, ==, cases[i].got);
	}
	generator_free(NULL);
}

TEST("/generator/clock-outside", test_clock_outside)
{
	const gint64 begin_ns = LAYOUT_TWITTER.epoch_ms * MS;
	const gint64 end_ns = (LAYOUT_TWITTER.epoch_ms + layout_max_tick(&LAYOUT_TWITTER) + 1) * MS;
	const struct {
		gint64 now_ns;
		DrawStatus without_lease; /* with a lease: the same, or issued */
		gboolean issued;
	} cases[] = {
		{G_MININT64, DRAW_CLOCK_OUTSIDE, FALSE}, {-1, DRAW_CLOCK_OUTSIDE, FALSE},
		{0, DRAW_CLOCK_OUTSIDE, FALSE},          {begin_ns - 1, DRAW_CLOCK_OUTSIDE, FALSE},
		{begin_ns, DRAW_UNRESERVED, TRUE},       {end_ns - 1, DRAW_UNRESERVED, TRUE},
		{end_ns, DRAW_CLOCK_OUTSIDE, FALSE},     {G_MAXINT64, DRAW_CLOCK_OUTSIDE, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_auto(Draws) draws;

		draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
		draws.clock.now_ns = cases[i].now_ns;
		draws_expect_refusal(&draws, 1, cases[i].without_lease, 0, 0);
		draws_publish(&draws, 2, 0, layout_max_tick(&LAYOUT_TWITTER));
		if (cases[i].issued)
			g_assert_cmpint(draws_id(&draws), >, 0);
		else
			draws_expect_refusal(&draws, 1, DRAW_CLOCK_OUTSIDE, 0, 0);
	}
}

/* Tick 0 is skipped, so that the first ID is not 0. */
TEST("/generator/first-id-of-the-layout", test_first_id_of_the_layout)
{
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 0);
	draws.lease = lease_new(&LAYOUT_TWITTER, 0, 0, 0, 1000);
	generator_publish(draws.generator, draws.lease);
	scripted_clock_set_ms(&draws.clock, LAYOUT_TWITTER.epoch_ms);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, MS, 0);
	scripted_clock_set_ms(&draws.clock, LAYOUT_TWITTER.epoch_ms + 1);
	g_assert_cmpint(draws_id(&draws), ==, 4194304);
}

/* If there are several reasons, the refusal has the one that the caller can act on. */
TEST("/generator/order-of-reasons", test_order_of_reasons)
{
	const gint64 before_the_epoch_ms = LAYOUT_TWITTER.epoch_ms - 1 - T0_MS;
	const struct {
		gboolean issued; /* the last ID of the lease, at T0 */
		gint64 clock_ms; /* after T0 */
		guint count;
		DrawStatus status;
		gint64 wait_ns;
		gint64 behind_ms;
	} cases[] = {
		{TRUE, before_the_epoch_ms, 1, DRAW_CLOCK_OUTSIDE, 0, 0},
		{FALSE, before_the_epoch_ms, 1, DRAW_CLOCK_OUTSIDE, 0, 0},
		{TRUE, -11, 1, DRAW_CLOCK_BACK, 0, 11}, /* and past the end */
		{FALSE, -11, TICK_SIZE + 1, DRAW_UNRESERVED, 2 * MS, 0},
		{TRUE, -10, 1, DRAW_UNRESERVED, 0, 0},              /* and the sequence */
		{FALSE, -10, TICK_SIZE + 1, DRAW_UNRESERVED, 0, 0}, /* and the sequence */
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_auto(Draws) draws;

		draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
		draws_publish(&draws, 2, T0_TICK, T0_TICK);
		if (cases[i].issued)
			draws_run(&draws, TICK_SIZE);
		draws_set_ms(&draws, cases[i].clock_ms);
		draws_expect_refusal(&draws, cases[i].count, cases[i].status, cases[i].wait_ns,
				     cases[i].behind_ms);
	}
}

/* A wait that exceeds 64 bits of nanoseconds is capped to the maximum. */
TEST("/generator/far-future", test_far_future)
{
	const Layout layout = {0, 1000, 37, 0, 0, 26};
	g_autoptr(GError) error = NULL;
	g_auto(Draws) draws;
	IdRun run;
	DrawRefusal refusal;

	g_assert_true(layout_check(&layout, &error));
	draws_init_ahead(&draws, &layout, 60000);
	draws.lease = lease_new(&layout, 0, 0, layout_max_tick(&layout), layout_max_tick(&layout));
	generator_publish(draws.generator, draws.lease);
	g_assert_cmpint(generator_draw(draws.generator, 1, &run, &refusal), ==, DRAW_UNRESERVED);
	g_assert_cmpint(refusal.wait_ns, >, G_MAXINT64 - MS);
}

/* Calls are refused before the first lease, and after a loss until the next lease. */
TEST("/generator/lease/none", test_no_lease)
{
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
	for (guint worker_id = 2; worker_id < 5; worker_id++) {
		g_assert_null(generator_lease(draws.generator));
		draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
		draws_publish(&draws, worker_id, T0_TICK + worker_id, T0_TICK + 100);
		g_assert_true(generator_lease(draws.generator) == draws.lease);
		draws_expect(&draws, T0_TICK + worker_id, 0);
		lease_retire(draws.lease, &LAYOUT_TWITTER);
		generator_publish(draws.generator, NULL);
	}
}

TEST("/generator/lease/exhaustion", test_exhaustion)
{
	const gint64 max_tick = layout_max_tick(&LAYOUT_TWITTER);
	g_auto(Draws) draws;

	draws_init_ahead(&draws, &LAYOUT_TWITTER, 10);
	draws.lease = lease_new(&LAYOUT_TWITTER, 31, 31, max_tick - 100, G_MAXINT64);
	generator_publish(draws.generator, draws.lease);
	scripted_clock_set_ms(&draws.clock, LAYOUT_TWITTER.epoch_ms + max_tick);
	draws_expect_refusal(&draws, TICK_SIZE + 1, DRAW_UNRESERVED, 0, 0);
	draws_run(&draws, TICK_SIZE - 1);
	g_assert_cmpint(draws_id(&draws), ==, G_MAXINT64);
	lease_extend(draws.lease, G_MAXINT64);
	draws_expect_refusal(&draws, 1, DRAW_UNRESERVED, 0, 0);
	scripted_clock_set_ms(&draws.clock, LAYOUT_TWITTER.epoch_ms + max_tick + 1);
	draws_expect_refusal(&draws, 1, DRAW_CLOCK_OUTSIDE, 0, 0);
}

TEST("/generator/lease/change-of-lease", test_change_of_lease)
{
	g_auto(Draws) draws;
	gint64 last_id = 0;

	draws_init_ready(&draws, 10);
	for (guint worker_id = 3; worker_id > 0; worker_id--) {
		for (int i = 0; i < 100; i++) {
			gint64 id = draws_id(&draws);

			g_assert_cmpint(id, >, last_id);
			last_id = id;
		}

		gint64 last_tick = lease_retire(draws.lease, &LAYOUT_TWITTER);

		draws_publish(&draws, worker_id, last_tick + 1, last_tick + 100);
	}
	draws_expect(&draws, T0_TICK + 3, 0);
}

TEST("/generator/lease/ahead", test_ahead)
{
	static const struct {
		const char *name;
		gint64 first_tick; /* start of the lease, after T0 */
		guint count;       /* IDs drawn at T0 */
		gint64 at_ms;      /* time of the check, after T0 */
		gint64 ahead_ns;
	} CASES[] = {
		{"nothing issued", 0, 0, 0, 0},
		{"nothing issued, and the lease begins later", 5, 0, 0, 0},
		{"last ID in the tick of the clock", 0, TICK_SIZE, 0, 0},
		{"one ID in the next tick", 0, TICK_SIZE + 1, 0, MS},
		{"all IDs in the next tick", 0, 2 * TICK_SIZE, 0, MS},
		{"some ticks", 0, 3 * TICK_SIZE + 1, 0, 3 * MS},
		{"the clock has caught up", 0, 3 * TICK_SIZE + 1, 3, 0},
		{"the clock has gone on", 0, 1, 100, 0},
		{"the clock was set back", 0, 1, -100, 100 * MS},
		{"a lease that begins later", 5, 1, 0, 5 * MS},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Draws) draws;

		g_test_message("%s", CASES[i].name);
		draws_init_ready(&draws, 10);
		draws_publish(&draws, 2, T0_TICK + CASES[i].first_tick,
			      layout_max_tick(&LAYOUT_TWITTER));
		if (CASES[i].count > 0)
			draws_run(&draws, CASES[i].count);
		draws_set_ms(&draws, CASES[i].at_ms);
		g_assert_cmpint(generator_ahead_ns(draws.generator), ==, CASES[i].ahead_ns);
		/* exact to the nanosecond */
		draws.clock.now_ns++;
		g_assert_cmpint(generator_ahead_ns(draws.generator), ==,
				MAX(CASES[i].ahead_ns - 1, 0));
		generator_publish(draws.generator, NULL);
		g_assert_cmpint(generator_ahead_ns(draws.generator), ==, 0);
	}
}

/* Initializes a generator whose ticks begin in @range, with a lease from T0 on. */
static void init_in(Draws *draws, guint range, gint64 max_ahead_ms, gint64 end_tick)
{
	const GeneratorPolicy policy = {.max_ahead_ms = max_ahead_ms,
					.sequence_start_range = range,
					.max_batch = G_MAXUINT};

	draws_init(draws, &LAYOUT_TWITTER, &policy);
	draws_publish(draws, 2, T0_TICK, end_tick);
}

TEST("/generator/start/range", test_range)
{
	static const guint ranges[] = {1, 2, 16, 4096, G_MAXUINT};

	for (gsize i = 0; i < G_N_ELEMENTS(ranges); i++) {
		const guint limit = MIN(ranges[i], TICK_SIZE);
		guint lowest = G_MAXUINT, highest = 0;
		g_auto(Draws) draws;

		init_in(&draws, ranges[i], 10, layout_max_tick(&LAYOUT_TWITTER));
		for (int ms = 0; ms < 2000; ms += 2) {
			draws_set_ms(&draws, ms);

			LayoutParts first = layout_decode(&LAYOUT_TWITTER, draws_id(&draws));

			g_assert_cmpint(first.time_ms, ==, T0_MS + ms);
			g_assert_cmpuint(first.sequence, <, limit);
			lowest = MIN(lowest, first.sequence);
			highest = MAX(highest, first.sequence);
			/* the next ID follows, possibly in the next tick */
			draws_expect(&draws, T0_TICK + ms + (first.sequence + 1) / TICK_SIZE,
				     (first.sequence + 1) % TICK_SIZE);
		}
		/* some of 1000 ticks almost certainly begin in the lowest eighth, and some in the
		 * highest */
		g_assert_cmpuint(lowest, <=, limit / 8);
		g_assert_cmpuint(highest, >=, limit - 1 - limit / 8);
	}
}

TEST("/generator/start/not-after-a-carry", test_not_after_a_carry)
{
	for (int i = 0; i < 100; i++) {
		g_auto(Draws) draws;

		init_in(&draws, TICK_SIZE, 10, layout_max_tick(&LAYOUT_TWITTER));

		LayoutParts first = layout_decode(&LAYOUT_TWITTER, draws_id(&draws));

		/* draw to the end of the tick, and past it */
		if (first.sequence < TICK_SIZE - 1)
			draws_run(&draws, TICK_SIZE - 1 - first.sequence);
		draws_expect(&draws, T0_TICK + 1, 0);
		draws_set_ms(&draws, 1);
		draws_expect(&draws, T0_TICK + 1, 1);
	}
}

/* A tick also begins at 0 if the lease begins ahead of the clock. */
TEST("/generator/start/not-ahead", test_not_ahead)
{
	for (int i = 0; i < 100; i++) {
		g_auto(Draws) draws;

		init_in(&draws, TICK_SIZE, 10, layout_max_tick(&LAYOUT_TWITTER));
		draws_publish(&draws, 2, T0_TICK + 1, layout_max_tick(&LAYOUT_TWITTER));
		draws_expect(&draws, T0_TICK + 1, 0);
	}
}

#define N_SPREAD   20000
#define MOST_PARTS 64

/* Returns whether the counts pass Pearson's chi-square test. For random counts in @n classes, the
 * statistic has a mean of n - 1 and a variance of 2 (n - 1). The limit is the mean plus 7 standard
 * deviations. */
static gboolean is_even(const guint *counts, guint n, guint total)
{
	double expected = (double)total / n;
	double excess = -(double)(n - 1);

	for (guint i = 0; i < n; i++)
		excess += (counts[i] - expected) * (counts[i] - expected) / expected;
	return excess < 0 || excess * excess < 7 * 7 * 2 * (n - 1);
}

static void draw_slowly(guint range, gint64 *ids)
{
	g_autoptr(GRand) rand = g_rand_new_with_seed(1);
	gint64 ms = 0;
	g_auto(Draws) draws;

	g_random_set_seed(1);
	init_in(&draws, range, 10, layout_max_tick(&LAYOUT_TWITTER));
	for (guint i = 0; i < N_SPREAD; i++) {
		ms += g_rand_int_range(rand, 1, 200);
		draws_set_ms(&draws, ms);
		ids[i] = draws_id(&draws);
	}
}

/* At 10 IDs a second, no tick has two IDs. A table that is divided by ID modulo k has parts of
 * equal size, unless every tick begins at 0 and k is even. The seeds are fixed. */
TEST("/generator/start/spread", test_spread)
{
	static const struct {
		guint range;
		gboolean even; /* expected for an even number of parts */
	} cases[] = {{GENERATOR_SEQUENCE_CONTINUES, TRUE}, {TICK_SIZE, TRUE}, {1, FALSE}};
	g_autofree gint64 *ids = g_new(gint64, N_SPREAD);

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		draw_slowly(cases[i].range, ids);
		for (guint n_parts = 2; n_parts <= MOST_PARTS; n_parts++) {
			guint counts[MOST_PARTS] = {0};

			for (guint j = 0; j < N_SPREAD; j++)
				counts[ids[j] % n_parts]++;

			g_test_message("start in %u, %u parts", cases[i].range, n_parts);
			g_assert_cmpint(is_even(counts, n_parts, N_SPREAD), ==,
					cases[i].even || n_parts % 2 == 1);
		}
	}
}

/* A random start leaves enough room: it never causes a refusal. */
TEST("/generator/start/leaves-room", test_leaves_room)
{
	static const struct {
		gint64 max_ahead_ms;
		gint64 end_tick;
		guint count;
	} cases[] = {
		{0, T0_TICK + 1000, TICK_SIZE},   {10, T0_TICK + 1000, 11 * TICK_SIZE},
		{10, T0_TICK, TICK_SIZE},         {10, T0_TICK, TICK_SIZE - 1},
		{10, T0_TICK + 1, 2 * TICK_SIZE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		for (int j = 0; j < 100; j++) {
			g_auto(Draws) draws;

			init_in(&draws, TICK_SIZE, cases[i].max_ahead_ms, cases[i].end_tick);

			IdRun run = draws_run(&draws, cases[i].count);

			g_assert_cmpuint(run.first_cursor, >=, (guint64)T0_TICK << 12);
			g_assert_cmpuint(
				run.first_cursor + run.count, <=,
				(guint64)(MIN(cases[i].end_tick, T0_TICK + cases[i].max_ahead_ms) +
					  1)
					<< 12);
		}
	}
}
