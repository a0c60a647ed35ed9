/* SPDX-License-Identifier: Apache-2.0 */

/* VECTORS is the directory of the test vectors. */

#include <json-glib/json-glib.h>
#include <string.h>

#include "common/thrift/byte-writer.h"
#include "load/wire.h"
#include "tests/unit/unit-test.h"

static const LoadWireForm get_id = {.agent = "foo"};

/* Converts @hex to bytes and ignores spaces. Returns: (transfer full) */
static GByteArray *hex_bytes(const char *hex)
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

/* Returns: (transfer full): the requests of @count calls, the first of which is @call */
static guint8 *requests_of(const LoadWire *wire, guint32 call, guint count)
{
	guint8 *requests = g_malloc(count * wire->request_bytes);

	for (guint i = 0; i < count; i++)
		memcpy(requests + i * wire->request_bytes, wire->request, wire->request_bytes);
	load_wire_number_requests(wire, requests, count, call);
	return requests;
}

/* The vector has another sequence number; everything else is compared. */
TEST("/load-wire/request", request_is_that_of_the_vectors)
{
	const gsize offset = 18, seqid_bytes = 4;
	g_autoptr(JsonParser) parser = load_vectors();
	JsonObject *vectors = json_node_get_object(json_parser_get_root(parser));
	g_autoptr(GByteArray) vector =
		hex_bytes(json_object_get_string_member(vectors, "call_get_id_foo_seq0"));
	g_autoptr(LoadWire) wire = load_wire_new(&get_id, 8);
	g_autofree guint8 *request = requests_of(wire, 7, 1);
	g_autoptr(GByteArray) seqid = hex_bytes("40000007");

	g_assert_cmpuint(wire->request_bytes, ==, vector->len);
	g_assert_cmpmem(request, offset, vector->data, offset);
	g_assert_cmpmem(request + offset, seqid_bytes, seqid->data, seqid_bytes);
	g_assert_cmpmem(request + offset + seqid_bytes, vector->len - offset - seqid_bytes,
			vector->data + offset + seqid_bytes, vector->len - offset - seqid_bytes);
}

/* Sequence numbers begin anywhere, and wrap after the largest i32. */
TEST("/load-wire/sequence-numbers", sequence_numbers_follow)
{
	static const struct {
		guint32 call;
		const char *seqids[3];
	} cases[] = {
		{0, {"40000000", "40000001", "40000002"}},
		{0x7e, {"4000007e", "4000007f", "40000080"}},
		{0x3ffffffe, {"7ffffffe", "7fffffff", "40000000"}},
		{0xffffffff, {"7fffffff", "40000000", "40000001"}},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(LoadWire) wire = load_wire_new(&get_id, 3);
		g_autofree guint8 *requests = requests_of(wire, cases[i].call, 3);

		for (gsize k = 0; k < 3; k++) {
			g_autoptr(GByteArray) seqid = hex_bytes(cases[i].seqids[k]);

			g_assert_cmpmem(requests + k * wire->request_bytes + 18, seqid->len,
					seqid->data, seqid->len);
		}
	}
}

#define STRICT_HEAD "80010002 00000006 6765745f6964 "

#define LISTS_HEAD "80010002 00000007 6765745f696473 "

#define RUNS_NAME "6765745f69645f72756e73"
#define RUNS_HEAD "80010002 0000000b " RUNS_NAME " "
#define RUN_OF_3  "0a 0001 0000000000000005 08 0002 00000003 00"
#define RUN_OF_4  "0a 0001 0000000000000005 08 0002 00000004 00"
#define NO_RUN    "0a 0001 0000000000000009 08 0002 00000000 00"
#define OF_MINUS1 "0a 0001 0000000000000009 08 0002 ffffffff 00"

/* The contents of a reply: a list of values, ended by -1. */
typedef struct {
	LoadWireForm form;
	guint32 call;
	const char *hex; /* without the frame header */
	gint64 values[16];
} Good;

static const Good goods[] = {
	{{.agent = "a"}, 7, STRICT_HEAD "40000007 0a 0000 0000000000000001 00", {1, -1}},
	{{.agent = "a"}, 6, STRICT_HEAD "40000006 0a 0000 7fffffffffffffff 00", {G_MAXINT64, -1}},
	{{.call = LOAD_WIRE_GET_IDS, .agent = "a", .count = 2},
	 0,
	 LISTS_HEAD "40000000 0f 0000 0a 00000002 0000000000000003 7fffffffffffffff 00",
	 {3, G_MAXINT64, -1}},
	{{.call = LOAD_WIRE_GET_ID_RUNS, .agent = "a", .count = 3},
	 3,
	 RUNS_HEAD "40000003 0f 0000 0c 00000001 " RUN_OF_3 " 00",
	 {5, 6, 7, -1}},
	{{.call = LOAD_WIRE_GET_ID_RUNS, .agent = "a", .count = 3},
	 3,
	 RUNS_HEAD "40000003 0f 0000 0c 00000002 0a 0001 0000000000000005 08 0002 00000002 00"
		   "0a 0001 7fffffffffffffff 08 0002 00000001 00 00",
	 {5, 6, G_MAXINT64, -1}},
	{{.agent = "a"}, 0xffffffff, STRICT_HEAD "7fffffff 0a 0000 0000000000000001 00", {1, -1}},
};

/* Returns: (transfer full): the bytes on the wire */
static GByteArray *reply_of(const char *hex)
{
	g_autoptr(GByteArray) message = hex_bytes(hex);
	GByteArray *out = g_byte_array_new();
	guint32 length = GUINT32_TO_BE(message->len);

	g_byte_array_append(out, (const guint8 *)&length, sizeof(length));
	g_byte_array_append(out, message->data, message->len);
	return out;
}

/* Asserts that no part of @reply is complete. Copies of the exact size let ASan detect reads past
 * the end. */
static void assert_incomplete_if_cut(const LoadWire *wire, const GByteArray *reply, guint32 call)
{
	LoadWireReply parsed;

	for (gsize length = 0; length < reply->len; length++) {
		g_autofree guint8 *cut = g_memdup2(reply->data, length);

		g_assert_cmpint(load_wire_parse(wire, cut, length, call, &parsed), ==,
				LOAD_WIRE_INCOMPLETE);
	}
}

/* Asserts that a change of any byte before the values makes the reply bad, so all are compared. A
 * change in the sequence number makes it the reply to another call. */
static void assert_compared_whole(const LoadWire *wire, GByteArray *reply, guint32 call)
{
	const gsize before = 4; /* length of the frame */
	gsize seqid = before + wire->start_seqid_offset;
	LoadWireReply parsed;

	for (gsize at = before; at < before + wire->start_bytes; at++) {
		LoadWireStatus status;

		reply->data[at] ^= 1;
		status = load_wire_parse(wire, reply->data, reply->len, call, &parsed);
		reply->data[at] ^= 1;
		g_assert_cmpint(status, !=, LOAD_WIRE_VALUES);
		if (at >= seqid && at < seqid + 4)
			g_assert_cmpint(status, ==, LOAD_WIRE_FOREIGN);
	}
}

/* Asserts that @reply is foreign to the calls before and after @call, to the next call in the same
 * slot, and to a call whose number differs in its highest bit. */
static void assert_foreign_to_others(const LoadWire *wire, const GByteArray *reply, guint32 call)
{
	const guint32 others[] = {call - 1, call + 1, call + 8, call ^ 1u << 29};
	LoadWireReply parsed;

	for (gsize k = 0; k < G_N_ELEMENTS(others); k++)
		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, others[k], &parsed),
				==, LOAD_WIRE_FOREIGN);
}

TEST("/load-wire/good", good_replies_are_read)
{
	for (gsize i = 0; i < G_N_ELEMENTS(goods); i++) {
		const Good *good = &goods[i];
		g_autoptr(LoadWire) wire = load_wire_new(&good->form, 8);
		g_autoptr(GByteArray) reply = reply_of(good->hex);
		LoadWireReply parsed;

		g_test_message("%s", good->hex);
		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, good->call, &parsed),
				==, LOAD_WIRE_VALUES);
		g_assert_cmpuint(parsed.length, ==, reply->len);
		for (gsize k = 0; good->values[k] >= 0; k++)
			g_assert_cmpint(load_wire_next_value(wire, &parsed), ==, good->values[k]);
		assert_incomplete_if_cut(wire, reply, good->call);
		assert_compared_whole(wire, reply, good->call);
		assert_foreign_to_others(wire, reply, good->call);
	}
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
		g_autoptr(GByteArray) reply = hex_bytes(cases[i].hex);
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

TEST("/load-wire/bad-framed", bad_framed_replies_are_reported)
{
	static const Bad cases[] = {
		/* another sequence number; one that differs in its highest bits only */
		{"0000001e" STRICT_HEAD "40000006 0a 0000 0000000000000001 00", LOAD_WIRE_FOREIGN,
		 NULL},
		{"0000001e" STRICT_HEAD "00000007 0a 0000 0000000000000001 00", LOAD_WIRE_FOREIGN,
		 NULL},
		{"0000001e" STRICT_HEAD "c0000007 0a 0000 0000000000000001 00", LOAD_WIRE_FOREIGN,
		 NULL},
		/* other calls: a name with the same beginning, and a prefix of the name */
		{"0000001e 80010002 00000006 6765745f6965 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_FOREIGN, NULL},
		{"0000001f 80010002 00000007 6765745f696473 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_FOREIGN, NULL},
		{"0000001d 80010002 00000005 6765745f69 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_FOREIGN, NULL},
		/* an exception for another call, of the same name and of another */
		{"00000024 80010003 00000006 6765745f6964 40000008 0b 0001 00000003 6f6f70"
		 "08 0002 00000006 00",
		 LOAD_WIRE_FOREIGN, NULL},
		{"00000024 80010003 00000006 6765745f6965 40000007 0b 0001 00000003 6f6f70"
		 "08 0002 00000006 00",
		 LOAD_WIRE_FOREIGN, NULL},
		/* no end, another type */
		{"0000001e" STRICT_HEAD "40000007 0a 0000 0000000000000001 01", LOAD_WIRE_ERROR,
		 "*34 bytes*"},
		{"0000001e" STRICT_HEAD "40000007 06 0000 0000000000000001 00", LOAD_WIRE_ERROR,
		 "*34 bytes*"},
		/* no result at all */
		{"00000013" STRICT_HEAD "40000007 00", LOAD_WIRE_ERROR, "*23 bytes*"},
		/* TApplicationException, its fields in either order */
		{"00000024 80010003 00000006 6765745f6964 40000007 0b 0001 00000003 6f6f70"
		 "08 0002 00000006 00",
		 LOAD_WIRE_ERROR, "an exception: oop"},
		{"00000024 80010003 00000006 6765745f6964 40000007 08 0002 00000006"
		 "0b 0001 00000003 6fff70 00",
		 LOAD_WIRE_ERROR, "an exception: o\\377p"},
		/* a declared exception, with an i64 before its message */
		{"0000002c" STRICT_HEAD "40000007 0c 0001"
		 "0a 0002 0000000000000001 0b 0001 00000003 6f6f70 00 00",
		 LOAD_WIRE_ERROR, "an exception: oop"},
		/* a message that also covers the last byte of the frame, and one that is longer */
		{"0000001d 80010003 00000006 6765745f6964 40000007 0b 0001 00000004 6f6f70 00",
		 LOAD_WIRE_ERROR, "*33 bytes*"},
		{"0000001d 80010003 00000006 6765745f6964 40000007 0b 0001 ffffffff 6f6f70 00",
		 LOAD_WIRE_ERROR, "*33 bytes*"},
		/* no header: empty, a name longer than the frame, a truncated sequence number,
		 * neither a reply nor an exception, no version */
		{"00000000", LOAD_WIRE_BROKEN, NULL},
		{"0000001e 80010003 000000ff 6765745f6964 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_BROKEN, NULL},
		{"00000011" STRICT_HEAD "400000", LOAD_WIRE_BROKEN, NULL},
		{"0000001e 80010004 00000006 6765745f6964 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_BROKEN, NULL},
		{"0000001b 00000006 6765745f6964 02 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_BROKEN, NULL},
		/* lengths: the maximum for an exception, and one more */
		{"00000ffc", LOAD_WIRE_INCOMPLETE, NULL},
		{"00000ffd", LOAD_WIRE_BROKEN, NULL},
		{"ffffffff", LOAD_WIRE_BROKEN, NULL},
		{"48545450", LOAD_WIRE_BROKEN, NULL},
	};

	check_bad(&get_id, cases, G_N_ELEMENTS(cases));
}

TEST("/load-wire/lists-of-another-length", lists_of_another_length_are_errors)
{
	static const LoadWireForm form = {.call = LOAD_WIRE_GET_IDS, .agent = "a", .count = 2};
	static const guint32 counts[] = {0, 1, 3, 400};
	g_autoptr(LoadWire) wire = load_wire_new(&form, 8);

	for (gsize i = 0; i < G_N_ELEMENTS(counts); i++) {
		g_autoptr(GByteArray) reply =
			hex_bytes("00000000" LISTS_HEAD "40000007 0f 0000 0a");
		LoadWireReply parsed;
		guint32 length;

		byte_writer_be32(reply, counts[i]);
		for (guint32 value = 1; value <= counts[i]; value++)
			byte_writer_be64(reply, value);
		byte_writer_u8(reply, BINARY_STOP);
		length = GUINT32_TO_BE(reply->len - 4);
		memcpy(reply->data, &length, sizeof length);
		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, 7, &parsed), ==,
				LOAD_WIRE_ERROR);
		g_assert_cmpuint(parsed.length, ==, reply->len);
	}
}

/* Wrong replies to get_id_runs that are well-formed Thrift. */
TEST("/load-wire/bad-runs", bad_runs_are_errors)
{
	static const char *const lists[] = {
		"00000000",
		"00000001 0a 0001 0000000000000005 08 0002 00000002 00",
		"00000001 0a 0001 0000000000000005 08 0002 00000004 00",
		"00000002 " RUN_OF_3 RUN_OF_3,
		"00000002 " RUN_OF_3 NO_RUN,
		"00000002 " RUN_OF_4 OF_MINUS1,
		"00000001 0a 0001 0000000000000005 0a 0002 0000000000000003 00",
		"00000001 0a 0001 0000000000000005 08 0003 00000003 00",
		"00000001 0a 0001 0000000000000005 00",
		"00000001 08 0001 00000005 08 0002 00000003 00",
	};
	static const LoadWireForm form = {.call = LOAD_WIRE_GET_ID_RUNS, .agent = "a", .count = 3};
	g_autoptr(LoadWire) wire = load_wire_new(&form, 8);

	for (gsize i = 0; i < G_N_ELEMENTS(lists); i++) {
		g_autofree char *hex =
			g_strdup_printf(RUNS_HEAD "40000007 0f 0000 0c %s 00", lists[i]);
		g_autoptr(GByteArray) reply = reply_of(hex);
		LoadWireReply parsed;

		g_test_message("%s", hex);
		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, 7, &parsed), ==,
				LOAD_WIRE_ERROR);
		g_assert_cmpuint(parsed.length, ==, reply->len);
	}
}

TEST("/load-wire/redis", redis_is_understood)
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

	g_assert_cmpmem(request, strlen(request), wire->request, wire->request_bytes);
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
