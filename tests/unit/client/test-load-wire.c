/* SPDX-License-Identifier: Apache-2.0 */

/* VECTORS names the folder of test vectors. */

#include <json-glib/json-glib.h>
#include <string.h>

#include "client/load/wire.h"

static const LoadWireForm get_id = {.agent = "foo"};

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

static JsonParser *load_vectors(void)
{
	g_autofree char *path = g_build_filename(g_getenv("VECTORS"), "wire.json", NULL);
	g_autoptr(GError) error = NULL;
	JsonParser *parser = json_parser_new();

	json_parser_load_from_file(parser, path, &error);
	g_assert_no_error(error);
	return parser;
}

static void requests_are_those_of_the_vectors(void)
{
	static const struct {
		const char *vector;
		guint slot; /* the sequence number in the vector */
		LoadWireForm form;
	} cases[] = {
		{"call_get_worker_id_seq0", 0, {.call = LOAD_WIRE_GET_WORKER_ID}},
		{"call_get_datacenter_id_seq7", 7, {.call = LOAD_WIRE_GET_DATACENTER_ID}},
		{"call_get_timestamp_seq1", 1, {.call = LOAD_WIRE_GET_TIMESTAMP}},
		{"call_get_id_foo_seq0", 0, {.agent = "foo"}},
		{"call_get_id_foo_seq0_unversioned_header",
		 0,
		 {.agent = "foo", .protocol = LOAD_WIRE_UNVERSIONED}},
		{"unframed_call_get_id_foo_seq0",
		 0,
		 {.agent = "foo", .framing = LOAD_WIRE_UNFRAMED}},
		{"compact_call_get_id_foo_seq1_unframed",
		 1,
		 {.agent = "foo", .framing = LOAD_WIRE_UNFRAMED, .protocol = LOAD_WIRE_COMPACT}},
	};
	g_autoptr(JsonParser) parser = load_vectors();
	JsonObject *vectors = json_node_get_object(json_parser_get_root(parser));

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(LoadWire) wire = load_wire_new(&cases[i].form, 8);
		g_autoptr(GByteArray) vector =
			bytes_of(json_object_get_string_member(vectors, cases[i].vector));

		g_test_message("%s", cases[i].vector);
		g_assert_cmpmem(wire->requests + cases[i].slot * wire->request_bytes,
				wire->request_bytes, vector->data, vector->len);
	}
}

/* Any run of as many requests as there are slots lies in one piece. */
static void requests_lie_twice(void)
{
	static const guint slot_counts[] = {1, 2, 128, 129, 1000, 65536};
	LoadWireForm form = {.agent = "foo", .protocol = LOAD_WIRE_COMPACT};

	for (gsize i = 0; i < G_N_ELEMENTS(slot_counts); i++) {
		g_autoptr(LoadWire) wire = load_wire_new(&form, slot_counts[i]);
		gsize half = slot_counts[i] * wire->request_bytes;

		g_assert_cmpmem(wire->requests, half, wire->requests + half, half);
	}
}

#define STRICT_HEAD "80010002 00000006 6765745f6964 "

#define LISTS_HEAD "80010002 00000007 6765745f696473 "

/* What a reply says; a list of values, ended by -1. */
typedef struct {
	LoadWireForm form;
	guint slot;
	const char *hex; /* without its frame */
	gint64 values[16];
} Good;

static const Good goods[] = {
	{{.agent = "a"}, 7, STRICT_HEAD "00000007 0a 0000 0000000000000001 00", {1, -1}},
	{{.agent = "a"}, 6, STRICT_HEAD "00000006 0a 0000 7fffffffffffffff 00", {G_MAXINT64, -1}},
	{{.agent = "a", .protocol = LOAD_WIRE_UNVERSIONED},
	 7,
	 STRICT_HEAD "00000007 0a 0000 0000000000000001 00",
	 {1, -1}},
	{{.agent = "a", .protocol = LOAD_WIRE_COMPACT},
	 1,
	 "82410106 6765745f6964 060002 00",
	 {1, -1}},
	{{.agent = "a", .protocol = LOAD_WIRE_COMPACT},
	 7,
	 "82410706 6765745f6964 0600 feffffffffffffffff01 00",
	 {G_MAXINT64, -1}},
	{{.call = LOAD_WIRE_GET_IDS, .agent = "a", .count = 2},
	 0,
	 LISTS_HEAD "00000000 0f 0000 0a 00000002 0000000000000003 7fffffffffffffff 00",
	 {3, G_MAXINT64, -1}},
	{{.call = LOAD_WIRE_GET_IDS, .agent = "a", .count = 2, .protocol = LOAD_WIRE_COMPACT},
	 3,
	 "82410307 6765745f696473 0900 26 06 8001 00",
	 {3, 64, -1}},
	{{.call = LOAD_WIRE_GET_IDS, .agent = "a", .count = 15, .protocol = LOAD_WIRE_COMPACT},
	 3,
	 "82410307 6765745f696473 0900 f60f 020202020202020202020202020204 00",
	 {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, -1}},
	{{.call = LOAD_WIRE_GET_WORKER_ID, .protocol = LOAD_WIRE_COMPACT},
	 0,
	 "8241000d 6765745f776f726b65725f6964 0600 00 00",
	 {0, -1}},
};

/* (transfer full): as it comes over the wire */
static GByteArray *reply_of(const LoadWireForm *form, const char *hex)
{
	g_autoptr(GByteArray) message = bytes_of(hex);
	GByteArray *out = g_byte_array_new();
	guint32 length = GUINT32_TO_BE(message->len);

	if (form->framing == LOAD_WIRE_FRAMED)
		g_byte_array_append(out, (const guint8 *)&length, sizeof(length));
	g_byte_array_append(out, message->data, message->len);
	return out;
}

/* Each of them, framed and unframed; and cut anywhere, it is incomplete. A copy of the exact size
 * lets ASan see a read past it. */
static void good_replies_are_read(void)
{
	for (gsize i = 0; i < 2 * G_N_ELEMENTS(goods); i++) {
		const Good *good = &goods[i / 2];
		LoadWireForm form = good->form;
		LoadWireReply parsed;

		form.framing = i % 2 == 0 ? LOAD_WIRE_FRAMED : LOAD_WIRE_UNFRAMED;
		g_test_message("%s %s", load_wire_framing_names[form.framing], good->hex);

		g_autoptr(LoadWire) wire = load_wire_new(&form, 8);
		g_autoptr(GByteArray) reply = reply_of(&form, good->hex);

		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, good->slot, &parsed),
				==, LOAD_WIRE_VALUES);
		g_assert_cmpuint(parsed.length, ==, reply->len);
		for (gsize k = 0; good->values[k] >= 0; k++)
			g_assert_cmpint(load_wire_next_value(wire, &parsed), ==, good->values[k]);
		for (gsize length = 0; length < reply->len; length++) {
			g_autofree guint8 *cut = g_memdup2(reply->data, length);

			g_assert_cmpint(load_wire_parse(wire, cut, length, good->slot, &parsed), ==,
					LOAD_WIRE_INCOMPLETE);
		}
	}
}

/* The reply to slot 200 of 1000 has a sequence number of three bytes. */
static void many_slots_have_long_sequence_numbers(void)
{
	LoadWireForm form = {
		.agent = "foo", .protocol = LOAD_WIRE_COMPACT, .framing = LOAD_WIRE_UNFRAMED};
	g_autoptr(LoadWire) wire = load_wire_new(&form, 1000);
	g_autoptr(GByteArray) call = bytes_of("8221 c88101 06 6765745f6964 1803666f6f 00");
	g_autoptr(GByteArray) reply = bytes_of("8241 c88101 06 6765745f6964 060002 00");
	LoadWireReply parsed;

	g_assert_cmpmem(wire->requests + 200 * wire->request_bytes, wire->request_bytes, call->data,
			call->len);
	g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, 200, &parsed), ==,
			LOAD_WIRE_VALUES);
	g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, 201, &parsed), ==,
			LOAD_WIRE_ERROR);
}

typedef struct {
	const char *hex;
	LoadWireStatus status;
	const char *error;
} Bad;

static void check_bad(const LoadWireForm *form, const Bad *cases, gsize count)
{
	g_autoptr(LoadWire) wire = load_wire_new(form, 8);

	for (gsize i = 0; i < count; i++) {
		g_autoptr(GByteArray) reply = bytes_of(cases[i].hex);
		g_autofree char *error = NULL;
		LoadWireReply parsed = {0};

		g_test_message("%s", cases[i].hex);
		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, 7, &parsed), ==,
				cases[i].status);
		if (cases[i].error == NULL)
			continue;
		g_assert_cmpuint(parsed.length, ==, reply->len);
		error = load_wire_describe_error(wire, &parsed);
		g_assert_true(g_pattern_match_simple(cases[i].error, error));
	}
}

static void bad_framed_replies_are_told(void)
{
	static const Bad cases[] = {
		/* another sequence number, no end, another type, another kind, another call */
		{"0000001e" STRICT_HEAD "00000006 0a 0000 0000000000000001 00", LOAD_WIRE_ERROR,
		 "*34 bytes*"},
		{"0000001e" STRICT_HEAD "00000007 0a 0000 0000000000000001 01", LOAD_WIRE_ERROR,
		 "*34 bytes*"},
		{"0000001e" STRICT_HEAD "00000007 06 0000 0000000000000001 00", LOAD_WIRE_ERROR,
		 "*34 bytes*"},
		{"0000001e 80010004 00000006 6765745f6964 00000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_ERROR, "*34 bytes*"},
		{"0000001e 80010002 00000006 6765745f6965 00000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_ERROR, "*34 bytes*"},
		/* no result at all, and nothing at all */
		{"00000013" STRICT_HEAD "00000007 00", LOAD_WIRE_ERROR, "*23 bytes*"},
		{"00000000", LOAD_WIRE_ERROR, "*4 bytes*"},
		/* TApplicationException, its fields in either order */
		{"00000024 80010003 00000006 6765745f6964 00000007 0b 0001 00000003 6f6f70"
		 "08 0002 00000006 00",
		 LOAD_WIRE_ERROR, "an exception: oop"},
		{"00000024 80010003 00000006 6765745f6964 00000007 08 0002 00000006"
		 "0b 0001 00000003 6fff70 00",
		 LOAD_WIRE_ERROR, "an exception: o\\377p"},
		/* a declared exception, with an i64 before its message */
		{"0000002c" STRICT_HEAD "00000007 0c 0001"
		 "0a 0002 0000000000000001 0b 0001 00000003 6f6f70 00 00",
		 LOAD_WIRE_ERROR, "an exception: oop"},
		/* a message that takes the last byte of the frame with it, one that is longer, and
		 * a name that is longer than the frame */
		{"0000001d 80010003 00000006 6765745f6964 00000007 0b 0001 00000004 6f6f70 00",
		 LOAD_WIRE_ERROR, "*33 bytes*"},
		{"0000001d 80010003 00000006 6765745f6964 00000007 0b 0001 ffffffff 6f6f70 00",
		 LOAD_WIRE_ERROR, "*33 bytes*"},
		{"0000001e 80010003 000000ff 6765745f6964 00000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_ERROR, "*34 bytes*"},
		/* lengths: the largest that an exception may have, and one more */
		{"00000ffc", LOAD_WIRE_INCOMPLETE, NULL},
		{"00000ffd", LOAD_WIRE_BROKEN, NULL},
		{"ffffffff", LOAD_WIRE_BROKEN, NULL},
		{"48545450", LOAD_WIRE_BROKEN, NULL},
	};

	check_bad(&get_id, cases, G_N_ELEMENTS(cases));
}

static void bad_unframed_replies_are_told(void)
{
	static const LoadWireForm form = {.agent = "foo", .framing = LOAD_WIRE_UNFRAMED};
	static const Bad cases[] = {
		{STRICT_HEAD "00000006 0a 0000 0000000000000001 00", LOAD_WIRE_ERROR, "*30 bytes*"},
		{"80010003 00000006 6765745f6964 00000007 0b 0001 00000003 6f6f70"
		 "08 0002 00000006 00",
		 LOAD_WIRE_ERROR, "an exception: oop"},
		{STRICT_HEAD
		 "00000007 0c 0001 0a 0002 0000000000000001 0b 0001 00000003 6f6f70 00 00",
		 LOAD_WIRE_ERROR, "an exception: oop"},
		/* longer than any, deeper than any, a map, a call, and no Thrift */
		{STRICT_HEAD "00000007 0b 0001 7fffffff 00", LOAD_WIRE_INCOMPLETE, NULL},
		{STRICT_HEAD "00000007 0c 0001 0c 0001 0c 0001 00 00 00 00", LOAD_WIRE_BROKEN,
		 NULL},
		{STRICT_HEAD "00000007 0d 0001 0b 0b 00000000 00", LOAD_WIRE_BROKEN, NULL},
		{"80010001 00000006 6765745f6964 00000007 00", LOAD_WIRE_BROKEN, NULL},
		{"48545450 2f312e31", LOAD_WIRE_BROKEN, NULL},
	};

	check_bad(&form, cases, G_N_ELEMENTS(cases));
}

static void bad_compact_replies_are_told(void)
{
	static const LoadWireForm form = {
		.agent = "foo", .framing = LOAD_WIRE_UNFRAMED, .protocol = LOAD_WIRE_COMPACT};
	static const Bad cases[] = {
		{"8261 07 06 6765745f6964 18 03 6f6f70 15 0c 00", LOAD_WIRE_ERROR,
		 "an exception: oop"},
		/* declared, and with a field ID written out */
		{"8241 07 06 6765745f6964 1c 18 03 6f6f70 16 02 00 00", LOAD_WIRE_ERROR,
		 "an exception: oop"},
		{"8241 07 06 6765745f6964 0c 02 08 02 03 6f6f70 00 00", LOAD_WIRE_ERROR,
		 "an exception: oop"},
		{"8241 06 06 6765745f6964 0600 02 00", LOAD_WIRE_ERROR, "*14 bytes*"},
		/* a varint without an end, a call */
		{"8241 07 06 6765745f6964 0600 ffffffffffffffffffff 00", LOAD_WIRE_BROKEN, NULL},
		{"8221 07 06 6765745f6964 00", LOAD_WIRE_BROKEN, NULL},
	};

	check_bad(&form, cases, G_N_ELEMENTS(cases));
}

static void redis_is_understood(void)
{
	static const LoadWireForm form = {.call = LOAD_WIRE_REDIS_INCR};
	static const char request[] = "*2\r\n$4\r\nINCR\r\n$18\r\nsnowflakectl-bench\r\n";
	static const struct {
		const char *reply;
		LoadWireStatus status;
		const char *says;
	} cases[] = {
		{":1\r\n", LOAD_WIRE_VALUES, "1"},
		{":123456789012345678\r\n", LOAD_WIRE_VALUES, "123456789012345678"},
		{":1\r", LOAD_WIRE_INCOMPLETE, NULL},
		{":", LOAD_WIRE_INCOMPLETE, NULL},
		{"-ERR no\r\n", LOAD_WIRE_ERROR, "an exception: ERR no"},
		{":x\r\n", LOAD_WIRE_ERROR, NULL},
		{":\r\n", LOAD_WIRE_ERROR, NULL},
		{":1\n", LOAD_WIRE_BROKEN, NULL},
		{"$-1\r\n", LOAD_WIRE_BROKEN, NULL},
	};
	g_autoptr(LoadWire) wire = load_wire_new(&form, 1);

	g_assert_cmpmem(request, strlen(request), wire->requests, wire->request_bytes);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		gsize length = strlen(cases[i].reply);
		g_autofree guint8 *reply = g_memdup2(cases[i].reply, length);
		g_autofree char *says = NULL;
		LoadWireReply parsed;
		LoadWireStatus status = load_wire_parse(wire, reply, length, 0, &parsed);

		g_assert_cmpint(status, ==, cases[i].status);
		if (cases[i].says == NULL)
			continue;
		says = status == LOAD_WIRE_ERROR
			       ? load_wire_describe_error(wire, &parsed)
			       : g_strdup_printf("%" G_GINT64_FORMAT,
						 load_wire_next_value(wire, &parsed));
		g_assert_cmpstr(says, ==, cases[i].says);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/load-wire/requests", requests_are_those_of_the_vectors);
	g_test_add_func("/load-wire/requests-twice", requests_lie_twice);
	g_test_add_func("/load-wire/good", good_replies_are_read);
	g_test_add_func("/load-wire/long-sequence-numbers", many_slots_have_long_sequence_numbers);
	g_test_add_func("/load-wire/bad-framed", bad_framed_replies_are_told);
	g_test_add_func("/load-wire/bad-unframed", bad_unframed_replies_are_told);
	g_test_add_func("/load-wire/bad-compact", bad_compact_replies_are_told);
	g_test_add_func("/load-wire/redis", redis_is_understood);
	return g_test_run();
}
