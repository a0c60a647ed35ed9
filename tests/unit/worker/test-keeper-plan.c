/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit-test.h"
#include "worker/keeper-plan.h"

/* In all cases the clock shows tick 1000, of 1 ms, at NOW. */
#define NOW   5000000 /* us */
#define TICK  1000    /* us */
#define SOON  KEEPER_PLAN_SOON
#define NEVER KEEPER_PLAN_NEVER

/* clang-format off */
#define BEGIN(which) {KEEPER_PLAN_BEGIN, REGISTRY_##which, 0}
#define WAIT(until)  {KEEPER_PLAN_NOTHING, REGISTRY_NONE, until}
/* clang-format on */

typedef struct {
	const char *name;
	KeeperPlanFacts facts;
	KeeperPlan plan;
	KeeperState state;
	gint64 ids_at_us;
} Case;

static void check(const char *name, KeeperPlanFacts facts, KeeperPlan expected, KeeperState state,
		  gint64 ids_at_us)
{
	KeeperPlan plan;

	facts.now_us = NOW;
	facts.now_tick = 1000;
	facts.tick_us = TICK;
	plan = keeper_plan_next(&facts);
	g_test_message("%s", name);
	g_assert_cmpint(plan.action, ==, expected.action);
	g_assert_cmpint(plan.operation, ==, expected.operation);
	g_assert_cmpint(plan.until_us, ==, expected.until_us);
	g_assert_cmpint(keeper_plan_state(&facts), ==, state);
	g_assert_cmpint(keeper_plan_ids_at_us(&facts), ==, ids_at_us);
}

TEST("/keeper-plan/without-lease", test_without_lease)
{
	static const Case CASES[] = {
		/* clang-format off */
		{"the first claim", {0}, BEGIN(CLAIM), KEEPER_STARTING, SOON},
		{"a claim failed", {.failures = 1, .retry_at_us = NOW + 1},
		 WAIT(NOW + 1), KEEPER_STARTING, NOW + 1},
		{"the pause after it is over", {.failures = 1, .retry_at_us = NOW},
		 BEGIN(CLAIM), KEEPER_STARTING, NOW},
		{"a claim must wait", {.waiting = TRUE, .wait_until_tick = 1001},
		 WAIT(NOW + TICK), KEEPER_WAITING, NOW + TICK},
		{"the wait is over, or the clock was set right",
		 {.waiting = TRUE, .wait_until_tick = 1000}, BEGIN(CLAIM), KEEPER_WAITING, NOW},
		{"the wait is over, but was imposed a moment ago",
		 {.waiting = TRUE, .wait_until_tick = 1000, .retry_at_us = NOW + 50000},
		 WAIT(NOW + 50000), KEEPER_WAITING, NOW + 50000},
		{"the clock is outside the layout's range", {.clock_outside_layout = TRUE},
		 WAIT(NEVER), KEEPER_WAITING, NEVER},
		{"stop then", {.is_stopping = TRUE, .clock_outside_layout = TRUE},
		 {.action = KEEPER_PLAN_STOP}, KEEPER_WAITING, NEVER},
		{"after a loss", {.had_lease = TRUE}, BEGIN(CLAIM), KEEPER_RECLAIMING, SOON},
		{"after a loss, must wait",
		 {.had_lease = TRUE, .waiting = TRUE, .wait_until_tick = 1002},
		 WAIT(NOW + 2 * TICK), KEEPER_WAITING, NOW + 2 * TICK},
		{"ended", {.gave_up = TRUE, .failures = 1}, WAIT(NEVER), KEEPER_STARTING, NEVER},
		{"stop after that", {.is_stopping = TRUE, .gave_up = TRUE},
		 {.action = KEEPER_PLAN_STOP}, KEEPER_STARTING, NEVER},
		{"stop while waiting",
		 {.is_stopping = TRUE, .waiting = TRUE, .wait_until_tick = 9999},
		 {.action = KEEPER_PLAN_STOP}, KEEPER_WAITING, NEVER},
		{"stopped", {.is_stopping = TRUE, .has_stopped = TRUE},
		 WAIT(NEVER), KEEPER_STOPPED, NEVER},
		/* an operation is pending, or the registry has reported an event */
		{"must wait, and nobody knows until when",
		 {.waiting = TRUE, .wait_until_tick = NEVER, .retry_at_us = NOW + 50000},
		 WAIT(NEVER), KEEPER_WAITING, NEVER},
		{"until the registry says so",
		 {.waiting = TRUE, .wait_until_tick = NEVER, .retry_at_us = NOW + 50000,
		  .retry_now = 1},
		 BEGIN(CLAIM), KEEPER_WAITING, SOON},
		{"a claim failed, and the registry says that it is due",
		 {.had_lease = TRUE, .failures = 3, .retry_at_us = NOW + 50000, .retry_now = TRUE},
		 BEGIN(CLAIM), KEEPER_RECLAIMING, SOON},
		{"the clock is outside, whatever the registry says",
		 {.clock_outside_layout = TRUE, .retry_now = TRUE},
		 WAIT(NEVER), KEEPER_WAITING, NEVER},
		{"a claim is under way",
		 {.under_way = REGISTRY_CLAIM, .busy_since_us = NOW - 9000000},
		 WAIT(NEVER), KEEPER_STARTING, SOON},
		{"another one, after it failed",
		 {.under_way = REGISTRY_CLAIM, .had_lease = TRUE, .failures = 1,
		  .retry_at_us = NOW},
		 WAIT(NEVER), KEEPER_RECLAIMING, SOON},
		{"another one, after it had to wait",
		 {.under_way = REGISTRY_CLAIM, .waiting = TRUE, .wait_until_tick = NEVER},
		 WAIT(NEVER), KEEPER_WAITING, SOON},
		{"stop while a claim is under way",
		 {.under_way = REGISTRY_CLAIM, .is_stopping = TRUE},
		 {.action = KEEPER_PLAN_CANCEL}, KEEPER_STARTING, NEVER},
		{"once is enough",
		 {.under_way = REGISTRY_CLAIM, .is_stopping = TRUE, .cancelled = TRUE},
		 WAIT(NEVER), KEEPER_STARTING, NEVER},
		{"the lease is being given up",
		 {.under_way = REGISTRY_RELEASE, .had_lease = TRUE},
		 WAIT(NEVER), KEEPER_RECLAIMING, SOON},
		{"stop then, which would do the same",
		 {.under_way = REGISTRY_RELEASE, .had_lease = TRUE, .is_stopping = TRUE},
		 WAIT(NEVER), KEEPER_RECLAIMING, NEVER},
		{"it was given up", {.had_lease = TRUE, .end_tick = 5000},
		 BEGIN(CLAIM), KEEPER_RECLAIMING, SOON},
		/* clang-format on */
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++)
		check(CASES[i].name, CASES[i].facts, CASES[i].plan, CASES[i].state,
		      CASES[i].ids_at_us);
}

/* The reservation is 1 s long; an extension now would reach tick 2000. */
TEST("/keeper-plan/with-lease", test_with_lease)
{
	enum { IDLE, WANTED };
	static const struct {
		const char *name;
		gint64 first_tick, end_tick, written_us_ago;
		gboolean wanted;
		guint failures;
		gint64 retry_at_us;
		KeeperPlan plan;
		KeeperState state;
		gint64 ids_at_us;
	} CASES[] = {
		/* clang-format off */
		{"idle", 100, 1800, 200000, IDLE, 0, 0,
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"idle past a quarter", 100, 1800, 250000, IDLE, 0, 0,
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"idle past the end", 100, 999, 9000000, IDLE, 0, 0,
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"wanted before a quarter has passed", 100, 1800, 200000, WANTED, 0, 0,
		 WAIT(NOW + 50000), KEEPER_SERVING, SOON},
		{"just before", 100, 1800, 249999, WANTED, 0, 0,
		 WAIT(NOW + 1), KEEPER_SERVING, SOON},
		{"a quarter has passed", 100, 1800, 250000, WANTED, 0, 0,
		 BEGIN(EXTEND), KEEPER_SERVING, SOON},
		{"it lasts 800 ms, and a quarter has passed", 100, 1600, 200000, WANTED, 0, 0,
		 BEGIN(EXTEND), KEEPER_SERVING, SOON},
		{"it lasts a little more", 100, 1604, 200000, WANTED, 0, 0,
		 WAIT(NOW + 1000), KEEPER_SERVING, SOON},
		{"one past it: the clock has stepped", 100, 999, 200000, WANTED, 0, 0,
		 BEGIN(EXTEND), KEEPER_SERVING, SOON},
		{"wanted after it lapsed", 100, 999, 9000000, WANTED, 0, 0,
		 BEGIN(EXTEND), KEEPER_SERVING, SOON},
		{"the clock was set back: nothing to extend", 100, 2000, 900000, WANTED, 0, 0,
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"one tick to extend", 100, 1999, 900000, WANTED, 0, 0,
		 BEGIN(EXTEND), KEEPER_SERVING, SOON},

		{"begins now", 1000, 1800, 200000, IDLE, 0, 0,
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"begins later", 1003, 1800, 200000, IDLE, 0, 0,
		 WAIT(NOW + 3 * TICK), KEEPER_WAITING, NOW + 3 * TICK},
		{"begins later, wanted", 1003, 1800, 200000, WANTED, 0, 0,
		 WAIT(NOW + 3 * TICK), KEEPER_WAITING, NOW + 3 * TICK},
		{"begins after a quarter has passed", 1100, 1800, 200000, WANTED, 0, 0,
		 WAIT(NOW + 50000), KEEPER_WAITING, NOW + 100 * TICK},

		{"an extension failed", 100, 1800, 900000, WANTED, 1, NOW + 7,
		 WAIT(NOW + 7), KEEPER_SERVING, NOW + 7},
		{"and is due again", 100, 1800, 900000, WANTED, 1, NOW,
		 BEGIN(EXTEND), KEEPER_SERVING, NOW},
		{"though nobody asks any more", 100, 1800, 900000, IDLE, 1, NOW,
		 BEGIN(EXTEND), KEEPER_SERVING, NOW},
		{"it failed, and this is the last tick", 100, 1000, 900000, IDLE, 3, NOW + 7,
		 WAIT(NOW + 7), KEEPER_SERVING, NOW + 7},
		{"it failed, and the end comes before the retry", 100, 1000, 900000, IDLE, 3,
		 NOW + TICK + 7, WAIT(NOW + TICK), KEEPER_SERVING, NOW + TICK + 7},
		{"it failed, and the end has passed", 100, 999, 900000, IDLE, 3, NOW + 7,
		 WAIT(NOW + 7), KEEPER_UNAVAILABLE, NOW + 7},
		/* clang-format on */
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		KeeperPlanFacts facts = {
			.has_lease = TRUE,
			.extension_wanted = CASES[i].wanted,
			.failures = CASES[i].failures,
			.retry_at_us = CASES[i].retry_at_us,
			.ids_from_tick = CASES[i].first_tick,
			.end_tick = CASES[i].end_tick,
			.next_end_tick = 2000,
			.written_at_us = NOW - CASES[i].written_us_ago,
			.length_us = 1000000,
		};

		check(CASES[i].name, facts, CASES[i].plan, CASES[i].state, CASES[i].ids_at_us);
		facts.is_stopping = TRUE;
		check("stop then", facts, (KeeperPlan)BEGIN(RELEASE), CASES[i].state, NEVER);
		facts.is_stopping = FALSE;
		facts.clock_outside_layout = TRUE;
		check("the clock is outside then", facts, (KeeperPlan)WAIT(NEVER), KEEPER_WAITING,
		      NEVER);
		facts.clock_outside_layout = FALSE;
		facts.gave_up = TRUE;
		g_assert_cmpint(keeper_plan_next(&facts).action, ==, KEEPER_PLAN_NOTHING);
		g_assert_cmpint(keeper_plan_ids_at_us(&facts), ==, NEVER);
	}
}

/* Events with the reservation as above, and no extension due yet. */
TEST("/keeper-plan/with-lease-and-events", test_with_lease_and_events)
{
	static const Case CASES[] = {
		/* clang-format off */
		{"the next attempt is due now", {.extension_wanted = TRUE, .retry_now = TRUE},
		 BEGIN(EXTEND), KEEPER_SERVING, SOON},
		{"but nobody asks for IDs", {.retry_now = TRUE}, WAIT(NEVER), KEEPER_SERVING, SOON},
		{"retry now after a failure",
		 {.failures = 2, .retry_at_us = NOW + 9, .retry_now = TRUE},
		 BEGIN(EXTEND), KEEPER_SERVING, SOON},
		{"retry now, but there is nothing to extend",
		 {.extension_wanted = TRUE, .retry_now = TRUE, .next_end_tick = 1800},
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"an extension is under way",
		 {.extension_wanted = TRUE, .retry_now = TRUE, .under_way = REGISTRY_EXTEND,
		  .busy_since_us = NOW - 999999},
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"for long, but there is time left",
		 {.under_way = REGISTRY_EXTEND, .busy_since_us = NOW - 9000000, .end_tick = 1000},
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"it failed before",
		 {.under_way = REGISTRY_EXTEND, .busy_since_us = NOW, .failures = 1,
		  .end_tick = 1000},
		 WAIT(NOW + TICK), KEEPER_SERVING, SOON},
		{"past the end, but not for long",
		 {.under_way = REGISTRY_EXTEND, .busy_since_us = NOW - 999999, .end_tick = 999},
		 WAIT(NEVER), KEEPER_SERVING, SOON},
		{"past the end, and it hangs",
		 {.under_way = REGISTRY_EXTEND, .busy_since_us = NOW - 1000000, .end_tick = 999},
		 WAIT(NEVER), KEEPER_UNAVAILABLE, SOON},
		{"stop while it is under way",
		 {.under_way = REGISTRY_EXTEND, .busy_since_us = NOW, .is_stopping = TRUE},
		 {.action = KEEPER_PLAN_CANCEL}, KEEPER_SERVING, NEVER},
		{"the clock stepped back, and it is to be given up",
		 {.extension_wanted = TRUE, .last_id_ahead_of_clock = TRUE, .retry_now = TRUE},
		 BEGIN(RELEASE), KEEPER_RECLAIMING, SOON},
		{"not before what is under way is done",
		 {.last_id_ahead_of_clock = TRUE, .under_way = REGISTRY_EXTEND,
		  .busy_since_us = NOW},
		 WAIT(NEVER), KEEPER_RECLAIMING, SOON},
		{"the clock is outside the range, which is not a step to make up for",
		 {.last_id_ahead_of_clock = TRUE, .clock_outside_layout = TRUE},
		 WAIT(NEVER), KEEPER_WAITING, NEVER},
		{"the registry's clock is behind, but what is held will do",
		 {.extension_wanted = TRUE, .clock_too_far_ahead = TRUE, .end_tick = 1000},
		 WAIT(NOW + TICK), KEEPER_SERVING, SOON},
		{"it will not do any more",
		 {.extension_wanted = TRUE, .clock_too_far_ahead = TRUE, .end_tick = 999},
		 WAIT(NEVER), KEEPER_UNAVAILABLE, NEVER},
		/* clang-format on */
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		KeeperPlanFacts facts = CASES[i].facts;

		facts.has_lease = TRUE;
		facts.ids_from_tick = 100;
		facts.end_tick = facts.end_tick != 0 ? facts.end_tick : 1800;
		facts.next_end_tick = facts.next_end_tick != 0 ? facts.next_end_tick : 2000;
		facts.written_at_us = NOW - 200000;
		facts.length_us = 1000000;
		check(CASES[i].name, facts, CASES[i].plan, CASES[i].state, CASES[i].ids_at_us);
	}
}

/* The clock may leave the layout and return in each state except the last. */
TEST("/keeper-plan/moves", test_moves)
{
	for (KeeperState state = KEEPER_STARTING; state < KEEPER_STOPPED; state++) {
		g_assert_true(keeper_plan_may_follow(state, KEEPER_STOPPED));
		g_assert_false(keeper_plan_may_follow(KEEPER_STOPPED, state));
		if (state != KEEPER_WAITING) {
			g_assert_true(keeper_plan_may_follow(state, KEEPER_WAITING));
			g_assert_true(keeper_plan_may_follow(KEEPER_WAITING, state));
		}
	}
	g_assert_false(keeper_plan_may_follow(KEEPER_SERVING, KEEPER_STARTING));
}

TEST("/keeper-plan/backoff", test_backoff)
{
	static const struct {
		guint failures;
		gdouble jitter;
		gint64 backoff_us;
	} BACKOFFS[] = {
		{1, 0, 50000},    {1, 0.99, 50000},       {2, 0, 50000},         {2, 0.5, 75000},
		{3, 0.5, 125000}, {5, 0.5, 425000},       {6, 0.5, 525000},      {7, 0, 50000},
		{7, 0.5, 525000}, {1000000, 0.5, 525000}, {G_MAXUINT, 0, 50000},
	};

	for (guint i = 0; i < G_N_ELEMENTS(BACKOFFS); i++)
		g_assert_cmpint(keeper_plan_backoff_us(BACKOFFS[i].failures, BACKOFFS[i].jitter),
				==, BACKOFFS[i].backoff_us);
}

/* The pause depends on the size of the fleet. */
TEST("/keeper-plan/list-pause", test_list_pause)
{
	static const struct {
		guint n_workers;
		guint n_reads;
		gdouble jitter;
		gint64 pause_s;
	} CASES[] = {{0, 0, 0, 150},        {0, 0, 0.5, 225},        {0, 0, 0.999999, 299},
		     {16, 36, 0, 150},      {250, 600, 0, 150},      {250, 604, 0, 151},
		     {1, 2048, 0, 512},     {250, 2048, 0, 512},     {251, 2048, 0, 514},
		     {1024, 2145, 0, 2196}, {1024, 2145, 0.5, 3294}, {1, G_MAXUINT, 0, 1073741823}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		g_assert_cmpint(keeper_plan_list_pause_us(CASES[i].n_workers, CASES[i].n_reads,
							  CASES[i].jitter) /
					G_USEC_PER_SEC,
				==, CASES[i].pause_s);
}

TEST("/keeper-plan/list-age", test_list_age)
{
	static const struct {
		guint n_workers;
		guint n_reads;
		gint64 age_ms;
	} CASES[] = {{0, 0, 10000},     {16, 36, 10000},      {100, 100, 10000},
		     {101, 100, 10100}, {128, 269, 34432},    {1024, 2145, 2196480},
		     {1, 10001, 10001}, {G_MAXUINT, 0, 10000}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++)
		g_assert_cmpint(keeper_plan_list_age_us(CASES[i].n_workers, CASES[i].n_reads), ==,
				CASES[i].age_ms * G_TIME_SPAN_MILLISECOND);
}

/* Returns the reads for a list of a fleet with up to 32 servers per datacenter: two per server,
 * four per datacenter, and one more. An integration test counts them. */
static guint reads_of_fleet(guint n_workers)
{
	return 1 + 4 * ((n_workers + 31) / 32) + 2 * n_workers;
}

/* The rate at which a fleet reads lists is bounded. */
TEST("/keeper-plan/reads-of-a-fleet", test_reads_of_a_fleet)
{
	for (guint n_workers = 1; n_workers <= 1 << 20; n_workers *= 2) {
		guint n_reads = reads_of_fleet(n_workers);
		gint64 pause_us = keeper_plan_list_pause_us(n_workers, n_reads, 0);

		g_test_message("%u workers", n_workers);
		g_assert_cmpint(n_reads * (gint64)G_USEC_PER_SEC, <=, 4 * pause_us);
		g_assert_cmpint((gint64)n_workers * n_reads * G_USEC_PER_SEC, <=, 1000 * pause_us);
	}
}
