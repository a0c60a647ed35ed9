/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"
#include "tests/unit/unit-test.h"

#define BYTES(literal) (literal), sizeof(literal) - 1

/* The first bytes decide: six forms, or the end. */
TEST("/framing/forms", test_forms)
{
	static const struct {
		const char *bytes;
		gsize length;
		FramingKind kind;
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
		g_autoptr(GByteArray) out = g_byte_array_new();
		FramingShared shared = {.max_message_bytes = 1024, .max_depth = 64};
		Framing framing = {0};
		const char *reason = NULL;

		g_test_message("case %" G_GSIZE_FORMAT, i);
		for (gsize n = 0; n <= CASES[i].length && reason == NULL; n++)
			g_assert_true(framing_detect(&framing, &shared,
						     (const guint8 *)CASES[i].bytes, n, out,
						     &reason) == (reason == NULL));
		g_assert_cmpint(framing.kind, ==, CASES[i].kind);
		g_assert_true((reason != NULL) == CASES[i].closed);
		g_assert_cmpuint(out->len, ==, 0);
	}
}

/* However the bytes come, each message is told once it is there to its end, and no sooner. */
TEST("/framing/ends", test_ends)
{
	for (WireForm form = 0; form < N_FORMS; form++) {
		g_autoptr(GByteArray) input = g_byte_array_new();
		FramingShared shared = {.max_message_bytes = 1024, .max_depth = 64};
		Framing framing = {0};
		const char *reason;
		Message message;
		gsize ends[3], taken = 0;
		guint told = 0;

		for (gint32 i = 0; i < 3; i++) {
			wire_get_id(form, i, "foo", input);
			ends[i] = input->len;
		}
		g_assert_true(
			framing_detect(&framing, &shared, input->data, input->len, input, &reason));
		for (gsize n = 0; n <= input->len; n++) {
			if (framing_next(&framing, &shared, input->data + taken, n - taken,
					 &message) == FRAMING_MORE)
				continue;
			g_assert_cmpint(message.header.seqid, ==, told);
			g_assert_null(message.bad);
			g_assert_cmpint(message.framed, ==, form < FORM_UNFRAMED_STRICT);
			taken += message.taken;
			g_assert_cmpuint(taken, ==, ends[told++]);
			g_assert_cmpuint(n, ==, taken);
		}
		g_assert_cmpuint(told, ==, 3);
		framing_clear(&framing);
		scanner_free(shared.spare);
	}
}

/* A pipeline in each form, cut at every place, is answered alike. */
TEST("/framing/cuts", test_cuts)
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
TEST("/framing/protocol-per-message", test_protocol_per_message)
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
TEST("/framing/types", test_types)
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
TEST("/framing/bad-arguments", test_bad_arguments)
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
