/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "rpc/parking.h"
#include "tests/unit/unit-test.h"

#define TURN_IDS    100
#define MAX_WAIT_US 10000
#define ENDLESS     G_MAXUINT

static gint64 now_us;

static gint64 scripted_clock_us(void)
{
	return now_us;
}

/* A connection that first makes calls that wait aside, and then calls for IDs. */
typedef struct {
	QueuePlace place; /* the first member, see run_pass() */
	char name;
	guint n_calls; /* calls that are not answered yet */
	guint n_aside; /* this many of them, the first ones, wait aside */
	guint ids;     /* IDs for each of the other calls */
	gboolean costly;
} Caller;

/* The service that the callers use. */
typedef struct {
	Queues queues;
	Parking parking;
	guint ids;      /* available IDs */
	gint64 wait_ns; /* time until there are more; 0 if unknown */
	gboolean news;
	guint n_passes;
	guint n_waits;
	GString *answers; /* names of the answered callers, with a ! if refused */
} World;

/* Answers a call as the service would. Returns %FALSE if it must wait. */
static gboolean answer(World *world, const Caller *caller, RpcPass *pass)
{
	const RpcAllowance *allowance = &pass->allowance;
	gboolean aside = caller->n_aside > 0;
	gboolean may_pass =
		caller->ids > 1 ? allowance->batch_may_pass : allowance->single_may_pass;
	gboolean is_turn = aside || !allowance->others_wait || may_pass ||
			   caller->ids <= rpc_pass_ids_left(pass);
	gboolean is_there = aside ? world->news : caller->ids <= world->ids;
	RpcWaitFor for_ids = caller->ids > 1 ? RPC_WAIT_BATCH : RPC_WAIT_SINGLE;

	if (caller->costly && rpc_pass_defers(pass)) {
		pass->wait = (RpcWait){RPC_WAIT_TURN, 0};
		return FALSE;
	}
	if (!is_turn || (!is_there && rpc_pass_may_wait(pass))) {
		pass->wait =
			(RpcWait){aside ? RPC_WAIT_ASIDE : for_ids, is_turn ? world->wait_ns : 1};
		return FALSE;
	}
	g_string_append_c(world->answers, caller->name);
	if (!is_there)
		g_string_append_c(world->answers, '!');
	if (is_there && !aside) {
		world->ids -= caller->ids;
		pass->n_drawn += caller->ids;
	}
	pass->n_answered++;
	pass->was_costly |= caller->costly;
	return TRUE;
}

/* A ParkingRun */
static void run_pass(gpointer user_data, QueuePlace *place, RpcPass *pass)
{
	World *world = user_data;
	Caller *caller = (Caller *)place;

	world->n_passes++;
	while (caller->n_calls > 0 && answer(world, caller, pass)) {
		caller->n_calls--;
		caller->n_aside -= MIN(caller->n_aside, 1);
	}
	if (caller->n_calls == 0)
		queues_leave(&world->queues, place);
	else if (parking_park(&world->parking, place, pass))
		world->n_waits++;
}

static guint waiting_for_ids(const World *self)
{
	return self->queues.queues[QUEUE_SINGLE].length + self->queues.queues[QUEUE_BATCH].length;
}

static World *world_new(void)
{
	static const RpcLimits LIMITS = {.max_wait_ms = MAX_WAIT_US / 1000};
	World *self = g_new0(World, 1);

	now_us = 1000000;
	queues_init(&self->queues, &LIMITS, scripted_clock_us);
	self->parking = (Parking){&self->queues, TURN_IDS, FALSE, 0, FALSE, FALSE};
	self->answers = g_string_new(NULL);
	return self;
}

static void world_free(World *self)
{
	g_string_free(self->answers, TRUE);
	g_free(self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(World, world_free)

/* Bytes of the connection arrive, and the loop handles them. */
static void arrive(World *world, Caller *caller)
{
	RpcPass pass = {.allowance = parking_allowance(&world->parking, QUEUE_NONE)};

	run_pass(world, &caller->place, &pass);
}

static void arrive_all(World *world, Caller *callers, gsize n)
{
	for (gsize i = 0; i < n; i++)
		arrive(world, &callers[i]);
}

/* Runs a round of the loop after @us. */
static void go_round_after(World *world, gint64 us)
{
	now_us += us;
	queues_set_time(&world->queues, 0);
	parking_retry(&world->parking, run_pass, world);
}

static void wake(World *world)
{
	queues_set_time(&world->queues, 0);
	parking_wake(&world->parking);
	parking_retry(&world->parking, run_pass, world);
}

static void assert_answers(World *world, const char *expected)
{
	g_assert_cmpstr(world->answers->str, ==, expected);
	g_string_truncate(world->answers, 0);
}

/* Wakes all calls, with enough IDs for them, and asserts the answers of each round up to the last
 * one. @answers: NULL-terminated */
static void assert_rounds(World *world, const char *const *answers)
{
	world->ids = 1000;
	world->news = TRUE;
	wake(world);
	for (; *answers != NULL; answers++) {
		assert_answers(world, *answers);
		g_assert_true(parking_is_behind(&world->parking) == (answers[1] != NULL));
		go_round_after(world, 0);
	}
}

/* With a fleet as source, a batch is pending while there are prefetched single IDs, or the reverse.
 */
TEST("/parking/batches-apart", test_batches_apart)
{
	static const struct {
		guint waits, passes; /* number of IDs of each call */
	} CASES[] = {{5, 1}, {1, 5}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(World) world = world_new();
		Caller waits = {.name = 'a', .n_calls = 1, .ids = CASES[i].waits};
		Caller passes = {.name = 'b', .n_calls = 1, .ids = CASES[i].passes};
		Caller next = {.name = 'c', .n_calls = 1, .ids = CASES[i].waits};

		world->parking = (Parking){&world->queues, TURN_IDS, TRUE, 0, FALSE, FALSE};
		arrive(world, &waits);
		world->ids = CASES[i].passes;
		arrive(world, &passes);
		assert_answers(world, "b");
		/* calls of one kind keep their order */
		world->ids = CASES[i].waits;
		arrive(world, &next);
		assert_answers(world, "");
		wake(world);
		assert_answers(world, "a");
		/* both are refused wait for IDs */
		passes.n_calls = 1;
		arrive(world, &passes);
		world->ids = CASES[i].passes < CASES[i].waits ? 1 : 0;
		wake(world);
		assert_answers(world, world->ids == 0 && CASES[i].passes == 1 ? "b" : "");
		/* each is refused in time */
		world->ids = 0;
		go_round_after(world, MAX_WAIT_US);
		g_assert_cmpuint(waiting_for_ids(world), ==, 0);
	}
}

TEST("/parking/order-of-arrival", test_order_of_arrival)
{
	g_autoptr(World) world = world_new();
	Caller callers[] = {
		{.name = 'a', .n_calls = 1, .ids = 1},
		{.name = 'b', .n_calls = 1, .ids = 1},
		{.name = 'c', .n_calls = 1, .ids = 1},
	};
	Caller late = {.name = 'd', .n_calls = 1, .ids = 1};

	arrive_all(world, callers, G_N_ELEMENTS(callers));
	g_assert_cmpuint(waiting_for_ids(world), ==, 3);
	world->ids = 1;
	arrive(world, &late); /* it does not get the IDs that others wait for */
	assert_answers(world, "");
	wake(world);
	assert_answers(world, "a");
	world->ids = 2;
	wake(world);
	assert_answers(world, "bc");
	world->ids = 1;
	wake(world);
	assert_answers(world, "d");
	g_assert_cmpuint(waiting_for_ids(world), ==, 0);
}

/* A caller with another call goes to the end of the queue, and its waiting time starts again. A
 * caller that got nothing keeps its place. */
TEST("/parking/its-next-call", test_its_next_call)
{
	g_autoptr(World) world = world_new();
	Caller callers[] = {
		{.name = 'a', .n_calls = 2, .ids = 1},
		{.name = 'b', .n_calls = 1, .ids = 1},
	};

	arrive_all(world, callers, G_N_ELEMENTS(callers));
	wake(world);
	g_assert_cmpuint(world->n_waits, ==, 2);
	now_us += MAX_WAIT_US / 2;
	world->ids = 1;
	wake(world);
	g_assert_cmpuint(world->n_waits, ==, 3);
	world->ids = 2;
	wake(world);
	assert_answers(world, "aba");
	g_assert_cmpuint(world->n_waits, ==, 3);
}

/* While batches and single IDs wait, each kind gets half. */
TEST("/parking/half-each", test_half_each)
{
	g_autoptr(World) world = world_new();
	Caller single = {.name = 's', .n_calls = ENDLESS, .ids = 1};
	Caller batch = {.name = 'b', .n_calls = ENDLESS, .ids = 2};
	guint ids[2] = {0};

	arrive(world, &single);
	arrive(world, &batch);
	world->ids = G_MAXUINT;
	for (guint i = 0; i < 1000; i++) {
		batch.ids = 2 + i % (TURN_IDS - 1);
		wake(world);
		for (gsize n = 0; n < world->answers->len; n++)
			if (world->answers->str[n] == 's')
				ids[0]++;
			else
				ids[1] += batch.ids;
		g_string_truncate(world->answers, 0);
	}
	g_assert_cmpuint(ids[0], >, 50000);
	g_assert_cmpuint(ids[0], >=, ids[1] - TURN_IDS);
	g_assert_cmpuint(ids[0], <=, ids[1]);
}

/* A batch is followed by as many single IDs as it had, for any waiting callers. */
TEST("/parking/turns", test_turns)
{
	g_autoptr(World) world = world_new();
	Caller callers[] = {
		{.name = 'a', .n_calls = 70, .ids = 1},
		{.name = 'b', .n_calls = 70, .ids = 1},
		{.name = 'Y', .n_calls = 1, .ids = 60},
		{.name = 'Z', .n_calls = 2, .ids = 40},
	};
	g_autoptr(GString) expected = g_string_new("Y");

	arrive_all(world, callers, G_N_ELEMENTS(callers));
	world->ids = 1000;
	wake(world);
	for (guint i = 0; i < 60; i++)
		g_string_append_c(expected, 'a');
	g_string_append(expected, "ZZ");
	for (guint i = 0; i < 70; i++)
		g_string_append_c(expected, 'b');
	assert_answers(world, expected->str);
	go_round_after(world, 1);
	assert_answers(world, "aaaaaaaaaa");
}

/* If only one kind of call waits, it does not wait for a turn. */
TEST("/parking/by-itself", test_by_itself)
{
	g_autoptr(World) world = world_new();
	Caller caller = {.name = 'a', .n_calls = 3 * TURN_IDS, .ids = 1};

	arrive(world, &caller);
	world->n_passes = 0;
	world->ids = 3 * TURN_IDS;
	wake(world);
	g_assert_cmpuint(world->answers->len, ==, 3 * TURN_IDS);
	g_assert_cmpuint(world->n_passes, ==, 1);
}

/* One kind gets all IDs while it waits alone, but saves up no turns: the other kind gets its turn
 * soon. */
TEST("/parking/one-kind", test_one_kind)
{
	static const guint KINDS[] = {1, 2};

	for (gsize i = 0; i < G_N_ELEMENTS(KINDS); i++) {
		g_autoptr(World) world = world_new();
		Caller alone[] = {
			{.name = 'a', .n_calls = ENDLESS, .ids = KINDS[i]},
			{.name = 'b', .n_calls = ENDLESS, .ids = KINDS[i]},
		};
		Caller other = {.name = 'c', .n_calls = ENDLESS, .ids = 3 - KINDS[i]};
		const char *first, *next;

		arrive_all(world, alone, G_N_ELEMENTS(alone));
		world->ids = G_MAXUINT;
		for (guint n = 0; n < 50; n++) {
			wake(world);
			g_assert_cmpuint(world->answers->len, ==, 2 * TURN_IDS / KINDS[i]);
			g_assert_cmpuint(strspn(world->answers->str, "a"), ==, TURN_IDS / KINDS[i]);
			g_string_truncate(world->answers, 0);
		}
		arrive(world, &other);
		wake(world);
		first = strchr(world->answers->str, 'c');
		g_assert_nonnull(first);
		g_assert_cmpint(first - world->answers->str, <=, TURN_IDS);
		next = first + strspn(first, "c");
		g_assert_true(*next != '\0');
		g_assert_cmpint(next - first, <=, TURN_IDS);
	}
}

/* A call is refused at its time limit, not earlier. The next call on the connection has not waited
 * yet. */
TEST("/parking/max-wait", test_max_wait)
{
	g_autoptr(World) world = world_new();
	Caller callers[] = {
		{.name = 'a', .n_calls = 2, .ids = 1},
		{.name = 'z', .n_calls = 1, .n_aside = 1},
	};

	now_us += 5; /* the loop has not run since */
	arrive_all(world, callers, G_N_ELEMENTS(callers));
	world->n_passes = 0;
	go_round_after(world, MAX_WAIT_US - 1);
	g_assert_cmpuint(world->n_passes, ==, 0);
	go_round_after(world, 1);
	assert_answers(world, "z!a!");
	go_round_after(world, MAX_WAIT_US - 1);
	assert_answers(world, "");
	go_round_after(world, 1);
	assert_answers(world, "a!");
	g_assert_cmpuint(world->queues.length, ==, 0);
}

/* If the loop is late for the end of the time, the calls are tried, but not refused yet. */
TEST("/parking/late-loop", test_late_loop)
{
	g_autoptr(World) world = world_new();
	Caller callers[] = {
		{.name = 'a', .n_calls = 1, .ids = 1},
		{.name = 'b', .n_calls = 1, .ids = 2},
		{.name = 'z', .n_calls = 1, .n_aside = 1},
	};

	arrive_all(world, callers, G_N_ELEMENTS(callers));
	world->n_passes = 0;
	go_round_after(world, MAX_WAIT_US + QUEUES_LATE_US);
	g_assert_cmpuint(world->n_passes, ==, G_N_ELEMENTS(callers));
	assert_answers(world, "");
	go_round_after(world, MAX_WAIT_US - 1);
	assert_answers(world, "");
	go_round_after(world, 1 + QUEUES_LATE_US);
	assert_answers(world, "z!a!b!");
}

/* Calls at their time limit are refused out of turn, in the order of their waiting times. */
TEST("/parking/max-wait-out-of-turn", test_max_wait_out_of_turn)
{
	g_autoptr(World) world = world_new();
	Caller saver = {.name = 'B', .n_calls = 1, .ids = 50};
	Caller single = {.name = 's', .n_calls = 1, .ids = 1};
	Caller batch = {.name = 'b', .n_calls = 1, .ids = 50};

	arrive(world, &single);
	go_round_after(world, MAX_WAIT_US / 2);
	arrive(world, &batch); /* its turn: single IDs save up no turns */
	go_round_after(world, MAX_WAIT_US / 2);
	assert_answers(world, "s!");
	go_round_after(world, MAX_WAIT_US / 2);
	assert_answers(world, "b!");

	arrive(world, &saver);
	world->ids = 50;
	wake(world);
	assert_answers(world, "B");
	batch.n_calls = single.n_calls = 1;
	arrive(world, &batch);
	go_round_after(world, 1);
	arrive(world, &single); /* its turn */
	go_round_after(world, MAX_WAIT_US - 1);
	assert_answers(world, "b!");
	batch.n_calls = 1;
	arrive(world, &batch);
	go_round_after(world, 2 * MAX_WAIT_US); /* both */
	assert_answers(world, "s!b!");
}

/* Batches whose time limit is over do not delay single IDs, whether they get IDs or not. */
TEST("/parking/batches-that-have-run-out", test_batches_that_have_run_out)
{
	static const struct {
		gboolean apart;
		guint ids;
		const char *answers;
	} CASES[] = {{FALSE, 200, "AstBC"},
		     {FALSE, 40, "A!sB!tC!"},
		     {TRUE, 200, "AstBC"},
		     {TRUE, 40, "A!sB!tC!"}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(World) world = world_new();
		Caller batches[] = {
			{.name = 'A', .n_calls = 1, .ids = 50},
			{.name = 'B', .n_calls = 1, .ids = 50},
			{.name = 'C', .n_calls = 1, .ids = 50},
		};
		Caller singles[] = {
			{.name = 's', .n_calls = 1, .ids = 1},
			{.name = 't', .n_calls = 1, .ids = 1},
		};

		world->parking =
			(Parking){&world->queues, TURN_IDS, CASES[i].apart, 0, FALSE, FALSE};
		arrive_all(world, batches, G_N_ELEMENTS(batches));
		go_round_after(world, MAX_WAIT_US / 2);
		arrive_all(world, singles, G_N_ELEMENTS(singles));
		now_us += MAX_WAIT_US / 2 + 1;
		world->ids = CASES[i].ids;
		wake(world);
		assert_answers(world, CASES[i].answers);
	}
}

/* A wake-up applies to all that wait: one that then waits for the clock does not use it up. */
TEST("/parking/wake", test_wake)
{
	g_autoptr(World) world = world_new();
	Caller batch = {.name = 'b', .n_calls = 1, .ids = 2};
	Caller single = {.name = 's', .n_calls = 1, .ids = 1};

	arrive(world, &batch);
	arrive(world, &single);
	world->n_passes = 0;
	single.place.retry_at_us = G_MAXINT64; /* it waits for the clock, not behind the batch */
	go_round_after(world, MAX_WAIT_US / 2);
	g_assert_cmpuint(world->n_passes, ==, 0);
	g_assert_cmpint(parking_retry_at_us(&world->parking), ==, 0);
	world->wait_ns = 1000000;
	wake(world);
	g_assert_cmpuint(world->n_passes, ==, 1);
	g_assert_cmpint(parking_retry_at_us(&world->parking), ==, now_us + 1001);
	g_assert_false(parking_is_behind(&world->parking));
	world->ids = 2;
	go_round_after(world, 1000);
	assert_answers(world, "");
	go_round_after(world, 1);
	assert_answers(world, "b");
	g_assert_cmpuint(world->n_passes, ==, 3); /* only the single one has tried */
}

/* A call waits from its pass on, even if the loop has an older time. */
TEST("/parking/time-of-parking", test_time_of_parking)
{
	g_autoptr(World) world = world_new();
	Caller caller = {.name = 'a', .n_calls = 1, .ids = 1};

	go_round_after(world, 0);
	queues_now_us(&world->queues);
	now_us += 3000; /* for example, the process was stopped */
	world->wait_ns = 2000000;
	arrive(world, &caller);
	g_assert_cmpint(parking_retry_at_us(&world->parking), ==, now_us + 2001);
	g_assert_cmpint(caller.place.deadline_at_us, ==, now_us + MAX_WAIT_US);
}

/* Other calls do not wait after these. All of these wait for the same event: if it has not occurred
 * for the first one, it has not occurred for the others. */
TEST("/parking/aside", test_aside)
{
	g_autoptr(World) world = world_new();
	Caller callers[] = {
		{.name = 'a', .n_calls = 2, .n_aside = 1, .ids = 1},
		{.name = 'b', .n_calls = 1, .n_aside = 1},
	};
	Caller single = {.name = 's', .n_calls = 1, .ids = 1};

	arrive_all(world, callers, G_N_ELEMENTS(callers));
	g_assert_true(parking_holds(&callers[0].place) && parking_holds(&callers[1].place));
	world->ids = 1;
	arrive(world, &single);
	assert_answers(world, "s");
	world->n_passes = 0;
	wake(world);
	g_assert_cmpuint(world->n_passes, ==, 1);
	g_assert_false(parking_is_behind(&world->parking));
	world->news = TRUE;
	go_round_after(world, 1);
	g_assert_cmpuint(world->n_passes, ==, 1);
	wake(world);
	assert_answers(world, "ab");
	g_assert_cmpuint(waiting_for_ids(world), ==, 1); /* the next call */
	world->ids = 1;
	wake(world);
	assert_answers(world, "a");
	g_assert_false(parking_holds(&callers[0].place) || parking_holds(&callers[1].place));
}

/* A client disconnects, at the front and in the middle of the queue. */
TEST("/parking/ends-while-it-waits", test_ends_while_it_waits)
{
	g_autoptr(World) world = world_new();
	Caller callers[] = {
		{.name = 'a', .n_calls = 1, .ids = 1},     {.name = 'b', .n_calls = 1, .ids = 1},
		{.name = 'c', .n_calls = 1, .ids = 1},     {.name = 'd', .n_calls = 1, .ids = 1},
		{.name = 'z', .n_calls = 1, .n_aside = 1},
	};

	arrive_all(world, callers, G_N_ELEMENTS(callers));
	queues_leave(&world->queues, &callers[0].place);
	queues_leave(&world->queues, &callers[2].place);
	queues_leave(&world->queues, &callers[4].place);
	world->ids = 4;
	world->news = TRUE;
	wake(world);
	assert_answers(world, "bd");
	g_assert_cmpuint(world->ids, ==, 2);
	g_assert_false(parking_is_behind(&world->parking));
	g_assert_cmpint(parking_retry_at_us(&world->parking), ==, 0);
}

/* A round answers some calls, then handles other events. The rest follows later. */
TEST("/parking/some-at-a-time", test_some_at_a_time)
{
	static const guint N_ASIDE[] = {0, 1};

	for (gsize i = 0; i < G_N_ELEMENTS(N_ASIDE); i++) {
		g_autoptr(World) world = world_new();
		Caller callers[20] = {0};

		for (gsize n = 0; n < G_N_ELEMENTS(callers); n++) {
			callers[n] = (Caller){
				.name = 'a', .n_calls = 1, .n_aside = N_ASIDE[i], .ids = 1};
			arrive(world, &callers[n]);
		}
		assert_rounds(world, (const char *[]){"aaaaaaaaaaaaaaaa", "aaaa", NULL});
	}
}

/* A costly call is deferred first. Only one that was parked is answered in each round. */
TEST("/parking/costly", test_costly)
{
	static const guint N_ASIDE[] = {0, 1};

	for (gsize i = 0; i < G_N_ELEMENTS(N_ASIDE); i++) {
		g_autoptr(World) world = world_new();
		Caller callers[3] = {0};

		for (gsize n = 0; n < G_N_ELEMENTS(callers); n++) {
			RpcPass turn = {.allowance.costly = RPC_COSTLY_ONE};
			Caller *caller = &callers[n];

			*caller = (Caller){.name = (char)('a' + n),
					   .n_calls = 1,
					   .n_aside = N_ASIDE[i],
					   .ids = 1,
					   .costly = TRUE};
			arrive(world, caller);
			g_assert_true(parking_holds(&caller->place));
			g_assert_cmpuint(parking_n(&world->parking), ==, n);
			g_assert_true(queues_head(&world->queues, QUEUE_COSTLY) == &caller->place);
			run_pass(world, &caller->place, &turn);
			g_assert_cmpuint(parking_n(&world->parking), ==, n + 1);
		}
		g_assert_cmpuint(world->n_waits, ==, 3);
		assert_rounds(world, (const char *[]){"a", "b", "c", NULL});
	}
}
