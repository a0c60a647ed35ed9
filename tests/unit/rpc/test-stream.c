/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"
#include "tests/unit/unit-test.h"

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

/* A call that must wait leaves no trace, and is answered when its time has come; the calls behind
 * it wait with it, and go on without its privileges. */
TEST("/stream/parking", test_parking)
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
TEST("/stream/last-chance", test_last_chance)
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
		g_assert_cmpuint(stack_verdict(stack)->answered, ==, CASES[n].refused);
		g_assert_true((out->len > 0) == (CASES[n].refused > 0));
		if (CASES[n].refused > 0)
			g_assert_nonnull(memmem(out->data, out->len, "WorkerIdUnavailable: ", 21));
	}
}

/* While others wait, a call draws no more than its turn allows. */
TEST("/stream/quota", test_quota)
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
TEST("/stream/full", test_full)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) input = g_byte_array_new();
	g_autoptr(GByteArray) out = g_byte_array_new();

	stack->room = 100;
	for (int i = 0; i < 5; i++)
		wire_get_id(FORM_FRAMED_STRICT, (guint8)i, "foo", input);
	g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==, STREAM_FULL);
	assert_ids(out, 0, 3);
	g_byte_array_set_size(out, 0);
	g_assert_cmpint(stack_feed(stack, "", 0, out), ==, STREAM_MORE);
	assert_ids(out, 3, 2);
}

/* A turn ends some time after its first answer, and the next one goes on where it stopped. */
TEST("/stream/turn", test_turn)
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
