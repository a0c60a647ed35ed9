/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The fast path answers, to the byte, what the generated processor answers: two
 * servers that differ in nothing else are given the same bytes, cut into
 * different pieces, and must say the same.
 */
#include <string.h>

#include "tests/unit/service/stack.h"
#include "tests/unit/service/wire.h"

/* A call, good or bad, of every kind that looks like a get_id for a while. */
static void append_call(GRand *random, WireForm form, GByteArray *out)
{
	static const char *const AGENTS[] = {"a", "foo-bar", "infra-dm", "1asdf", "", "a b", "a-"};
	static const char *const METHODS[] = {"get_id",  "get_id",        "get_id", "get_ie",
					      "get_idx", "get_worker_id", "get_i"};
	const char *agent = AGENTS[g_rand_int_range(random, 0, G_N_ELEMENTS(AGENTS))];
	const char *method = METHODS[g_rand_int_range(random, 0, G_N_ELEMENTS(METHODS))];
	guint8 seqid = (guint8)g_rand_int_range(random, 0, 128);
	g_autoptr(GByteArray) body = wire_agent(form, agent);
	g_autoptr(GByteArray) message = NULL;

	switch (g_rand_int_range(random, 0, 6)) {
	case 0: /* an unknown field before it */
		g_byte_array_prepend(body, (const guint8 *)"\10\0\7abcd", 7);
		break;
	case 1: /* a second useragent behind it */
		g_byte_array_set_size(body, body->len - 1);
		g_byte_array_append(body, (const guint8 *)"\13\0\1\0\0\0\3xyz\0", 11);
		break;
	case 2: /* no argument */
		g_byte_array_set_size(body, 0);
		g_byte_array_append(body, (const guint8 *)"", 1);
		break;
	default:
		break;
	}
	message = wire_message(form, method, 1, seqid, body);
	if (g_rand_int_range(random, 0, 8) == 0) /* bytes behind the message */
		g_byte_array_append(message, (const guint8 *)"xyz", 3);
	wire_append(form, message, out);
}

/* A few calls in a row, as they are or with some damage. */
static GByteArray *make_input(GRand *random)
{
	GByteArray *input = g_byte_array_new();
	WireForm form = g_rand_int_range(random, 0, 3) > 0
				? FORM_FRAMED_STRICT
				: (WireForm)g_rand_int_range(random, 0, N_FORMS);
	int calls = g_rand_int_range(random, 1, 6);

	for (int i = 0; i < calls; i++) {
		if (g_rand_boolean(random))
			wire_get_id(form, (guint8)i, "agent-1", input);
		else
			append_call(random, form, input);
	}
	for (int damage = g_rand_int_range(random, 0, 3); damage > 1; damage--)
		input->data[g_rand_int_range(random, 0, (gint32)input->len)] =
			(guint8)g_rand_int_range(random, 0, 256);
	if (g_rand_int_range(random, 0, 4) == 0)
		g_byte_array_set_size(input,
				      (guint)g_rand_int_range(random, 0, (gint32)input->len));
	return input;
}

/* Feeds @input in pieces of a random size, 0: in one. */
static StreamStatus feed(Stack *stack, const GByteArray *input, GRand *random, GByteArray *out)
{
	StreamStatus status = STREAM_MORE;
	guint given = 0;

	while (given < input->len && status == STREAM_MORE) {
		guint left = input->len - given;
		guint some = random ? (guint)g_rand_int_range(random, 1, 40) : left;
		guint piece = MIN(left, some);

		status = stack_feed(stack, input->data + given, piece, out);
		given += piece;
	}
	return status;
}

static void test_equal(void)
{
	g_autoptr(GRand) random = g_rand_new_with_seed(1);
	guint answered = 0;

	for (int i = 0; i < 20000; i++) {
		g_autoptr(Stack) fast = stack_new(TRUE, 10);
		g_autoptr(Stack) general = stack_new(FALSE, 10);
		g_autoptr(GByteArray) input = make_input(random);
		g_autoptr(GByteArray) by_fast = g_byte_array_new();
		g_autoptr(GByteArray) by_general = g_byte_array_new();
		StreamStatus fast_status = feed(fast, input, random, by_fast);
		StreamStatus general_status = feed(general, input, NULL, by_general);

		g_assert_cmpint(fast_status, ==, general_status);
		g_assert_cmpmem(by_fast->data, by_fast->len, by_general->data, by_general->len);
		answered += by_fast->len > 0;
	}
	g_assert_cmpuint(answered, >, 5000);
}

/* A get_id at @now_ms, after @issued IDs were drawn at 1000. */
static StreamStatus call_at(gboolean fast, gint64 now_ms, guint issued, GByteArray *out)
{
	g_autoptr(Stack) stack = stack_new(fast, 0);
	g_autoptr(GByteArray) call = g_byte_array_new();
	DrawRefusal refusal;
	IdRun run;

	g_assert_cmpint(generator_draw(stack->generator, issued, &run, &refusal), ==, DRAW_OK);
	stack_set_ms(stack, now_ms);
	wire_get_id(FORM_FRAMED_STRICT, 1, "agent", call);
	return stack_feed(stack, call->data, call->len, out);
}

/* Refusals, and calls that must wait. */
static void test_refusals(void)
{
	static const struct {
		const char *name;
		gint64 now_ms;
		guint issued;
		StreamStatus status;
		const char *reply; /* part of it; NULL: none */
	} CASES[] = {
		{"the sequence is used up", 1000, 4096, STREAM_PARKED, NULL},
		{"one is left", 1000, 4095, STREAM_MORE, "get_id"},
		{"a new tick", 1001, 4096, STREAM_MORE, "get_id"},
		{"the clock stepped back", 999, 1, STREAM_MORE, "InvalidSystemClock: Clock moved"},
		{"past the lease", 200000, 1, STREAM_PARKED, NULL},
		{"before the epoch", -1, 1, STREAM_MORE,
		 "InvalidSystemClock: the clock is outside"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GByteArray) by_fast = g_byte_array_new();
		g_autoptr(GByteArray) by_general = g_byte_array_new();
		StreamStatus status = call_at(TRUE, CASES[i].now_ms, CASES[i].issued, by_fast);

		g_test_message("%s", CASES[i].name);
		g_assert_cmpint(status, ==, CASES[i].status);
		g_assert_true((by_fast->len > 0) == (CASES[i].reply != NULL));
		if (CASES[i].reply != NULL)
			g_assert_nonnull(memmem(by_fast->data, by_fast->len, CASES[i].reply,
						strlen(CASES[i].reply)));
		g_assert_cmpint(status, ==,
				call_at(FALSE, CASES[i].now_ms, CASES[i].issued, by_general));
		g_assert_cmpmem(by_fast->data, by_fast->len, by_general->data, by_general->len);
	}
}

/* A check of the check: the fast path does answer. */
static void test_taken(void)
{
	static const guint8 CALL[] = "\x80\1\0\1\0\0\0\6get_id\0\0\0\0\13\0\1\0\0\0\3foo";
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) out = g_byte_array_new();
	Dispatcher *dispatcher = stack->shared.dispatcher;

	g_assert_cmpuint(dispatcher_fast_call(dispatcher, CALL, sizeof CALL, TRUE, out), ==,
			 sizeof CALL);
	g_assert_cmpuint(out->len, ==, 30);
	/* cut anywhere, it is left alone */
	for (gsize length = 0; length < sizeof CALL; length++) {
		g_autofree guint8 *copy = g_memdup2(CALL, length);

		g_assert_cmpuint(dispatcher_fast_call(dispatcher, copy, length, FALSE, out), ==, 0);
	}
	g_assert_cmpuint(out->len, ==, 30);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/fast-path/taken", test_taken);
	g_test_add_func("/fast-path/equal", test_equal);
	g_test_add_func("/fast-path/refusals", test_refusals);
	return g_test_run();
}
