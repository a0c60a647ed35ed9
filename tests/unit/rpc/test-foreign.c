/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/foreign.h"
#include "tests/unit/server/stack.h"
#include "tests/unit/server/wire.h"
#include "tests/unit/unit-test.h"

#define BYTES(literal) (literal), sizeof(literal) - 1

/* What is no Thrift is named, and closed as soon as it shows, not when its time is over. */
TEST("/foreign/closed-as-soon-as-it-shows", test_foreign)
{
	static const struct {
		const char *bytes;
		gsize length;
		const char *reason; /* begins so */
		gboolean answered;
		Counter counter;
	} CASES[] = {
		{BYTES("GET "), "HTTP", TRUE, COUNTER_BAD_HTTP},
		{BYTES("POST "), "HTTP", TRUE, COUNTER_BAD_HTTP},
		{BYTES("OPTIONS "), "HTTP", TRUE, COUNTER_BAD_HTTP},
		{BYTES("PRI "), "HTTP", TRUE, COUNTER_BAD_HTTP},
		{BYTES("\x16\3"), "TLS", FALSE, COUNTER_BAD_TLS},
		{BYTES("PROXY "), "a PROXY header", FALSE, COUNTER_BAD_PROXY},
		{BYTES("\r\n\r\n\0\r\nQUIT\n"), "a PROXY header", FALSE, COUNTER_BAD_PROXY},
		{BYTES("["), "JSON", FALSE, COUNTER_BAD_JSON},
		{BYTES("{"), "JSON", FALSE, COUNTER_BAD_JSON},
		{BYTES("x\x9c"), "zlib", FALSE, COUNTER_BAD_ZLIB},
		{BYTES("\0\0\0\144GET "), "HTTP", FALSE, COUNTER_BAD_HTTP},
		{BYTES("\0\0\0\144POST "), "HTTP", FALSE, COUNTER_BAD_HTTP},
		{BYTES("\0\0\0\144["), "JSON", FALSE, COUNTER_BAD_JSON},
		{BYTES("\0\0\0\144x\xda"), "zlib", FALSE, COUNTER_BAD_ZLIB},
		{BYTES("\0\0\0\144\x0f\xff"), "THeader", FALSE, COUNTER_BAD_THEADER},
		{BYTES("\0\0\0\144\x0f\x0f"), "unknown protocol", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144get "), "a name with bytes", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144ge\0"), "a name with bytes", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\1\1n"), "a name of more than 256 bytes", FALSE, COUNTER_BAD_THRIFT},
		/* framed, and not there to its end */
		{BYTES("\0\0\0\144\0\0\0\020get "), "a name with bytes", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\2\0\0\0\1\1"), "a name of more than 256 bytes", FALSE,
		 COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144\0\xff\xff\xff"), "a name of more than 256 bytes", FALSE,
		 COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144\x80\2\0\1"), "unknown version", FALSE, COUNTER_BAD_THRIFT},
		{BYTES("\0\0\0\144\x82\3"), "unknown version", FALSE, COUNTER_BAD_THRIFT},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(Stack) stack = stack_new(TRUE, 10);
		g_autoptr(GByteArray) out = g_byte_array_new();
		StreamStatus status = STREAM_MORE;
		gsize n = 0;

		g_test_message("case %" G_GSIZE_FORMAT ": %s", i, CASES[i].reason);
		for (; n < CASES[i].length && status == STREAM_MORE; n++)
			status = stack_feed(stack, CASES[i].bytes + n, 1, out);
		g_assert_cmpint(status, ==, STREAM_CLOSE);
		g_assert_cmpuint(n, ==, CASES[i].length); /* no byte earlier */
		g_assert_true(g_str_has_prefix(stack->reason, CASES[i].reason));
		g_assert_cmpint(foreign_counter(stack->reason), ==, CASES[i].counter);
		g_assert_true((out->len > 0) == CASES[i].answered);
		if (CASES[i].answered)
			g_assert_cmpmem(out->data, 13, "HTTP/1.1 400 ", 13);
	}
}

/* However the bytes come, the reason is the same. */
TEST("/foreign/in-pieces", test_foreign_in_pieces)
{
	static const struct {
		const char *bytes;
		gsize length;
		const char *reason; /* begins so; NULL: it may be Thrift */
	} CASES[] = {
		{BYTES("\x80\xce"
		       "ddOPTIONS 1"),
		 "unknown version"},
		{BYTES("\0\0\2\0OPTIONS 1"), "HTTP"},
		{BYTES("\0\0\0\10x\1.,"), "zlib"},
		{BYTES("\0\0\0\3GET /"), NULL},
		{BYTES("\0\0\0\1x\1.,-."), NULL},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		for (gsize step = 1; step <= CASES[i].length; step++) {
			g_autoptr(Stack) stack = stack_new(TRUE, 10);
			g_autoptr(GByteArray) out = g_byte_array_new();
			StreamStatus status = STREAM_MORE;

			g_test_message("case %zu, %zu bytes at a time", i, step);
			for (gsize n = 0; n < CASES[i].length && status == STREAM_MORE; n += step)
				status = stack_feed(stack, CASES[i].bytes + n,
						    MIN(step, CASES[i].length - n), out);
			g_assert_cmpint(status, ==,
					CASES[i].reason != NULL ? STREAM_CLOSE : STREAM_MORE);
			if (CASES[i].reason != NULL)
				g_assert_true(g_str_has_prefix(stack->reason, CASES[i].reason));
		}
	}
}

/* Behind a message that was understood the same bytes are no foreign protocol. */
TEST("/foreign/later", test_foreign_later)
{
	g_autoptr(Stack) stack = stack_new(TRUE, 10);
	g_autoptr(GByteArray) input = g_byte_array_new();
	g_autoptr(GByteArray) out = g_byte_array_new();

	wire_get_id(FORM_UNFRAMED_UNVERSIONED, 1, "foo", input);
	g_byte_array_append(input, (const guint8 *)"\0\0\0\144GET ", 8);
	g_assert_cmpint(stack_feed(stack, input->data, input->len, out), ==, STREAM_CLOSE);
	g_assert_cmpstr(stack->reason, ==, "a name with bytes that no name has");
}
