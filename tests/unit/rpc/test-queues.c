/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/queues.h"

#define TURN_IDS 100

static gint64 now_us;
static guint looks;

static gint64 scripted_clock_us(void)
{
	looks++;
	return now_us;
}

static const RpcLimits LIMITS = {
	.max_wait_ms = 10,
	.turn_ids = TURN_IDS,
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
static void test_limits(void)
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
static void test_order(void)
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

static void test_time_is_read_once(void)
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

/* As the loop does: the next one draws what it may. */
static Queue draw(Queues *queues, guint ids)
{
	QueuePlace *next = queues_next_for_ids(queues);
	Queue queue = next->queue;

	queues_note_drawn(queues, queue, MIN(ids, queues_quota(queues, next)));
	queues_enter(queues, next, queue);
	return queue;
}

/* While both wait, each gets half. */
static void test_half_each(void)
{
	Queues queues;
	QueuePlace single = {0}, batch = {0};
	guint ids[N_QUEUES] = {0};

	set_up(&queues);
	queues_enter(&queues, &batch, QUEUE_BATCH);
	queues_enter(&queues, &single, QUEUE_SINGLE);
	for (guint i = 0; i < 10000; i++) {
		guint batch_ids = 1 + i % TURN_IDS;
		Queue next = queues_next_for_ids(&queues)->queue;

		ids[draw(&queues, next == QUEUE_BATCH ? batch_ids : 1)] +=
			next == QUEUE_BATCH ? batch_ids : 1;
	}
	g_assert_cmpuint(ids[QUEUE_SINGLE], >=, ids[QUEUE_BATCH] - TURN_IDS);
	g_assert_cmpuint(ids[QUEUE_SINGLE], <=, ids[QUEUE_BATCH]);
}

/* Whoever waits alone has all there is, and saves nothing up. */
static void test_alone(void)
{
	static const Queue QUEUES[] = {QUEUE_SINGLE, QUEUE_BATCH};

	for (gsize i = 0; i < G_N_ELEMENTS(QUEUES); i++) {
		Queues queues;
		QueuePlace alone = {0}, other = {0};

		set_up(&queues);
		g_assert_null(queues_next_for_ids(&queues));
		queues_enter(&queues, &alone, QUEUES[i]);
		for (guint n = 0; n < 50; n++) {
			g_assert_cmpuint(queues_quota(&queues, &alone), ==, TURN_IDS);
			g_assert_cmpint(draw(&queues, TURN_IDS), ==, QUEUES[i]);
		}
		queues_enter(&queues, &other, QUEUE_SINGLE + QUEUE_BATCH - QUEUES[i]);
		for (guint n = 0; n <= TURN_IDS; n++) /* the turn of the other comes soon */
			if (draw(&queues, QUEUES[i] == QUEUE_BATCH ? 1 : TURN_IDS) != QUEUES[i])
				break;
			else
				g_assert_cmpuint(n, <, TURN_IDS);
	}
}

/* Time limits are held against what was there at the last look that told of all. */
static void test_expired(void)
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

/* A wake-up is for all who wait: one who then waits for the clock does not use it up. */
static void test_wake(void)
{
	Queues queues;
	QueuePlace single = {0}, batch = {0};

	set_up(&queues);
	queues_enter(&queues, &single, QUEUE_SINGLE);
	queues_enter(&queues, &batch, QUEUE_BATCH);
	single.retry_us = batch.retry_us = G_MAXINT64;
	g_assert_false(queues_is_due(&queues, &single) || queues_is_due(&queues, &batch));
	queues_wake(&queues);
	g_assert_true(queues_is_due(&queues, &single) && queues_is_due(&queues, &batch));
	batch.retry_us = now_us + 1000;
	g_assert_true(queues_is_due(&queues, &single) && !queues_is_due(&queues, &batch));
	pass_time(&queues, 1000);
	g_assert_true(queues_is_due(&queues, &batch));
	single.retry_us = G_MAXINT64;
	pass_time(&queues, 8999);
	g_assert_false(queues_is_due(&queues, &single));
	pass_time(&queues, 1); /* its time limit */
	g_assert_true(queues_is_due(&queues, &single));
}

/* Whose time is over is told so, whoever's turn it is. */
static void test_run_out(void)
{
	Queues queues;
	QueuePlace single = {0}, batch = {0};

	set_up(&queues);
	queues_enter(&queues, &single, QUEUE_SINGLE);
	pass_time(&queues, 5000);
	queues_enter(&queues, &batch, QUEUE_BATCH);
	g_assert_true(queues_next_for_ids(&queues) ==
		      &batch); /* nothing saved up for single ones */
	pass_time(&queues, 5000);
	g_assert_true(queues_next_for_ids(&queues) == &single);
	queues_leave(&queues, &single);
	queues_note_drawn(&queues, QUEUE_BATCH, 50);
	queues_enter(&queues, &single, QUEUE_SINGLE);
	g_assert_true(queues_next_for_ids(&queues) == &single);
	pass_time(&queues, 5000);
	g_assert_true(queues_next_for_ids(&queues) == &batch);
	pass_time(&queues, 10000); /* both, the batch for longer */
	g_assert_true(queues_next_for_ids(&queues) == &batch);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/queues/limits", test_limits);
	g_test_add_func("/queues/order", test_order);
	g_test_add_func("/queues/time-is-read-once", test_time_is_read_once);
	g_test_add_func("/queues/half-each", test_half_each);
	g_test_add_func("/queues/alone", test_alone);
	g_test_add_func("/queues/expired", test_expired);
	g_test_add_func("/queues/wake", test_wake);
	g_test_add_func("/queues/run-out", test_run_out);
	return g_test_run();
}
