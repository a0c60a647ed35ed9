/* SPDX-License-Identifier: Apache-2.0 */
#include <glib.h>

#include "bench/load/wire.h"

/* (transfer full): @hex as bytes; spaces are left out. */
static GByteArray *bytes_of(const char *hex)
{
	GByteArray *out = g_byte_array_new();

	for (; *hex != '\0'; hex++) {
		guint8 byte;

		if (*hex == ' ')
			continue;
		byte = (guint8)(g_ascii_xdigit_value(hex[0]) << 4 | g_ascii_xdigit_value(hex[1]));
		g_byte_array_append(out, &byte, 1);
		hex++;
	}
	return out;
}

#define REPLY_HEAD "0000001e 80010002 00000006 6765745f6964 "

static void test_requests(void)
{
	g_autoptr(GByteArray) expected = bytes_of(
		"0000001d 80010001 00000006 6765745f6964 00000000 0b 0001 00000003 666f6f 00"
		"0000001d 80010001 00000006 6765745f6964 00000001 0b 0001 00000003 666f6f 00"
		"0000001d 80010001 00000006 6765745f6964 00000000 0b 0001 00000003 666f6f 00"
		"0000001d 80010001 00000006 6765745f6964 00000001 0b 0001 00000003 666f6f 00");
	g_autoptr(Wire) wire = wire_new(WIRE_GET_ID, "foo", 1, 2);

	g_assert_cmpmem(wire->requests, 4 * wire->request_bytes, expected->data, expected->len);
}

static void test_get_ids(void)
{
	g_autoptr(GByteArray) request = bytes_of(
		"00000025 80010001 00000007 6765745f696473 00000000 0b 0001 00000003 666f6f"
		"08 0002 00000002 00");
	g_autoptr(GByteArray) reply =
		bytes_of("0000002c 80010002 00000007 6765745f696473 00000000 0f 0000 0a 00000002"
			 "0000000000000003 7fffffffffffffff 00");
	g_autoptr(Wire) wire = wire_new(WIRE_GET_IDS, "foo", 2, 1);
	WireReply parsed;

	g_assert_cmpmem(wire->requests, wire->request_bytes, request->data, request->len);
	g_assert_cmpint(wire_parse_reply(wire, reply->data, reply->len, 0, &parsed), ==, WIRE_IDS);
	g_assert_cmpint(wire_reply_id(&parsed, 0), ==, 3);
	g_assert_cmpint(wire_reply_id(&parsed, 1), ==, G_MAXINT64);
}

static void test_replies(void)
{
	static const struct {
		const char *hex;
		WireStatus status;
		const char *error;
	} cases[] = {
		{REPLY_HEAD "00000007 0a 0000 0000000000000001 00", WIRE_IDS, NULL},
		{REPLY_HEAD "00000006 0a 0000 0000000000000001 00", WIRE_ERROR, "*34 bytes*"},
		{REPLY_HEAD "00000007 0a 0000 0000000000000001 01", WIRE_ERROR, "*34 bytes*"},
		{REPLY_HEAD "00000007 06 0000 0000000000000001 00", WIRE_ERROR, "*34 bytes*"},
		{"0000001e 80010004 00000006 6765745f6964 00000007 0a 0000 0000000000000001 00",
		 WIRE_ERROR, "*34 bytes*"},
		{"0000001e 80010002 00000006 6765745f6965 00000007 0a 0000 0000000000000001 00",
		 WIRE_ERROR, "*34 bytes*"},
		/* no result at all, and nothing at all */
		{"00000013 80010002 00000006 6765745f6964 00000007 00", WIRE_ERROR, "*23 bytes*"},
		{"00000000", WIRE_ERROR, "*4 bytes*"},
		/* TApplicationException, its fields in either order */
		{"00000024 80010003 00000006 6765745f6964 00000007 0b 0001 00000003 6f6f70"
		 "08 0002 00000006 00",
		 WIRE_ERROR, "an exception: oop"},
		{"00000024 80010003 00000006 6765745f6964 00000007 08 0002 00000006"
		 "0b 0001 00000003 6fff70 00",
		 WIRE_ERROR, "an exception: o\\377p"},
		/* a declared exception, with an i64 before its message */
		{"0000002c 80010002 00000006 6765745f6964 00000007 0c 0001"
		 "0a 0002 0000000000000001 0b 0001 00000003 6f6f70 00 00",
		 WIRE_ERROR, "an exception: oop"},
		/* a message that takes the last byte of the frame with it, and one that is longer
		 */
		{"0000001d 80010003 00000006 6765745f6964 00000007 0b 0001 00000004 6f6f70 00",
		 WIRE_ERROR, "an exception: oop"},
		{"0000001d 80010003 00000006 6765745f6964 00000007 0b 0001 00000005 6f6f70 00",
		 WIRE_ERROR, "*33 bytes*"},
		/* a name longer than the frame */
		{"0000001e 80010003 000000ff 6765745f6964 00000007 0a 0000 0000000000000001 00",
		 WIRE_ERROR, "*34 bytes*"},
		/* lengths: the largest that an exception may have, and one more */
		{"00000ffc", WIRE_INCOMPLETE, NULL},
		{"00000ffd", WIRE_BROKEN, NULL},
		{"ffffffff", WIRE_BROKEN, NULL},
		{"48545450", WIRE_BROKEN, NULL},
	};
	g_autoptr(Wire) wire = wire_new(WIRE_GET_ID, "foo", 1, 8);

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GByteArray) reply = bytes_of(cases[i].hex);
		g_autofree char *error = NULL;
		WireReply parsed = {0};

		g_test_message("%s", cases[i].hex);
		g_assert_cmpint(wire_parse_reply(wire, reply->data, reply->len, 7, &parsed), ==,
				cases[i].status);
		if (!cases[i].error)
			continue;
		g_assert_cmpuint(parsed.frame_bytes, ==, reply->len);
		error = wire_describe_error(&parsed);
		g_assert_true(g_pattern_match_simple(cases[i].error, error));
	}
}

/* Cut anywhere, a good reply is incomplete; a copy of the exact size lets ASan see a read past it.
 */
static void test_cut(void)
{
	g_autoptr(GByteArray) reply = bytes_of(REPLY_HEAD "00000007 0a 0000 0000000000000001 00");
	g_autoptr(Wire) wire = wire_new(WIRE_GET_ID, "foo", 1, 8);

	for (gsize length = 0; length < reply->len; length++) {
		g_autofree guint8 *cut = g_memdup2(reply->data, length);
		WireReply parsed;

		g_assert_cmpint(wire_parse_reply(wire, cut, length, 7, &parsed), ==,
				WIRE_INCOMPLETE);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/wire/requests", test_requests);
	g_test_add_func("/wire/get-ids", test_get_ids);
	g_test_add_func("/wire/replies", test_replies);
	g_test_add_func("/wire/cut", test_cut);
	return g_test_run();
}
