/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The replies of the fast path equal those of the Thrift codec byte for byte. Two servers that
 * otherwise do not differ get the same bytes, in different pieces, at the same times, and must
 * answer the same. See pair.h.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/server/calls.h"
#include "tests/unit/server/pair.h"
#include "tests/unit/unit-test.h"

#define ROUNDS 12000

typedef struct {
	const char *method;
	const char *agent; /* NULL if none */
	gboolean counted;
	gint32 count;
} Call;

/* The calls that the fast path answers: N_GOOD valid ones, then invalid ones. The third is the
 * shortest. */
#define N_GOOD 7
static const Call CALLS[] = {
	{"get_id", "agent-1", FALSE, 0},
	{"get_ids", "agent-1", TRUE, 3},
	{"get_timestamp", NULL, FALSE, 0},
	{"get_worker_id", NULL, FALSE, 0},
	{"get_datacenter_id", NULL, FALSE, 0},
	{"get_worker", NULL, FALSE, 0},
	{"get_id_runs", "agent-1", TRUE, 5000},
	{"get_id", "1asdf", FALSE, 0},
	{"get_ids", "a b", TRUE, 3},
	{"get_ids", "agent-1", TRUE, 0},
	{"get_ids", "agent-1", TRUE, G_MININT32},
	{"get_id_runs", "1asdf", TRUE, 3},
	{"get_id_runs", "agent-1", TRUE, 0},
};

/* The wire forms that the fast path answers. */
static const WireForm FORMS[] = {FORM_FRAMED_STRICT, FORM_UNFRAMED_STRICT};

static void append_call(WireForm form, const Call *call, gint32 seqid, GByteArray *out)
{
	WireBody body = wire_body(form);
	g_autoptr(GByteArray) arguments = NULL;
	g_autoptr(GByteArray) message = NULL;

	if (call->agent != NULL)
		wire_body_text(&body, 1, call->agent, strlen(call->agent));
	if (call->counted)
		wire_body_i32(&body, 2, call->count);
	arguments = wire_body_end(&body);
	message = wire_message(form, call->method, 1, seqid, arguments);
	wire_append(form, message, out);
}

static void append_good(WireForm form, gsize call, gint32 seqid, GByteArray *out)
{
	append_call(form, &CALLS[call], seqid, out);
}

static int scaled(int rounds)
{
	const char *scale = g_getenv("SNOWFLAKE_TEST_SCALE");

	return rounds / (scale == NULL ? 1 : MAX(atoi(scale), 1));
}

/* Random calls */

static void step_feed(Pair *pair, GRand *random, WireForm form, gboolean damage)
{
	g_autoptr(GByteArray) bytes = g_byte_array_new();

	if (calls_pick(random, 3) == 0)
		calls_append_row(random, form, 1 + calls_pick(random, 40), bytes);
	else
		for (guint calls = 1 + calls_pick(random, 6); calls > 0; calls--)
			calls_append(random, form, bytes);
	if (damage && calls_pick(random, 3) == 0)
		calls_damage(random, bytes);
	if (damage && calls_pick(random, 6) == 0) /* the next bytes count as its end */
		g_byte_array_set_size(bytes, calls_pick(random, bytes->len + 1));
	pair_feed(pair, bytes->data, bytes->len, random);
}

static void step_clock(Pair *pair, GRand *random)
{
	static const gint64 STEPS_MS[] = {0, 1, 1, 2, 10, 11, 1000, -1, -2, -10, -11, -12, -5000};
	static const gint64 TIMES_MS[] = {-1,
					  0,
					  1,
					  1000,
					  99999,
					  100000,
					  100001,
					  G_GINT64_CONSTANT(2199023255551),
					  G_GINT64_CONSTANT(2199023255552)};
	gint64 now_ns = pair->now_ns;

	if (calls_pick(random, 8) == 0)
		now_ns = TIMES_MS[calls_pick(random, G_N_ELEMENTS(TIMES_MS))] * CLOCK_NS_PER_MS;
	else
		now_ns += STEPS_MS[calls_pick(random, G_N_ELEMENTS(STEPS_MS))] * CLOCK_NS_PER_MS;
	if (calls_pick(random, 4) == 0)
		now_ns += g_rand_int_range(random, 0, CLOCK_NS_PER_MS);
	pair_set_ns(pair, now_ns);
}

static void step_lease(Pair *pair, GRand *random)
{
	gint64 now_ms = MAX(pair->now_ns / CLOCK_NS_PER_MS, 1);

	switch (calls_pick(random, 3)) {
	case 0:
		pair_extend(pair, now_ms + calls_pick(random, 30));
		break;
	case 1:
		pair_publish(pair, 0, 0);
		break;
	default:
		pair_publish(pair, now_ms + calls_pick(random, 4), now_ms + calls_pick(random, 20));
		break;
	}
}

static void step(Pair *pair, GRand *random, WireForm form, gboolean damage)
{
	static const gsize ROOMS[] = {1, 33, 34, 100, 1000, 1024 * 1024};

	switch (calls_pick(random, 12)) {
	case 0:
	case 1:
		step_clock(pair, random);
		break;
	case 2:
		step_lease(pair, random);
		break;
	case 3:
		pair_leave(pair, calls_pick(random, 50));
		break;
	case 4:
		pair_set_turn(pair, (gboolean)calls_pick(random, 2), calls_pick(random, 40),
			      pair->fast.status == STREAM_PARKED && calls_pick(random, 2));
		break;
	case 5:
		pair_take_replies(pair, ROOMS[calls_pick(random, G_N_ELEMENTS(ROOMS))]);
		break;
	default:
		step_feed(pair, random, form, damage);
		return;
	}
	pair_retry(pair);
}

/* Counts over all rounds, to check that each case occurred. */
typedef struct {
	guint64 counters[N_COUNTERS];
	guint seen[STREAM_CLOSE + 1];
} Tally;

/* Runs one connection from start to end. */
static void run_round(GRand *random, Tally *tally)
{
	static const gint64 AHEAD_MS[] = {0, 0, 1, 10};
	static const gsize FRAME_LIMITS[] = {1024, 1024, 600, 300, 60};
	g_autoptr(Pair) pair = pair_new(AHEAD_MS[calls_pick(random, G_N_ELEMENTS(AHEAD_MS))]);
	WireForm form = calls_pick(random, 3) ? FORM_FRAMED_STRICT : FORM_UNFRAMED_STRICT;
	gboolean damage = calls_pick(random, 3) == 0;
	gsize limit = FRAME_LIMITS[calls_pick(random, G_N_ELEMENTS(FRAME_LIMITS))];

	pair_set_frame_limit(pair, limit);
	for (guint steps = 1 + calls_pick(random, 16);
	     steps > 0 && pair->fast.status != STREAM_CLOSE; steps--)
		step(pair, random, form, damage);
	for (guint i = 0; i < N_COUNTERS; i++)
		tally->counters[i] += counter_set_sum(pair->fast.stack->counters, i);
	for (guint i = 0; i < G_N_ELEMENTS(tally->seen); i++)
		tally->seen[i] += pair->seen[i];
}

TEST("/fast-path/equal", test_equal)
{
	guint rounds = (guint)scaled(ROUNDS);
	Tally tally = {0};

	g_test_set_nonfatal_assertions(); /* to log the round */
	for (guint i = 0; i < rounds && !g_test_failed(); i++) {
		g_autoptr(GRand) random = g_rand_new_with_seed(i);

		run_round(random, &tally);
		if (g_test_failed())
			g_test_message("in round %u", i);
	}
	g_test_message("%" G_GUINT64_FORMAT " calls, %" G_GUINT64_FORMAT
		       " of them refused, %" G_GUINT64_FORMAT
		       " IDs; %u steps ended well, %u full, %u parked, %u closed",
		       tally.counters[COUNTER_CALLS], tally.counters[COUNTER_EXCEPTIONS],
		       tally.counters[COUNTER_IDS_GENERATED], tally.seen[STREAM_MORE],
		       tally.seen[STREAM_FULL], tally.seen[STREAM_PARKED],
		       tally.seen[STREAM_CLOSE]);
	g_assert_cmpuint(tally.counters[COUNTER_CALLS], >, 10 * rounds);
	g_assert_cmpuint(tally.counters[COUNTER_EXCEPTIONS], >, rounds);
	for (guint i = 0; i < G_N_ELEMENTS(tally.seen); i++)
		g_assert_cmpuint(tally.seen[i], >, rounds / 8);
}

/* Cases without chance */

/* Returns @byte with the @n-th of CHANGES. */
static guint8 changed(guint8 byte, guint n)
{
	static const guint8 VALUES[] = {0x00, 0x01, 0x02, 0x0a, 0x0b, 0x0c, 0x2d, 0x7f, 0x80, 0xff};

	if (n < G_N_ELEMENTS(VALUES))
		return VALUES[n];
	return (guint8)(n % 2 == 0 ? byte + 1 : byte - 1);
}

#define CHANGES 12

/* Changes each byte of a valid call between valid calls. */
static void change_bytes(WireForm form, gsize call)
{
	g_autoptr(GByteArray) around = g_byte_array_new();
	g_autoptr(GByteArray) good = g_byte_array_new();

	append_good(form, 0, 7, around);
	append_good(form, call, 1, good);
	for (guint i = 0; i < good->len * CHANGES; i++) {
		g_autoptr(Pair) pair = pair_new(10);
		g_autoptr(GByteArray) bytes = g_byte_array_new();
		guint at = around->len + i / CHANGES;

		g_byte_array_append(bytes, around->data, around->len);
		g_byte_array_append(bytes, good->data, good->len);
		g_byte_array_append(bytes, around->data, around->len);
		bytes->data[at] = changed(bytes->data[at], i % CHANGES);
		pair_feed(pair, bytes->data, bytes->len, NULL);
	}
}

TEST("/fast-path/every-byte", test_every_byte)
{
	for (gsize call = 0; call < G_N_ELEMENTS(CALLS); call++)
		for (gsize i = 0; i < G_N_ELEMENTS(FORMS); i++)
			change_bytes(FORMS[i], call);
}

/* A pipeline of these calls, cut at each byte. */
TEST("/fast-path/every-cut", test_every_cut)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_autoptr(GByteArray) bytes = g_byte_array_new();

		for (gint32 i = 0; i < 3 * (gint32)G_N_ELEMENTS(CALLS); i++)
			append_good(form, (gsize)i * 3 % G_N_ELEMENTS(CALLS), i, bytes);
		for (guint cut = 0; cut < bytes->len; cut++) {
			g_autoptr(Pair) pair = pair_new(10);

			pair_feed_cut(pair, bytes->data, bytes->len, cut);
			g_assert_cmpint(pair->fast.status, ==, STREAM_MORE);
			g_assert_cmpuint(pair->fast.stack->in->len, ==, 0);
		}
	}
}

/* Feeds a message near the maximum size, with @behind more bytes in its frame, and another message.
 */
static void feed_at_limit(WireForm form, gsize call, gsize limit, guint behind)
{
	g_autoptr(Pair) pair = pair_new(10);
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	guint start;

	append_good(form, 2, 0, bytes); /* the shortest call, to determine the framing */
	start = bytes->len;
	append_good(form, call, 1, bytes);
	if (form == FORM_FRAMED_STRICT) {
		bytes->data[start + 3] += (guint8)behind;
		g_byte_array_append(bytes, (const guint8 *)"\0\0\0\0", behind);
	}
	append_good(form, call, 2, bytes);
	pair_set_frame_limit(pair, limit);
	pair_feed(pair, bytes->data, bytes->len, NULL);
}

TEST("/fast-path/every-limit", test_every_limit)
{
	for (gsize call = 0; call < G_N_ELEMENTS(CALLS); call++)
		for (gsize limit = 20; limit < 60; limit++)
			for (guint behind = 0; behind < 4; behind++) {
				feed_at_limit(FORM_FRAMED_STRICT, call, limit, behind);
				feed_at_limit(FORM_UNFRAMED_STRICT, call, limit, behind);
			}
}

/* The tick, the lease, the turn or the buffer has room for fewer IDs than a pipeline requests. The
 * rest follows later. */
TEST("/fast-path/fewer", test_fewer)
{
	enum { OF_TICK, OF_LEASE, OF_TURN, OF_ROOM, N_LIMITS };

	for (guint i = 0; i < N_LIMITS * G_N_ELEMENTS(FORMS) * 42; i++) {
		guint limit = i % N_LIMITS, left = i / N_LIMITS / G_N_ELEMENTS(FORMS);
		WireForm form = FORMS[i / N_LIMITS % G_N_ELEMENTS(FORMS)];
		g_autoptr(Pair) pair = pair_new(limit == OF_LEASE ? 10 : 0);
		g_autoptr(GByteArray) bytes = g_byte_array_new();

		if (limit == OF_LEASE)
			pair_publish(pair, 1, 1003);
		if (limit == OF_TICK || limit == OF_LEASE)
			pair_leave(pair, left);
		if (limit == OF_TURN)
			pair_set_turn(pair, TRUE, left, FALSE);
		if (limit == OF_ROOM)
			pair_take_replies(pair, 1 + (gsize)left * 30);
		for (gint32 n = 0; n < 40; n++) /* with a batch in the middle */
			append_good(form, n == 20, n, bytes);
		pair_feed(pair, bytes->data, bytes->len, NULL);
		pair_set_ns(pair, 1001 * CLOCK_NS_PER_MS);
		pair_extend(pair, 1012);
		pair_set_turn(pair, FALSE, 0, FALSE);
		pair_take_replies(pair, 1024 * 1024);
		pair_retry(pair);
		g_assert_cmpint(pair->fast.status, ==, STREAM_MORE);
		g_assert_cmpuint(counter_set_sum(pair->fast.stack->counters, COUNTER_CALLS), ==,
				 40);
	}
}

/* Refusals, and calls that must wait. */
TEST("/fast-path/refusals", test_refusals)
{
	static const Call FOR_ONE[] = {{"get_id", "agent-1", FALSE, 0},
				       {"get_ids", "agent-1", TRUE, 1},
				       {"get_id_runs", "agent-1", TRUE, 1}};
	static const struct {
		const char *name;
		gint64 now_ms;
		guint left; /* IDs left at 1000 ms */
		gboolean last_chance;
		StreamStatus status;
		const char *reply; /* part of the reason; NULL if no failure */
	} CASES[] = {
		{"the sequence is used up", 1000, 0, FALSE, STREAM_PARKED, NULL},
		{"... and it has waited", 1000, 0, TRUE, STREAM_MORE,
		 "all IDs for the current time have been issued, retry after 2 ms"},
		{"one is left", 1000, 1, FALSE, STREAM_MORE, "get_id"},
		{"a new tick", 1001, 0, FALSE, STREAM_MORE, "get_id"},
		{"the clock stepped back", 999, 4095, FALSE, STREAM_MORE,
		 "Clock moved backwards.  Refusing to generate id for 1 milliseconds"},
		{"past the lease", 200000, 4095, FALSE, STREAM_PARKED, NULL},
		{"... and it has waited", 200000, 4095, TRUE, STREAM_MORE,
		 "no reservation for the current time, retry after 1 ms"},
		{"before the epoch", -1, 4095, FALSE, STREAM_MORE, "the clock is outside"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES) * G_N_ELEMENTS(FOR_ONE); i++) {
		gsize n = i / G_N_ELEMENTS(FOR_ONE);
		g_autoptr(Pair) pair = pair_new(0);
		g_autoptr(GByteArray) call = g_byte_array_new();
		const GByteArray *out = pair->fast.out;

		g_test_message("%s", CASES[n].name);
		pair_leave(pair, CASES[n].left);
		pair_set_ns(pair, CASES[n].now_ms * CLOCK_NS_PER_MS);
		pair_set_turn(pair, FALSE, 0, CASES[n].last_chance);
		append_call(FORM_FRAMED_STRICT, &FOR_ONE[i % G_N_ELEMENTS(FOR_ONE)], 1, call);
		pair_feed(pair, call->data, call->len, NULL);
		g_assert_cmpint(pair->fast.status, ==, CASES[n].status);
		g_assert_true((out->len > 0) == (CASES[n].reply != NULL));
		if (CASES[n].reply != NULL)
			g_assert_nonnull(memmem(out->data, out->len, CASES[n].reply,
						strlen(CASES[n].reply)));
	}
}

/* Checks the test itself: the Thrift codec is used only without the fast path */

static RpcOutcome (*thrift_answer)(gpointer, const Message *, RpcPass *, ParkedCall **);
static guint processed;

static RpcOutcome count_and_answer(gpointer handler, const Message *message, RpcPass *pass,
				   ParkedCall **out_parked)
{
	processed++;
	return thrift_answer(handler, message, pass, out_parked);
}

typedef enum { NO_TROUBLE, CLOCK_BACK, CLOCK_OUTSIDE, LEASE_LATER, NO_LEASE } Trouble;

static void cause(Stack *stack, Trouble trouble)
{
	DrawRefusal refusal;
	IdRun run;

	switch (trouble) {
	case CLOCK_BACK:
		g_assert_cmpint(generator_draw(stack->generator, 1, &run, &refusal), ==, DRAW_OK);
		stack_set_ms(stack, 900);
		break;
	case CLOCK_OUTSIDE:
		stack_set_ms(stack, -1);
		break;
	case LEASE_LATER: /* later than a call may wait */
		stack_publish(stack, 9000, 10000);
		break;
	case NO_LEASE:
		stack_publish(stack, 0, 0);
		break;
	case NO_TROUBLE:
	default:
		break;
	}
}

/* Returns how many of 3 such calls the Thrift codec read. @reply: part of the last answer */
static guint count_processed(gboolean fast, WireForm form, const Call *call, Trouble trouble,
			     guint exceptions, const char *reply)
{
	g_autoptr(Stack) stack = stack_new(fast, 10);
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	g_autoptr(GByteArray) out = g_byte_array_new();

	thrift_answer = stack->service.answer_message;
	stack->service.answer_message = count_and_answer;
	cause(stack, trouble);
	for (gint32 i = 0; i < 3; i++)
		append_call(form, call, i, bytes);
	processed = 0;
	g_assert_cmpint(stack_feed(stack, bytes->data, bytes->len, out), ==, STREAM_MORE);
	g_assert_nonnull(memmem(out->data, out->len, reply, strlen(reply)));
	g_assert_cmpuint(counter_set_sum(stack->counters, COUNTER_CALLS), ==, 3);
	g_assert_cmpuint(counter_set_sum(stack->counters, COUNTER_EXCEPTIONS), ==, exceptions);
	return processed;
}

static void check_taken(const Call *call, Trouble trouble, guint exceptions, const char *reply)
{
	g_test_message("%s, %s", call->method, reply);
	for (gsize i = 0; i < G_N_ELEMENTS(FORMS); i++) {
		g_assert_cmpuint(count_processed(FALSE, FORMS[i], call, trouble, exceptions, reply),
				 ==, 3);
		g_assert_cmpuint(count_processed(TRUE, FORMS[i], call, trouble, exceptions, reply),
				 ==, 0);
	}
}

#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

static const struct {
	Call call;
	Trouble trouble;
	const char *reply; /* part of it */
} REFUSED[] = {
	{{"get_id", "", FALSE, 0}, NO_TROUBLE, "InvalidUserAgentError: useragent '' is not"},
	{{"get_id", "-a", FALSE, 0}, NO_TROUBLE, "InvalidUserAgentError: useragent '-a' is not"},
	{{"get_id", "a\xff", FALSE, 0}, NO_TROUBLE, "useragent 'a\\xff' is not"},
	{{"get_id", X64 X64 X64 X64 "x", FALSE, 0}, NO_TROUBLE, X64 "...' is not a letter"},
	{{"get_ids", "", TRUE, 1}, NO_TROUBLE, "useragent '' is not a letter"},
	{{"get_ids", "", TRUE, 0}, NO_TROUBLE, "useragent '' is not a letter"},
	{{"get_ids", "a\n", TRUE, 1}, NO_TROUBLE, "useragent 'a\\x0a' is not a letter"},
	{{"get_ids", "a", TRUE, 0}, NO_TROUBLE, "count 0 is out of range, 1 to 10000"},
	{{"get_ids", "a", TRUE, -1}, NO_TROUBLE, "count -1 is out of range, 1 to 10000"},
	{{"get_ids", "a", TRUE, 10001}, NO_TROUBLE, "count 10001 is out of range"},
	{{"get_ids", "a", TRUE, G_MAXINT32}, NO_TROUBLE, "count 2147483647 is out of range"},
	{{"get_ids", "a", TRUE, G_MININT32}, NO_TROUBLE, "count -2147483648 is out of range"},
	{{"get_id_runs", "a\n", TRUE, 1}, NO_TROUBLE, "useragent 'a\\x0a' is not a letter"},
	{{"get_id_runs", "a", TRUE, 10001}, NO_TROUBLE, "count 10001 is out of range"},
	{{"get_id_runs", "a", TRUE, 2}, CLOCK_BACK, "Clock moved backwards."},
	{{"get_id_runs", "a", TRUE, 2}, LEASE_LATER, "no reservation for the current time"},
	{{"get_id", "a", FALSE, 0}, CLOCK_BACK, "InvalidSystemClock: Clock moved backwards."},
	{{"get_ids", "a", TRUE, 2}, CLOCK_BACK, "Clock moved backwards."},
	{{"get_id", "a", FALSE, 0}, CLOCK_OUTSIDE, "InvalidSystemClock: the clock is outside"},
	{{"get_ids", "a", TRUE, 2}, CLOCK_OUTSIDE, "the clock is outside"},
	{{"get_id", "a", FALSE, 0}, LEASE_LATER, "WorkerIdUnavailable: no reservation"},
	{{"get_ids", "a", TRUE, 2}, LEASE_LATER, "no reservation for the current time"},
	{{"get_worker_id", NULL, FALSE, 0}, NO_LEASE, "WorkerIdUnavailable: no worker ID"},
	{{"get_datacenter_id", NULL, FALSE, 0}, NO_LEASE, "WorkerIdUnavailable: no worker ID"},
};

TEST("/fast-path/taken", test_taken)
{
	for (gsize i = 0; i < G_N_ELEMENTS(CALLS); i++)
		check_taken(&CALLS[i], NO_TROUBLE, i < N_GOOD ? 0 : 3, CALLS[i].method);
	for (gsize i = 0; i < G_N_ELEMENTS(REFUSED); i++)
		check_taken(&REFUSED[i].call, REFUSED[i].trouble, 3, REFUSED[i].reply);
}
