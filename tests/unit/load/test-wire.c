/* SPDX-License-Identifier: Apache-2.0 */

/* VECTORS names the folder of test vectors. */

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

/* (transfer full): the requests of @count calls, the first of which is @call */
static guint8 *requests_of(const LoadWire *wire, guint32 call, guint count)
{
	guint8 *requests = g_malloc(count * wire->request_bytes);

	for (guint i = 0; i < count; i++)
		memcpy(requests + i * wire->request_bytes, wire->request, wire->request_bytes);
	load_wire_number_requests(wire, requests, count, call);
	return requests;
}

/* The vectors have sequence numbers of their own; all else is compared. */
TEST("/load-wire/requests", requests_are_those_of_the_vectors)
{
	static const struct {
		const char *vector;
		gsize offset; /* of the sequence number */
		gsize bytes;  /* that it takes there */
		LoadWireForm form;
	} cases[] = {
		{"call_get_worker_id_seq0", 25, 4, {.call = LOAD_WIRE_GET_WORKER_ID}},
		{"call_get_datacenter_id_seq7", 29, 4, {.call = LOAD_WIRE_GET_DATACENTER_ID}},
		{"call_get_timestamp_seq1", 25, 4, {.call = LOAD_WIRE_GET_TIMESTAMP}},
		{"call_get_id_foo_seq0", 18, 4, {.agent = "foo"}},
		{"call_get_id_foo_seq0_unversioned_header",
		 15,
		 4,
		 {.agent = "foo", .protocol = LOAD_WIRE_UNVERSIONED}},
		{"unframed_call_get_id_foo_seq0",
		 14,
		 4,
		 {.agent = "foo", .framing = LOAD_WIRE_UNFRAMED}},
		{"compact_call_get_id_foo_seq1_unframed",
		 2,
		 1,
		 {.agent = "foo", .framing = LOAD_WIRE_UNFRAMED, .protocol = LOAD_WIRE_COMPACT}},
	};
	g_autoptr(JsonParser) parser = load_vectors();
	JsonObject *vectors = json_node_get_object(json_parser_get_root(parser));

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(LoadWire) wire = load_wire_new(&cases[i].form, 8);
		g_autoptr(GByteArray) vector =
			hex_bytes(json_object_get_string_member(vectors, cases[i].vector));
		g_autofree guint8 *request = requests_of(wire, 7, 1);
		g_autoptr(GByteArray) seqid =
			hex_bytes(cases[i].bytes == 1 ? "8780808004" : "40000007");
		gsize offset = cases[i].offset;

		g_byte_array_remove_range(vector, (guint)offset, (guint)cases[i].bytes);
		g_test_message("%s", cases[i].vector);
		g_assert_cmpuint(wire->request_bytes, ==, vector->len + seqid->len);
		g_assert_cmpmem(request, offset, vector->data, offset);
		g_assert_cmpmem(request + offset, seqid->len, seqid->data, seqid->len);
		offset += seqid->len;
		g_assert_cmpmem(request + offset, wire->request_bytes - offset,
				vector->data + cases[i].offset, vector->len - cases[i].offset);
	}
}

/* From any number on; behind the largest of an i32 they begin anew. */
TEST("/load-wire/sequence-numbers", sequence_numbers_follow)
{
	static const struct {
		guint32 call;
		const char *strict[3];
		const char *compact[3];
	} cases[] = {
		{0,
		 {"40000000", "40000001", "40000002"},
		 {"8080808004", "8180808004", "8280808004"}},
		{0x7e,
		 {"4000007e", "4000007f", "40000080"},
		 {"fe80808004", "ff80808004", "8081808004"}},
		{0x3ffffffe,
		 {"7ffffffe", "7fffffff", "40000000"},
		 {"feffffff07", "ffffffff07", "8080808004"}},
		{0xffffffff,
		 {"7fffffff", "40000000", "40000001"},
		 {"ffffffff07", "8080808004", "8180808004"}},
	};

	for (gsize i = 0; i < 2 * G_N_ELEMENTS(cases); i++) {
		gboolean compact = i % 2 == 1;
		LoadWireForm form = {.agent = "foo",
				     .framing = LOAD_WIRE_UNFRAMED,
				     .protocol = compact ? LOAD_WIRE_COMPACT : LOAD_WIRE_STRICT};
		g_autoptr(LoadWire) wire = load_wire_new(&form, 3);
		g_autofree guint8 *requests = requests_of(wire, cases[i / 2].call, 3);

		for (gsize k = 0; k < 3; k++) {
			g_autoptr(GByteArray) seqid = hex_bytes(compact ? cases[i / 2].compact[k]
									: cases[i / 2].strict[k]);

			g_assert_cmpmem(requests + k * wire->request_bytes + (compact ? 2 : 14),
					seqid->len, seqid->data, seqid->len);
		}
	}
}

#define STRICT_HEAD "80010002 00000006 6765745f6964 "

#define LISTS_HEAD "80010002 00000007 6765745f696473 "

#define RUNS_NAME "6765745f69645f72756e73"
#define RUNS_HEAD "80010002 0000000b " RUNS_NAME " "
#define RUN_OF_3  "0a 0001 0000000000000005 08 0002 00000003 00"

/* Of one ID each. */
#define COMPACT_RUN    " 16 0a 15 02 00"
#define COMPACT_RUNS_5 COMPACT_RUN COMPACT_RUN COMPACT_RUN COMPACT_RUN COMPACT_RUN

/* What a reply says; a list of values, ended by -1. */
typedef struct {
	LoadWireForm form;
	guint32 call;
	const char *hex; /* without its frame */
	gint64 values[16];
} Good;

static const Good goods[] = {
	{{.agent = "a"}, 7, STRICT_HEAD "40000007 0a 0000 0000000000000001 00", {1, -1}},
	{{.agent = "a"}, 6, STRICT_HEAD "40000006 0a 0000 7fffffffffffffff 00", {G_MAXINT64, -1}},
	{{.agent = "a", .protocol = LOAD_WIRE_UNVERSIONED},
	 7,
	 STRICT_HEAD "40000007 0a 0000 0000000000000001 00",
	 {1, -1}},
	{{.agent = "a", .protocol = LOAD_WIRE_COMPACT},
	 1,
	 "8241 8180808004 06 6765745f6964 060002 00",
	 {1, -1}},
	{{.agent = "a", .protocol = LOAD_WIRE_COMPACT},
	 7,
	 "8241 8780808004 06 6765745f6964 0600 feffffffffffffffff01 00",
	 {G_MAXINT64, -1}},
	{{.call = LOAD_WIRE_GET_IDS, .agent = "a", .count = 2},
	 0,
	 LISTS_HEAD "40000000 0f 0000 0a 00000002 0000000000000003 7fffffffffffffff 00",
	 {3, G_MAXINT64, -1}},
	{{.call = LOAD_WIRE_GET_IDS, .agent = "a", .count = 2, .protocol = LOAD_WIRE_COMPACT},
	 3,
	 "8241 8380808004 07 6765745f696473 0900 26 06 8001 00",
	 {3, 64, -1}},
	{{.call = LOAD_WIRE_GET_IDS, .agent = "a", .count = 15, .protocol = LOAD_WIRE_COMPACT},
	 3,
	 "8241 8380808004 07 6765745f696473 0900 f60f 020202020202020202020202020204 00",
	 {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, -1}},
	{{.call = LOAD_WIRE_GET_ID_RUNS, .agent = "a", .count = 3},
	 3,
	 RUNS_HEAD "40000003 0f 0000 0c 00000001 " RUN_OF_3 " 00",
	 {5, 6, 7, -1}},
	{{.call = LOAD_WIRE_GET_ID_RUNS, .agent = "a", .count = 3},
	 3,
	 RUNS_HEAD "40000003 0f 0000 0c 00000002 0a 0001 0000000000000005 08 0002 00000002 00"
		   "0a 0001 7fffffffffffffff 08 0002 00000001 00 00",
	 {5, 6, G_MAXINT64, -1}},
	{{.call = LOAD_WIRE_GET_ID_RUNS, .agent = "a", .count = 3, .protocol = LOAD_WIRE_COMPACT},
	 3,
	 "8241 8380808004 0b " RUNS_NAME " 0900 2c 16 0a 15 04 00 16 8001 15 02 00 00",
	 {5, 6, 64, -1}},
	{{.call = LOAD_WIRE_GET_ID_RUNS, .agent = "a", .count = 15, .protocol = LOAD_WIRE_COMPACT},
	 3,
	 "8241 8380808004 0b " RUNS_NAME " 0900 fc0f" COMPACT_RUNS_5 COMPACT_RUNS_5 COMPACT_RUNS_5
	 " 00",
	 {5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, -1}},
	{{.agent = "a"}, 0xffffffff, STRICT_HEAD "7fffffff 0a 0000 0000000000000001 00", {1, -1}},
	{{.agent = "a", .protocol = LOAD_WIRE_COMPACT},
	 0x7fffffff,
	 "8241 ffffffff07 06 6765745f6964 060002 00",
	 {1, -1}},
	{{.call = LOAD_WIRE_GET_TIMESTAMP},
	 1,
	 "80010002 0000000d 6765745f74696d657374616d70 40000001 0a 0000 0000000000000005 00",
	 {5, -1}},
	{{.call = LOAD_WIRE_GET_DATACENTER_ID},
	 1,
	 "80010002 00000011 6765745f6461746163656e7465725f6964 40000001 0a 0000 0000000000000000 "
	 "00",
	 {0, -1}},
	{{.call = LOAD_WIRE_GET_WORKER_ID, .protocol = LOAD_WIRE_COMPACT},
	 0,
	 "8241 8080808004 0d 6765745f776f726b65725f6964 0600 00 00",
	 {0, -1}},
};

/* (transfer full): as it comes over the wire */
static GByteArray *reply_of(const LoadWireForm *form, const char *hex)
{
	g_autoptr(GByteArray) message = hex_bytes(hex);
	GByteArray *out = g_byte_array_new();
	guint32 length = GUINT32_TO_BE(message->len);

	if (form->framing == LOAD_WIRE_FRAMED)
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
 * change in the sequence number makes it the reply to another call.
 * @before: number of bytes in the frame before the message */
static void assert_compared_whole(const LoadWire *wire, GByteArray *reply, guint32 call,
				  gsize before)
{
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

/* Each good reply is parsed both framed and unframed. */
TEST("/load-wire/good", good_replies_are_read)
{
	for (gsize i = 0; i < 2 * G_N_ELEMENTS(goods); i++) {
		const Good *good = &goods[i / 2];
		gboolean is_framed = i % 2 == 0;
		LoadWireForm form = good->form;
		LoadWireReply parsed;

		form.framing = is_framed ? LOAD_WIRE_FRAMED : LOAD_WIRE_UNFRAMED;
		g_test_message("%s %s", load_wire_framing_names[form.framing], good->hex);

		g_autoptr(LoadWire) wire = load_wire_new(&form, 8);
		g_autoptr(GByteArray) reply = reply_of(&form, good->hex);

		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, good->call, &parsed),
				==, LOAD_WIRE_VALUES);
		g_assert_cmpuint(parsed.length, ==, reply->len);
		for (gsize k = 0; good->values[k] >= 0; k++)
			g_assert_cmpint(load_wire_next_value(wire, &parsed), ==, good->values[k]);
		assert_incomplete_if_cut(wire, reply, good->call);
		assert_compared_whole(wire, reply, good->call, is_framed ? 4 : 0);
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
		/* another call; one whose name begins alike, and one that begins like it */
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
		/* a message that takes the last byte of the frame with it, and one that is longer
		 */
		{"0000001d 80010003 00000006 6765745f6964 40000007 0b 0001 00000004 6f6f70 00",
		 LOAD_WIRE_ERROR, "*33 bytes*"},
		{"0000001d 80010003 00000006 6765745f6964 40000007 0b 0001 ffffffff 6f6f70 00",
		 LOAD_WIRE_ERROR, "*33 bytes*"},
		/* no header: nothing at all, a name that is longer than the frame, a sequence
		 * number that is cut off; neither a reply nor an exception; no version */
		{"00000000", LOAD_WIRE_BROKEN, NULL},
		{"0000001e 80010003 000000ff 6765745f6964 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_BROKEN, NULL},
		{"00000011" STRICT_HEAD "400000", LOAD_WIRE_BROKEN, NULL},
		{"0000001e 80010004 00000006 6765745f6964 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_BROKEN, NULL},
		{"0000001b 00000006 6765745f6964 02 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_BROKEN, NULL},
		/* lengths: the largest that an exception may have, and one more */
		{"00000ffc", LOAD_WIRE_INCOMPLETE, NULL},
		{"00000ffd", LOAD_WIRE_BROKEN, NULL},
		{"ffffffff", LOAD_WIRE_BROKEN, NULL},
		{"48545450", LOAD_WIRE_BROKEN, NULL},
	};

	check_bad(&get_id, cases, G_N_ELEMENTS(cases));
}

TEST("/load-wire/bad-unframed", bad_unframed_replies_are_reported)
{
	static const LoadWireForm form = {.agent = "foo", .framing = LOAD_WIRE_UNFRAMED};
	static const Bad cases[] = {
		/* of another call; which is told before all of it is there */
		{STRICT_HEAD "40000006 0a 0000 0000000000000001 00", LOAD_WIRE_FOREIGN, NULL},
		{"80010002 00000006 6765745f6965 40000007 0a 0000 0000000000000001 00",
		 LOAD_WIRE_FOREIGN, NULL},
		{STRICT_HEAD "40000006", LOAD_WIRE_FOREIGN, NULL},
		{STRICT_HEAD "400000", LOAD_WIRE_INCOMPLETE, NULL},
		{"80010003 00000006 6765745f6964 40000008 0b 0001 00000003 6f6f70"
		 "08 0002 00000006 00",
		 LOAD_WIRE_FOREIGN, NULL},
		/* no result */
		{STRICT_HEAD "40000007 00", LOAD_WIRE_ERROR, "*19 bytes*"},
		{"80010003 00000006 6765745f6964 40000007 0b 0001 00000003 6f6f70"
		 "08 0002 00000006 00",
		 LOAD_WIRE_ERROR, "an exception: oop"},
		{STRICT_HEAD
		 "40000007 0c 0001 0a 0002 0000000000000001 0b 0001 00000003 6f6f70 00 00",
		 LOAD_WIRE_ERROR, "an exception: oop"},
		/* a map */
		{STRICT_HEAD "40000007 0d 0001 0b 0b 00000000 00", LOAD_WIRE_ERROR, "*28 bytes*"},
		/* longer than any, deeper than any, a call, and no Thrift */
		{STRICT_HEAD "40000007 0b 0001 7fffffff 00", LOAD_WIRE_BROKEN, NULL},
		{STRICT_HEAD "40000007 0c 0001 0c 0001 0c 0001 00 00 00 00", LOAD_WIRE_BROKEN,
		 NULL},
		{"80010001 00000006 6765745f6964 40000007 00", LOAD_WIRE_BROKEN, NULL},
		{"48545450 2f312e31", LOAD_WIRE_BROKEN, NULL},
	};

	check_bad(&form, cases, G_N_ELEMENTS(cases));
}

/* Without a frame, so that their end is to be found; however many they are. */
TEST("/load-wire/lists-of-another-length", lists_of_another_length_are_errors)
{
	static const LoadWireForm form = {
		.call = LOAD_WIRE_GET_IDS, .framing = LOAD_WIRE_UNFRAMED, .agent = "a", .count = 2};
	static const guint32 counts[] = {0, 1, 3, 400};
	g_autoptr(LoadWire) wire = load_wire_new(&form, 8);

	for (gsize i = 0; i < G_N_ELEMENTS(counts); i++) {
		g_autoptr(GByteArray) reply = hex_bytes(LISTS_HEAD "40000007 0f 0000 0a");
		LoadWireReply parsed;

		byte_writer_be32(reply, counts[i]);
		for (guint32 value = 1; value <= counts[i]; value++)
			byte_writer_be64(reply, value);
		byte_writer_u8(reply, BINARY_STOP);
		g_assert_cmpint(load_wire_parse(wire, reply->data, reply->len, 7, &parsed), ==,
				LOAD_WIRE_ERROR);
		g_assert_cmpuint(parsed.length, ==, reply->len);
	}
}

TEST("/load-wire/bad-compact", bad_compact_replies_are_reported)
{
	static const LoadWireForm form = {
		.agent = "foo", .framing = LOAD_WIRE_UNFRAMED, .protocol = LOAD_WIRE_COMPACT};
	static const Bad cases[] = {
		{"8261 8780808004 06 6765745f6964 18 03 6f6f70 15 0c 00", LOAD_WIRE_ERROR,
		 "an exception: oop"},
		/* declared, and with a field ID written out */
		{"8241 8780808004 06 6765745f6964 1c 18 03 6f6f70 16 02 00 00", LOAD_WIRE_ERROR,
		 "an exception: oop"},
		{"8241 8780808004 06 6765745f6964 0c 02 08 02 03 6f6f70 00 00", LOAD_WIRE_ERROR,
		 "an exception: oop"},
		/* of another call */
		{"8241 8680808004 06 6765745f6964 0600 02 00", LOAD_WIRE_FOREIGN, NULL},
		{"8241 07 06 6765745f6964 0600 02 00", LOAD_WIRE_FOREIGN, NULL},
		{"8241 8780808004 06 6765745f6965 0600 02 00", LOAD_WIRE_FOREIGN, NULL},
		{"8261 8680808004 06 6765745f6964 18 03 6f6f70 15 0c 00", LOAD_WIRE_FOREIGN, NULL},
		/* no result */
		{"8241 8780808004 06 6765745f6964 00", LOAD_WIRE_ERROR, "*15 bytes*"},
		/* a sequence number of more than 32 bits, a varint without an end, a call */
		{"8241 8780808014 06 6765745f6964 0600 02 00", LOAD_WIRE_BROKEN, NULL},
		{"8241 8780808004 06 6765745f6964 0600 ffffffffffffffffffff 00", LOAD_WIRE_BROKEN,
		 NULL},
		{"8221 8780808004 06 6765745f6964 00", LOAD_WIRE_BROKEN, NULL},
	};

	check_bad(&form, cases, G_N_ELEMENTS(cases));
}

/* Wrong replies to get_id_runs that are well-formed Thrift. They have no frame, so the parser must
 * find their end. */
TEST("/load-wire/bad-runs", bad_runs_are_errors)
{
	static const struct {
		const char *binary;
		const char *compact;
	} lists[] = {
		{"00000000", "0c"},
		{"00000001 0a 0001 0000000000000005 08 0002 00000002 00", "1c 16 0a 15 04 00"},
		{"00000001 0a 0001 0000000000000005 08 0002 00000004 00", "1c 16 0a 15 08 00"},
		{"00000002 " RUN_OF_3 RUN_OF_3, "2c 16 0a 15 06 00 16 0a 15 06 00"},
		{"00000002 " RUN_OF_3 "0a 0001 0000000000000009 08 0002 00000000 00",
		 "2c 16 0a 15 06 00 16 12 15 00 00"},
		{"00000002 0a 0001 0000000000000005 08 0002 00000004 00"
		 "0a 0001 0000000000000009 08 0002 ffffffff 00",
		 "2c 16 0a 15 08 00 16 12 15 01 00"},
		{"00000001 0a 0001 0000000000000005 0a 0002 0000000000000003 00",
		 "1c 16 0a 16 06 00"},
		{"00000001 0a 0001 0000000000000005 08 0003 00000003 00", "1c 16 0a 25 06 00"},
		{"00000001 0a 0001 0000000000000005 00", "1c 16 0a 00"},
		{"00000001 08 0001 00000005 08 0002 00000003 00", "1c 15 0a 15 06 00"},
	};

	for (gsize i = 0; i < 2 * G_N_ELEMENTS(lists); i++) {
		gboolean compact = i % 2 == 1;
		const LoadWireForm form = {
			.call = LOAD_WIRE_GET_ID_RUNS,
			.framing = LOAD_WIRE_UNFRAMED,
			.agent = "a",
			.count = 3,
			.protocol = compact ? LOAD_WIRE_COMPACT : LOAD_WIRE_STRICT,
		};
		g_autoptr(LoadWire) wire = load_wire_new(&form, 8);
		g_autofree char *hex =
			compact ? g_strdup_printf("8241 8780808004 0b " RUNS_NAME " 0900 %s 00",
						  lists[i / 2].compact)
				: g_strdup_printf("80010002 0000000b " RUNS_NAME
						  " 40000007 0f 0000 0c %s 00",
						  lists[i / 2].binary);
		g_autoptr(GByteArray) reply = hex_bytes(hex);
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
