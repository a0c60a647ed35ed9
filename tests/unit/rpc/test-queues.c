/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/queues.h"
#include "tests/unit/unit-test.h"

static gint64 now_us;
static guint looks;

static gint64 scripted_clock_us(void)
{
	looks++;
	return now_us;
}

static const RpcLimits LIMITS = {
	.max_wait_ms = 10,
	.frame_timeout_ms = 20,
	.write_timeout_ms = 30,
	.idle_timeout_ms = 0,
};

static void set_up(Queues *queues)
{
	now_us = 1000000;
	looks = 0;
	queues_init(queues, &LIMITS, scripted_clock_us);
}

static void pass_time(Queues *queues, gint64 us)
{
	now_us += us;
	queues_forget_time(queues);
}

/* Each queue has its limit; without one there is nothing to wait for, but for a turn. */
TEST("/queues/limits", test_limits)
{
	static const struct {
		Queue queue;
		gint64 limit_us; /* 0: none */
		gboolean stands;
	} CASES[] = {
		{QUEUE_IDLE, 0, FALSE},      {QUEUE_FRAME, 20000, TRUE},
		{QUEUE_WRITE, 30000, TRUE},  {QUEUE_CUT_OFF, 0, TRUE},
		{QUEUE_SINGLE, 10000, TRUE}, {QUEUE_BATCH, 10000, TRUE},
		{QUEUE_ASIDE, 10000, TRUE},  {QUEUE_LINGER, QUEUES_LINGER_MS * 1000, TRUE},
		{QUEUE_COSTLY, 0, TRUE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		Queues queues;
		QueuePlace one = {0};
		gint64 first_us;

		set_up(&queues);
		g_assert_true(queues_are_empty(&queues));
		queues_enter(&queues, &one, CASES[i].queue);
		g_assert_true(queues_are_empty(&queues) == !CASES[i].stands);
		g_assert_true(queues_head(&queues, CASES[i].queue) ==
			      (CASES[i].stands ? &one : NULL));
		first_us = queues_first_deadline_us(&queues);
		if (CASES[i].limit_us == 0) {
			g_assert_cmpint(first_us, ==, G_MAXINT64);
		} else {
			g_assert_cmpint(first_us, ==, now_us + CASES[i].limit_us);
			pass_time(&queues, CASES[i].limit_us - 1);
			g_assert_false(queues_has_run_out(&queues, &one));
			pass_time(&queues, 1);
			g_assert_true(queues_has_run_out(&queues, &one));
		}
		queues_leave(&queues, &one);
		g_assert_true(queues_are_empty(&queues));
		g_assert_null(queues_head(&queues, CASES[i].queue));
	}
}

/* In order of entering; entering again is behind the others, and leaving twice does no harm. */
TEST("/queues/order", test_order)
{
	Queues queues;
	QueuePlace first = {0}, second = {0};

	set_up(&queues);
	queues_enter(&queues, &first, QUEUE_CUT_OFF);
	queues_enter(&queues, &second, QUEUE_CUT_OFF);
	g_assert_true(queues_head(&queues, QUEUE_CUT_OFF) == &first);
	queues_enter(&queues, &first, QUEUE_CUT_OFF);
	g_assert_true(queues_head(&queues, QUEUE_CUT_OFF) == &second);
	queues_enter(&queues, &second, QUEUE_FRAME);
	g_assert_true(queues_head(&queues, QUEUE_CUT_OFF) == &first);
	queues_leave(&queues, &first);
	queues_leave(&queues, &first);
	queues_leave(&queues, &second);
	g_assert_true(queues_are_empty(&queues));
}

TEST("/queues/time-is-read-once", test_time_is_read_once)
{
	Queues queues;

	set_up(&queues);
	g_assert_cmpint(queues_now_us(&queues), ==, now_us);
	g_assert_cmpint(queues_now_us(&queues), ==, now_us);
	g_assert_cmpuint(looks, ==, 1);
	pass_time(&queues, 1);
	g_assert_cmpint(queues_now_us(&queues), ==, now_us);
	g_assert_cmpuint(looks, ==, 2);
}

/* When the loop was away, calls that wait for IDs or aside have as much time again. Time in which
 * it slept, and could be woken, is not such time. */
TEST("/queues/away", test_away)
{
	static const struct {
		gint64 timeout_ms; /* of the sleep; less than 0: none; 0: it did not sleep */
		gint64 took_us;
		gint64 left_us; /* of a limit of 10 ms, afterwards */
	} CASES[] = {
		{0, QUEUES_AWAY_US - 1, 10000 - QUEUES_AWAY_US + 1},
		{0, QUEUES_AWAY_US, QUEUES_AWAY_US},
		{10, 10000, 0},
		{10, 10000 + QUEUES_AWAY_US, QUEUES_AWAY_US},
		{10, G_GINT64_CONSTANT(3600000000), G_USEC_PER_SEC},
		{500, 400000, 10000 - 400000},
		{-1, 400000, 10000 - 400000},
	};
	static const Queue MOVED[] = {QUEUE_SINGLE, QUEUE_BATCH, QUEUE_ASIDE};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		Queues queues;
		QueuePlace places[QUEUE_LINGER] = {0};
		gint64 entered_us;

		set_up(&queues);
		entered_us = now_us;
		queues_attend(&queues, now_us);
		for (Queue queue = QUEUE_FRAME; queue < G_N_ELEMENTS(places); queue++)
			queues_enter(&queues, &places[queue], queue);
		pass_time(&queues, CASES[i].took_us);
		if (CASES[i].timeout_ms == 0)
			queues_attend(&queues, now_us);
		else
			queues_wake(&queues, CASES[i].timeout_ms, now_us);
		for (gsize n = 0; n < G_N_ELEMENTS(MOVED); n++)
			g_assert_cmpint(places[MOVED[n]].deadline_us - now_us, ==,
					CASES[i].left_us);
		g_assert_cmpint(places[QUEUE_FRAME].deadline_us, ==, entered_us + 20000);
		g_assert_cmpint(places[QUEUE_CUT_OFF].deadline_us, ==, G_MAXINT64);
	}
}

/* Time limits are held against what was there at the last look that told of all. */
TEST("/queues/expired", test_expired)
{
	Queues queues;
	QueuePlace one = {0};

	set_up(&queues);
	queues_enter(&queues, &one, QUEUE_FRAME);
	queues_begin_look(&queues, 3);
	pass_time(&queues, 20000); /* the process was stopped, say */
	queues_end_look(&queues, TRUE);
	g_assert_null(queues_expired(&queues, QUEUE_FRAME));
	queues_begin_look(&queues, 3);
	g_assert_null(queues_expired(&queues, QUEUE_FRAME));
	for (guint look = 1; look < 3; look++) {
		queues_end_look(&queues, FALSE);
		g_assert_null(queues_expired(&queues, QUEUE_FRAME));
		queues_begin_look(&queues, 3);
	}
	queues_end_look(&queues, FALSE); /* by now all have been told of that were ready at first */
	g_assert_true(queues_expired(&queues, QUEUE_FRAME) == &one);
	g_assert_null(queues_expired(&queues, QUEUE_WRITE));
	queues_leave(&queues, &one);
	g_assert_null(queues_expired(&queues, QUEUE_FRAME));
}
