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
	queues_set_time(queues, 0);
}

/* Each queue has its own limit. Without a limit, a call waits for nothing but its turn. */
TEST("/queues/limits", test_limits)
{
	static const struct {
		Queue queue;
		gint64 limit_us; /* 0 if none */
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
		g_assert_cmpuint(queues.length, ==, 0);
		queues_enter(&queues, &one, CASES[i].queue);
		g_assert_true((queues.length == 0) == !CASES[i].stands);
		g_assert_true(queues_head(&queues, CASES[i].queue) ==
			      (CASES[i].stands ? &one : NULL));
		first_us = queues_first_deadline_at_us(&queues);
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
		g_assert_cmpuint(queues.length, ==, 0);
		g_assert_null(queues_head(&queues, CASES[i].queue));
	}
}

/* The order is that of entering. A place that enters again is last, and leaving twice is allowed.
 */
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
	g_assert_cmpuint(queues.length, ==, 0);
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

/* If the loop is late, a call gets more time, but only once in ten times. */
TEST("/queues/late", test_late)
{
	static const struct {
		gint64 limit_us, late_us;
		gint64 more_us; /* 0 if the deadline is over */
	} CASES[] = {
		{10000, QUEUES_LATE_US - 1, 0},   {10000, QUEUES_LATE_US, 10000},
		{10000, G_TIME_SPAN_HOUR, 10000}, {5000000, G_TIME_SPAN_HOUR, G_TIME_SPAN_SECOND},
		{0, G_TIME_SPAN_HOUR, 0},
	};
	static const Queue EXTENDED[] = {QUEUE_SINGLE, QUEUE_BATCH, QUEUE_ASIDE};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES) * G_N_ELEMENTS(EXTENDED); i++) {
		Queue queue = EXTENDED[i % G_N_ELEMENTS(EXTENDED)];
		gsize n = i / G_N_ELEMENTS(EXTENDED);
		const RpcLimits limits = {.max_wait_ms = CASES[n].limit_us / 1000};
		gint64 deadline_us;
		QueuePlace one = {0};
		Queues queues;

		set_up(&queues);
		queues_init(&queues, &limits, scripted_clock_us);
		queues_enter(&queues, &one, queue);
		pass_time(&queues, CASES[n].limit_us + CASES[n].late_us);
		queues_extend_if_late(&queues, queue);
		deadline_us = one.deadline_at_us;
		g_assert_cmpint(MAX(deadline_us - now_us, 0), ==, CASES[n].more_us);
		g_assert_true(queues_has_run_out(&queues, &one) == (CASES[n].more_us == 0));
		for (guint times = 1; times < 10 && one.is_extended; times++) {
			pass_time(&queues, G_TIME_SPAN_HOUR);
			queues_extend_if_late(&queues, queue);
			g_assert_cmpint(one.deadline_at_us, ==, deadline_us);
		}
	}
}

/* Places that enter before, between and after two extensions are sorted by deadline. */
TEST("/queues/late-order", test_late_order)
{
	Queues queues;
	QueuePlace places[6] = {0};

	set_up(&queues);
	for (gsize i = 0; i < G_N_ELEMENTS(places); i += 2) {
		queues_enter(&queues, &places[i], QUEUE_SINGLE);
		pass_time(&queues, 1000);
		queues_enter(&queues, &places[i + 1], QUEUE_SINGLE);
		pass_time(&queues, i == 0 ? QUEUES_LATE_US + 10000 : 5000);
		queues_extend_if_late(&queues, QUEUE_SINGLE);
		g_assert_cmpint(queues_first_deadline_at_us(&queues), ==, places[0].deadline_at_us);
	}
	pass_time(&queues, QUEUES_LATE_US);
	queues_extend_if_late(&queues, QUEUE_SINGLE);
	for (gsize i = 1; i < G_N_ELEMENTS(places); i++)
		g_assert_cmpint(places[i - 1].deadline_at_us, <=, places[i].deadline_at_us);
	g_assert_true(queues_has_run_out(&queues, &places[1]));
	g_assert_false(queues_has_run_out(&queues, &places[2]));
}

/* Time limits are checked only against the calls of the last complete poll. */
TEST("/queues/expired", test_expired)
{
	Queues queues;
	QueuePlace one = {0};

	set_up(&queues);
	queues_enter(&queues, &one, QUEUE_FRAME);
	queues_begin_poll(&queues, 3);
	pass_time(&queues, 20000); /* for example, the process was stopped */
	queues_end_poll(&queues, TRUE);
	g_assert_null(queues_expired(&queues, QUEUE_FRAME));
	queues_begin_poll(&queues, 3);
	g_assert_null(queues_expired(&queues, QUEUE_FRAME));
	for (guint look = 1; look < 3; look++) {
		queues_end_poll(&queues, FALSE);
		g_assert_null(queues_expired(&queues, QUEUE_FRAME));
		queues_begin_poll(&queues, 3);
	}
	queues_end_poll(&queues, FALSE); /* all that were ready at first were reported by now */
	g_assert_true(queues_expired(&queues, QUEUE_FRAME) == &one);
	g_assert_null(queues_expired(&queues, QUEUE_WRITE));
	queues_leave(&queues, &one);
	g_assert_null(queues_expired(&queues, QUEUE_FRAME));
}
