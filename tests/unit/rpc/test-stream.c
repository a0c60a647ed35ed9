/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/server/calls.h"
#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"

#define BYTES(literal) (literal), sizeof(literal) - 1

#define REPLY_BYTES 34

/* What was answered are @count IDs in framed strict, to calls with sequence IDs from @first on. */
static void assert_ids(const GByteArray *out, guint8 first, guint count)
{
	g_assert_cmpuint(out->len, ==, count * REPLY_BYTES);
	for (guint i = 0; i < count; i++) {
		const guint8 seqid[] = {0, 0, 0, (guint8)(first + i)};
		const guint8 *reply = out->data + (gsize)i * REPLY_BYTES;

		g_assert_cmpmem(reply, 18, "\0\0\0\36\x80\1\0\2\0\0\0\6get_id", 18);
		g_assert_cmpmem(reply + 18, sizeof seqid, seqid, sizeof seqid);
	}
}

/* The first bytes decide: six forms, or the end. */
static void test_framing(void)
{
	static const struct {
		const char *bytes;
		gsize length;
		Framing framing;
		gboolean closed;
	} CASES[] = {
		{BYTES("\x80"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\x82"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\x81"), FRAMING_UNKNOWN, TRUE},
		{BYTES("G"), FRAMING_UNKNOWN, FALSE}, /* it may be HTTP, which gets an answer */
		{BYTES("Gx"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\x16\x03\x01"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\xff"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\0\0\0"), FRAMING_UNKNOWN, FALSE},
		{BYTES("\0\0\0\0"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\0\0\4\0"), FRAMING_UNKNOWN, FALSE},
		{BYTES("\0\0\4\1"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\0\0\0\6\x80"), FRAMING_FRAMED, FALSE},
		{BYTES("\0\0\0\6\x82"), FRAMING_FRAMED, FALSE},
		{BYTES("\0\0\0\6\0"), FRAMING_FRAMED, FALSE},
		{BYTES("\0\0\0\6g"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\0\0\0\6_"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\0\0\0\6Z"), FRAMING_UNFRAMED, FALSE},
		{BYTES("\0\0\0\0061"), FRAMING_UNKNOWN, TRUE},
		{BYTES("\0\0\0\6\x81"), FRAMING_UNKNOWN, TRUE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(Stack) stack = stack_new(TRUE, 10);
		g_autoptr(GByteArray) out = g_byte_array_new();
		StreamStatus status = STREAM_MORE;

		g_test_message("case %" G_GSIZE_FORMAT, i);
		for (gsize n = 0; n < CASES[i].length && status == STREAM_MORE; n++)
			status = stack_feed(stack, CASES[i].bytes + n, 1, out);
		g_assert_cmpint(stack->stream.framing, ==, CASES[i].framing);
		g_assert_true((status == STREAM_CLOSE) == CASES[i].closed);
		g_assert_cmpuint(out->len, ==, 0);
	}
}

/* A pipeline in each form, cut at every place, is answered alike. */
static void test_cuts(void)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_autoptr(GByteArray) input = g_byte_array_new();
		g_autoptr(GByteArray) expected = g_byte_array_new();
		g_autoptr(Stack) whole = stack_new(TRUE, 10);

		wire_get_id(form, 1, "foo", input);
		wire_get_id(form, 2, "foo-bar", input);
		wire_get_id(form, 3, "1", input);
		g_assert_cmpint(stack_feed(whole, input->data, input->len, expected), ==,
				STREAM_MORE);
		g_assert_cmpuint(expected->len, >, 0);
		for (guint cut = 1; cut < input->len; cut++) {
			g_autoptr(Stack) stack = stack_new(TRUE, 10);
			g_autoptr(GByteArray) out = g_byte_array_new();

			g_assert_cmpint(stack_feed(stack, input->data, cut, out), ==, STREAM_MORE);
			g_assert_cmpint(stack_feed(stack, input->data + cut, input->len - cut, out),
					==, STREAM_MORE);
			g_assert_cmpmem(out->data, out->len, expected->data, expected->len);
		}
	}
}

/* In frames, each message may be of another protocol. */
static void test_protocol_per_message(void)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) input = g_byte_array_new();
	g_autoptr(GByteArray) out = g_byte_array_new();

	wire_get_id(FORM_FRAMED_UNVERSIONED, 1, "foo", input);
	wire_get_id(FORM_FRAMED_COMPACT, 2, "foo", input);
	wire_get_id(FORM_FRAMED_STRICT, 3, "foo", input);
	g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==, STREAM_MORE);
	/* strict answers unversioned and strict, compact answers compact */
	g_assert_cmpuint(out->data[4], ==, 0x80);
	g_assert_cmpuint(out->data[34 + 4], ==, 0x82);
	g_assert_cmpuint(out->data[out->len - 30], ==, 0x80);
}

/* What is not a call ends the connection, without a word. */
static void test_types(void)
{
	for (WireForm form = 0; form < N_FORMS; form++)
		for (guint8 type = 0; type < 8; type++) {
			g_autoptr(Stack) stack = stack_new(TRUE, 10);
			g_autoptr(GByteArray) input = g_byte_array_new();
			g_autoptr(GByteArray) out = g_byte_array_new();
			g_autoptr(GByteArray) body = wire_agent(form, "foo");
			g_autoptr(GByteArray) message = wire_message(form, "get_id", type, 1, body);
			StreamStatus status;

			wire_append(form, message, input);
			status = stack_feed(stack, input->data, input->len, out);
			g_assert_cmpint(status, ==,
					type == MESSAGE_CALL ? STREAM_MORE : STREAM_CLOSE);
			g_assert_true((out->len > 0) == (type == MESSAGE_CALL));
		}
}

/* Arguments that make no sense: type 7; the connection lives if the frame tells where to go on. */
static void test_bad_arguments(void)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_autoptr(Stack) stack = stack_new(TRUE, 10);
		g_autoptr(GByteArray) input = g_byte_array_new();
		g_autoptr(GByteArray) out = g_byte_array_new();
		g_autoptr(GByteArray) body = g_byte_array_new();
		g_autoptr(GByteArray) message = NULL;
		gboolean framed = form < FORM_UNFRAMED_STRICT;
		guint answered;

		g_byte_array_append(body, (const guint8 *)"\x7f\0\1", 3); /* no type of a value */
		message = wire_message(form, "get_id", 1, 1, body);
		wire_append(form, message, input);
		g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==,
				framed ? STREAM_MORE : STREAM_CLOSE);
		g_assert_nonnull(memmem(out->data, out->len, "unknown type", 12));
		answered = out->len;
		if (framed) {
			g_byte_array_set_size(input, 0);
			wire_get_id(form, 2, "foo", input);
			g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==,
					STREAM_MORE);
			g_assert_cmpuint(out->len, >, answered);
		}
	}
}

/* A call that must wait leaves no trace, and is answered when its time has come; the calls behind
 * it wait with it, and go on without its privileges. */
static void test_parking(void)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 0);
	g_autoptr(GByteArray) input = g_byte_array_new();
	g_autoptr(GByteArray) out = g_byte_array_new();
	RpcAllowance *allowance = &stack->allowance;
	DrawRefusal refusal;
	IdRun run;

	g_assert_cmpint(generator_draw(stack->generator, 4096, &run, &refusal), ==, DRAW_OK);
	wire_get_id(FORM_FRAMED_STRICT, 1, "foo", input);
	wire_get_id(FORM_FRAMED_STRICT, 2, "foo", input);
	g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==, STREAM_PARKED);
	g_assert_cmpuint(out->len, ==, 0);
	g_assert_cmpuint(stack->in->len, ==, input->len);
	g_assert_cmpint(stack_verdict(stack)->wait_ns, ==, 1000000);

	/* its time has come, but others were there before */
	stack_set_ms(stack, 1001);
	allowance->others_wait = TRUE;
	g_assert_cmpint(stack_feed(stack, "", 0, out), ==, STREAM_PARKED);
	g_assert_cmpuint(out->len, ==, 0);

	/* its turn; the second call stands behind those others */
	allowance->quota = 1;
	g_assert_cmpint(stack_feed(stack, "", 0, out), ==, STREAM_PARKED);
	assert_ids(out, 1, 1);
	g_assert_cmpuint(stack_verdict(stack)->drawn, ==, 1);

	allowance->others_wait = FALSE;
	g_assert_cmpint(stack_feed(stack, "", 0, out), ==, STREAM_MORE);
	assert_ids(out, 1, 2);
}

/* After the last chance there is an answer, and it is an error; the call behind it has not waited
 * yet, and may, but when all is to end. */
static void test_last_chance(void)
{
	static const struct {
		RpcAllowance allowance;
		StreamStatus status;
		guint refused; /* of 2 */
	} CASES[] = {{{0}, STREAM_PARKED, 0},
		     {{.last_chance = TRUE}, STREAM_PARKED, 1},
		     {{.closing = TRUE}, STREAM_MORE, 2}};

	for (gsize i = 0; i < 2 * G_N_ELEMENTS(CASES); i++) {
		gsize n = i / 2;
		g_autoptr(Stack) stack = stack_new(i % 2 == 0, 0);
		g_autoptr(GByteArray) input = g_byte_array_new();
		g_autoptr(GByteArray) out = g_byte_array_new();
		CounterSet *counters = stack->counters;
		DrawRefusal refusal;
		IdRun run;

		g_assert_cmpint(generator_draw(stack->generator, 4096, &run, &refusal), ==,
				DRAW_OK);
		wire_get_id(FORM_FRAMED_STRICT, 1, "foo", input);
		wire_get_id(FORM_FRAMED_STRICT, 2, "foo", input);
		stack->allowance = CASES[n].allowance;
		g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==,
				CASES[n].status);
		g_assert_cmpuint(counter_set_sum(counters, COUNTER_CALLS), ==, CASES[n].refused);
		g_assert_cmpint(stack_verdict(stack)->answered, ==, CASES[n].refused > 0);
		g_assert_true((out->len > 0) == (CASES[n].refused > 0));
		if (CASES[n].refused > 0)
			g_assert_nonnull(memmem(out->data, out->len, "WorkerIdUnavailable: ", 21));
	}
}

/* While others wait, a call draws no more than its turn allows. */
static void test_quota(void)
{
	static const struct {
		gint count;
		guint quota;
		StreamStatus status;
	} CASES[] = {{3, 0, STREAM_PARKED},
		     {3, 2, STREAM_PARKED},
		     {3, 3, STREAM_MORE},
		     {1, 1, STREAM_MORE},
		     {1, 0, STREAM_PARKED}};

	for (guint i = 0; i < 2 * G_N_ELEMENTS(CASES); i++) {
		guint n = i / 2;
		g_autoptr(Stack) stack = stack_new(i % 2 == 0, 10);
		g_autoptr(GByteArray) out = g_byte_array_new();
		g_autoptr(GByteArray) input = g_byte_array_new();
		g_autoptr(GByteArray) arguments = NULL;
		g_autoptr(GByteArray) message = NULL;
		WireBody body = wire_body(FORM_FRAMED_STRICT);

		wire_body_text(&body, 1, "foo", 3);
		wire_body_i32(&body, 2, CASES[n].count);
		arguments = wire_body_end(&body);
		message = wire_message(FORM_FRAMED_STRICT, "get_ids", 1, 1, arguments);
		wire_append(FORM_FRAMED_STRICT, message, input);
		stack->allowance = (RpcAllowance){.others_wait = TRUE, .quota = CASES[n].quota};
		g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==,
				CASES[n].status);
		if (CASES[n].status == STREAM_PARKED)
			g_assert_cmpuint(stack_verdict(stack)->ids, ==, CASES[n].count);
	}
}

/* Replies that nobody takes: it stops, and goes on later where it stopped. */
static void test_full(void)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) input = g_byte_array_new();
	g_autoptr(GByteArray) out = g_byte_array_new();

	stack->stream.room = 100;
	for (int i = 0; i < 5; i++)
		wire_get_id(FORM_FRAMED_STRICT, (guint8)i, "foo", input);
	g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==, STREAM_FULL);
	assert_ids(out, 0, 3);
	g_byte_array_set_size(out, 0);
	g_assert_cmpint(stack_feed(stack, "", 0, out), ==, STREAM_MORE);
	assert_ids(out, 3, 2);
}

/* A turn ends some time after its first answer, and the next one goes on where it stopped. */
static void test_turn(void)
{
	static const struct {
		gint64 us_per_look;
		guint replies; /* of 5, in the first turn */
	} CASES[] = {{0, 5}, {1, 5}, {4, 4}, {5, 3}, {10, 2}, {1000, 2}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(Stack) stack = stack_new(FALSE, 10);
		g_autoptr(GByteArray) input = g_byte_array_new();
		g_autoptr(GByteArray) out = g_byte_array_new();
		guint turns = 1;

		g_test_message("%d us", (int)CASES[i].us_per_look);
		stack_us_per_look = CASES[i].us_per_look;
		for (int n = 0; n < 5; n++)
			wire_get_id(FORM_FRAMED_STRICT, (guint8)n, "foo", input);
		g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==,
				CASES[i].replies < 5 ? STREAM_FULL : STREAM_MORE);
		g_assert_cmpuint(out->len, ==, CASES[i].replies * 34);
		while (stack->in->len > 0) {
			StreamStatus status = stack_feed(stack, "", 0, out);

			turns++;
			g_assert_cmpint(status, ==, stack->in->len > 0 ? STREAM_FULL : STREAM_MORE);
		}
		g_assert_cmpuint(turns, ==, (5 + CASES[i].replies - 1) / CASES[i].replies);
		g_assert_cmpuint(out->len, ==, 5 * 34);
		for (guint n = 0; n < 5; n++)
			g_assert_cmpuint(out->data[n * 34 + 21], ==, n); /* the seqid */
	}
	stack_us_per_look = 0;
}
/* What @form is answered in. */
static WireForm reply_form(WireForm form)
{
	if (form == FORM_FRAMED_UNVERSIONED)
		return FORM_FRAMED_STRICT;
	return form == FORM_UNFRAMED_UNVERSIONED ? FORM_UNFRAMED_STRICT : form;
}

static void append_named(WireForm form, const char *method, const GByteArray *body, GByteArray *out)
{
	g_autoptr(GByteArray) message = wire_message(form, method, MESSAGE_CALL, 7, body);

	wire_append(form, message, out);
}

static void append_exception(WireForm form, const char *method, gint32 type, const char *text,
			     GByteArray *out)
{
	WireBody body = wire_body(reply_form(form));
	g_autoptr(GByteArray) fields = NULL;
	g_autoptr(GByteArray) message = NULL;

	wire_body_text(&body, 1, text, strlen(text));
	wire_body_i32(&body, 2, type);
	fields = wire_body_end(&body);
	message = wire_message(reply_form(form), method, MESSAGE_EXCEPTION, 7, fields);
	wire_append(reply_form(form), message, out);
}

/* (transfer full): what a new server says. */
static GByteArray *answer_to(WireForm form, const char *method, const GByteArray *body)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) input = g_byte_array_new();
	GByteArray *out = g_byte_array_new();

	append_named(form, method, body, input);
	stack_feed(stack, input->data, input->len, out);
	return out;
}

/* As TMultiplexedProtocol calls: the service's name in front, and not in the reply. */
static void test_multiplexed(void)
{
	static const struct {
		const char *method;
		const char *bare; /* in the reply */
		gboolean unknown;
	} CASES[] = {
		{"Snowflake:get_id", "get_id", FALSE},
		{"Snowflake:get_worker_id", "get_worker_id", FALSE},
		{"Snowflake:get_datacenter_id", "get_datacenter_id", FALSE},
		{"Snowflake:get_timestamp", "get_timestamp", FALSE},
		{"Snowflake:get_ids", "get_ids", TRUE},
		{"Snowflake:get_worker", "get_worker", TRUE},
		{"Snowflake:get_workers", "get_workers", TRUE},
		{"Snowflake:get_counters", "get_counters", TRUE},
		{"Snowflake:nope", "nope", TRUE},
		{"Snowflake:", "", TRUE},
		{"Snowflake::get_id", ":get_id", TRUE},
		{"Snowflake:Snowflake:get_id", "Snowflake:get_id", TRUE},
		{"SnowflakeExtended:get_id", "get_id", FALSE},
		{"SnowflakeExtended:get_worker_id", "get_worker_id", FALSE},
		{"SnowflakeExtended:get_ids", "get_ids", FALSE},
		{"SnowflakeExtended:get_worker", "get_worker", FALSE},
		{"SnowflakeExtended:get_counters", "get_counters", FALSE},
		{"SnowflakeExtended:nope", "nope", TRUE},
		{"Snowflake", "Snowflake", TRUE},
		{"snowflake:get_id", "snowflake:get_id", TRUE},
		{"Other:get_id", "Other:get_id", TRUE},
		{"SnowflakeExtende:get_id", "SnowflakeExtende:get_id", TRUE},
		{"nope", "nope", TRUE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES) * N_FORMS; i++) {
		WireForm form = (WireForm)(i % N_FORMS);
		const char *bare = CASES[i / N_FORMS].bare;
		g_autofree char *text = g_strdup_printf("Invalid method name: '%s'", bare);
		g_autoptr(GByteArray) body = wire_agent(form, "foo");
		g_autoptr(GByteArray) reply = answer_to(form, CASES[i / N_FORMS].method, body);
		g_autoptr(GByteArray) expected = NULL;

		g_test_message("%s, form %d", CASES[i / N_FORMS].method, form);
		if (CASES[i / N_FORMS].unknown) {
			expected = g_byte_array_new();
			append_exception(form, bare, 1, text, expected);
		} else {
			expected = answer_to(form, bare, body);
		}
		g_assert_cmpmem(reply->data, reply->len, expected->data, expected->len);
	}
}

/* Exceptions of every kind have the bare name. */
static void test_multiplexed_refusals(void)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_autoptr(GByteArray) none = wire_agent(form, "1");
		g_autoptr(GByteArray) bad = g_byte_array_new();
		g_autoptr(GByteArray) refused = answer_to(form, "Snowflake:get_id", none);
		g_autoptr(GByteArray) bare = answer_to(form, "get_id", none);
		g_autoptr(GByteArray) unreadable = NULL;
		g_autoptr(GByteArray) expected = g_byte_array_new();

		g_assert_cmpmem(refused->data, refused->len, bare->data, bare->len);
		g_byte_array_append(bad, (const guint8 *)"\x7f\0\1", 3); /* no type of a value */
		unreadable = answer_to(form, "SnowflakeExtended:get_ids", bad);
		append_exception(form, "get_ids", 7, "unknown type", expected);
		g_assert_cmpmem(unreadable->data, unreadable->len, expected->data, expected->len);
	}
}

/* The connections of a loop share one dispatcher. Whatever calls came before, and whatever
 * became of them, the next connection is answered as by a new server. */

/* Calls whose arguments are structs, booleans and others that no method has. */
static void append_odd(GRand *random, WireForm form, GByteArray *out)
{
	static const char *const METHODS[] = {"get_id", "get_ids", "get_worker", "get_workers",
					      "nope"};
	static const gint16 IDS[] = {1, 2, 7, 300, -1, G_MAXINT16};
	WireBody body = wire_body(form);
	g_autoptr(GByteArray) arguments = NULL;

	for (guint fields = calls_pick(random, 4); fields > 0; fields--)
		wire_body_other(&body, IDS[calls_pick(random, G_N_ELEMENTS(IDS))],
				calls_pick(random, WIRE_BODY_OTHERS));
	if (calls_pick(random, 2))
		wire_body_text(&body, 1, "agent", 5);
	arguments = wire_body_end(&body);
	append_named(form, METHODS[calls_pick(random, G_N_ELEMENTS(METHODS))], arguments, out);
}

/* Some are refused, some parked, some end the connection. */
static void trouble(Stack *stack, GRand *random, guint seen[STREAM_CLOSE + 1])
{
	g_autoptr(GByteArray) input = g_byte_array_new();
	g_autoptr(GByteArray) out = g_byte_array_new();
	WireForm form = calls_pick(random, 4) ? FORM_FRAMED_COMPACT : FORM_UNFRAMED_COMPACT;

	for (guint calls = 1 + calls_pick(random, 3); calls > 0; calls--)
		append_odd(random, form, input);
	if (calls_pick(random, 2))
		calls_damage(random, input);
	stack_publish(stack, 1, calls_pick(random, 2) ? 100000 : 0);
	stack->allowance.last_chance = calls_pick(random, 3) == 0;
	stack->allowance.others_wait = calls_pick(random, 4) == 0;
	seen[stack_feed(stack, input->data, input->len, out)]++;
}

static void answer_good(Stack *stack, WireForm form, GByteArray *out)
{
	g_autoptr(GByteArray) input = g_byte_array_new();
	WireBody ids = wire_body(form), bad = wire_body(form), none = wire_body(form);
	g_autoptr(GByteArray) three = NULL;
	g_autoptr(GByteArray) nobody = NULL;
	g_autoptr(GByteArray) empty = wire_body_end(&none);

	wire_body_text(&ids, 1, "agent", 5);
	wire_body_i32(&ids, 2, 3);
	wire_body_other(&ids, 9, WIRE_BODY_OTHERS - 1); /* a boolean left over would be one of it */
	three = wire_body_end(&ids);
	wire_body_text(&bad, 1, "-", 1);
	nobody = wire_body_end(&bad);
	wire_get_id(form, 1, "agent", input);
	append_named(form, "get_ids", three, input);
	append_named(form, "get_id", nobody, input);
	append_named(form, "get_worker", empty, input);
	append_named(form, "nope", empty, input);
	stack_publish(stack, 1, 100000); /* the same IDs again */
	g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==, STREAM_MORE);
}

static void test_nothing_left(void)
{
	g_autoptr(GRand) random = g_rand_new_with_seed(1);
	guint seen[STREAM_CLOSE + 1] = {0};

	for (guint round = 0; round < 3000; round++) {
		WireForm form = (WireForm)calls_pick(random, N_FORMS);
		g_autoptr(Stack) used = stack_new(TRUE, 10);
		g_autoptr(Stack) fresh = stack_new(TRUE, 10);
		g_autoptr(GByteArray) after = g_byte_array_new();
		g_autoptr(GByteArray) alone = g_byte_array_new();

		for (guint times = 1 + calls_pick(random, 3); times > 0; times--) {
			trouble(used, random, seen);
			stack_reconnect(used);
		}
		answer_good(used, form, after);
		answer_good(fresh, form, alone);
		g_assert_cmpmem(after->data, after->len, alone->data, alone->len);
	}
	for (StreamStatus status = 0; status < G_N_ELEMENTS(seen); status++)
		g_assert_true(status == STREAM_FULL || seen[status] > 300);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/stream/framing", test_framing);
	g_test_add_func("/stream/cuts", test_cuts);
	g_test_add_func("/stream/protocol-per-message", test_protocol_per_message);
	g_test_add_func("/stream/types", test_types);
	g_test_add_func("/stream/bad-arguments", test_bad_arguments);
	g_test_add_func("/stream/parking", test_parking);
	g_test_add_func("/stream/last-chance", test_last_chance);
	g_test_add_func("/stream/quota", test_quota);
	g_test_add_func("/stream/full", test_full);
	g_test_add_func("/stream/turn", test_turn);
	g_test_add_func("/stream/multiplexed", test_multiplexed);
	g_test_add_func("/stream/multiplexed-refusals", test_multiplexed_refusals);
	g_test_add_func("/stream/nothing-left", test_nothing_left);
	return g_test_run();
}
