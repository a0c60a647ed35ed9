/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client/call.h"
#include "tests/fuzz/replies.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/unit-test.h"

#define SEQID        77
#define N_IDS        3
#define FRAME_HEADER 4 /* bytes of the length */

static const ClientCall calls[] = {
	{"get_id", CLIENT_RESULT_ID, "agent", 0},
	{"get_timestamp", CLIENT_RESULT_NUMBER, NULL, 0},
	{"get_ids", CLIENT_RESULT_IDS, "agent", N_IDS},
	{"get_worker", CLIENT_RESULT_WORKER, NULL, 0},
	{"get_workers", CLIENT_RESULT_WORKERS, NULL, 0},
	{"get_uuids", CLIENT_RESULT_UUIDS, "agent", N_IDS},
	{"get_counters", CLIENT_RESULT_COUNTERS, NULL, 0},
	{"get_id_runs", CLIENT_RESULT_RUNS, "agent", N_IDS},
};

static FakeRequest request_of(gsize call)
{
	return (FakeRequest){(char *)calls[call].method, SEQID, NULL, calls[call].count};
}

static const SnowflakeClientIdRun RUNS[] = {{100, N_IDS - 1}, {4200, 1}};
static const guint UUID_LENGTHS[N_IDS] = {16, 16, 16};

/* Returns a correct reply to calls[i]. */
static GByteArray *good_reply(gsize i)
{
	const FakeRequest request = request_of(i);
	GByteArray *bytes = g_byte_array_new();

	switch (calls[i].result) {
	case CLIENT_RESULT_ID:
	case CLIENT_RESULT_NUMBER:
		fake_reply_i64(bytes, &request, 42);
		break;
	case CLIENT_RESULT_IDS:
		fake_reply_ids(bytes, &request, 100, N_IDS);
		break;
	case CLIENT_RESULT_RUNS:
		fake_reply_runs(bytes, &request, RUNS, G_N_ELEMENTS(RUNS));
		break;
	case CLIENT_RESULT_WORKER:
		fake_reply_worker(bytes, &request, "serving");
		break;
	case CLIENT_RESULT_WORKERS:
		fake_reply_workers(bytes, &request, 2);
		break;
	case CLIENT_RESULT_UUIDS:
		fake_reply_uuids(bytes, &request, UUID_LENGTHS, N_IDS);
		break;
	case CLIENT_RESULT_COUNTERS:
		fake_reply_counters(bytes, &request, 3);
		break;
	}
	return bytes;
}

/* Reads @frame without its header from a block with exactly its size, so that a sanitizer detects
 * reads past the end. */
static gboolean read_exact_block(gsize call, const GByteArray *frame, GError **error)
{
	gsize length = frame->len - FRAME_HEADER;
	g_autofree guint8 *tight = g_memdup2(frame->data + FRAME_HEADER, length);
	ClientReply reply = replies_new(&calls[call]);
	gboolean read = client_call_read(&calls[call], SEQID, tight, length, &reply, error);

	if (read)
		replies_check(&calls[call], &reply);
	replies_clear(&reply);
	return read;
}

static void assert_refused(gsize call, const GByteArray *frame)
{
	g_autoptr(GError) error = NULL;

	g_assert_false(read_exact_block(call, frame, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
}

TEST("/client-call/writes-requests", writes_requests)
{
	static const struct {
		ClientCall call;
		const char *bytes;
		gsize length;
	} cases[] = {
		{{"get_id", CLIENT_RESULT_ID, "ab", 0},
		 "\x80\x01\x00\x01\0\0\0\x06get_id\0\0\0\x4d\x0b\0\x01\0\0\0\x02"
		 "ab\0",
		 28},
		{{"get_ids", CLIENT_RESULT_IDS, "ab", 258},
		 "\x80\x01\x00\x01\0\0\0\x07get_ids\0\0\0\x4d\x0b\0\x01\0\0\0\x02"
		 "ab\x08\0\x02\0\0\x01\x02\0",
		 36},
		{{"get_worker", CLIENT_RESULT_WORKER, NULL, 0},
		 "\x80\x01\x00\x01\0\0\0\x0aget_worker\0\0\0\x4d\0",
		 23},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GByteArray) bytes = g_byte_array_new();

		client_call_write(&cases[i].call, SEQID, bytes);
		g_assert_cmpmem(bytes->data, bytes->len, cases[i].bytes, cases[i].length);
	}
}

TEST("/client-call/reads-good-replies", reads_good_replies)
{
	for (gsize i = 0; i < G_N_ELEMENTS(calls); i++) {
		g_autoptr(GByteArray) bytes = good_reply(i);
		g_autoptr(GError) error = NULL;

		g_assert_true(read_exact_block(i, bytes, &error));
		g_assert_no_error(error);
	}
}

TEST("/client-call/refuses-what-is-cut-off-or-too-long", refuses_what_is_cut_off_or_too_long)
{
	for (gsize i = 0; i < G_N_ELEMENTS(calls); i++) {
		g_autoptr(GByteArray) bytes = good_reply(i);

		g_byte_array_append(bytes, (const guint8 *)"", 1);
		assert_refused(i, bytes);
		g_byte_array_set_size(bytes, bytes->len - 1);
		while (bytes->len > FRAME_HEADER) {
			g_byte_array_set_size(bytes, bytes->len - 1);
			assert_refused(i, bytes);
		}
	}
}

TEST("/client-call/refuses-answers-to-other-calls", refuses_answers_to_other_calls)
{
	static const struct {
		const char *method;
		gint32 seqid;
		guint8 type;
	} others[] = {
		{"get_id", SEQID - 1, MESSAGE_REPLY},
		{"get_id", SEQID + 1, MESSAGE_REPLY},
		{"get_id", -SEQID, MESSAGE_REPLY},
		{"get_id", SEQID << 8, MESSAGE_REPLY},
		{"get_ie", SEQID, MESSAGE_REPLY},
		{"get_ids", SEQID, MESSAGE_REPLY},
		{"get_i", SEQID, MESSAGE_REPLY},
		{"", SEQID, MESSAGE_REPLY},
		{"get_id", SEQID + 1, MESSAGE_EXCEPTION},
		{"get_ids", SEQID, MESSAGE_EXCEPTION},
		{"get_timestamp", SEQID, MESSAGE_EXCEPTION},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(others); i++) {
		const FakeRequest request = {(char *)others[i].method, others[i].seqid, NULL, 0};
		g_autoptr(GByteArray) bytes = g_byte_array_new();
		g_autoptr(GError) error = NULL;

		if (others[i].type == MESSAGE_REPLY)
			fake_reply_i64(bytes, &request, 42);
		else
			fake_reply_exception(bytes, &request, 6, "InvalidSystemClock");
		g_test_message("%s, %d", others[i].method, others[i].seqid);
		g_assert_false(read_exact_block(0, bytes, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
		g_assert_true(g_str_has_suffix(error->message, "the reply to another call"));
	}
}

/* Returns a reply to get_id with @body. */
static GByteArray *reply_with_body(guint8 type, const void *body, gsize length)
{
	GByteArray *bytes = g_byte_array_new();

	fake_begin(bytes, type, "get_id", SEQID);
	g_byte_array_append(bytes, body, (guint)length);
	return bytes;
}

#define BODY(text) text, sizeof(text) - 1

TEST("/client-call/refuses-messages-that-are-no-result", refuses_messages_that_are_no_result)
{
	static const char unversioned[] = "\0\0\0\x10\0\0\0\x06get_id\x02\0\0\0\x4d";
	static const struct {
		const char *what;
		guint8 type;
		const char *body;
		gsize length;
	} cases[] = {
		{"a call", MESSAGE_CALL, BODY("\0")},
		{"no result", MESSAGE_REPLY, BODY("\0")},
		{"an i32", MESSAGE_REPLY, BODY("\x08\0\0\0\0\0\x2a\0")},
		{"the ID 0", MESSAGE_REPLY, BODY("\x0a\0\0\0\0\0\0\0\0\0\0\0")},
		{"the ID -1", MESSAGE_REPLY, BODY("\x0a\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0")},
		{"an endless list", MESSAGE_REPLY, BODY("\x0f\0\x09\x02\xff\xff\xff\xff")},
		{"a list of nothing", MESSAGE_REPLY, BODY("\x0f\0\x09\0\xff\xff\xff\xff\0")},
	};
	g_autoptr(GByteArray) old = g_byte_array_new();

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GByteArray) bytes =
			reply_with_body(cases[i].type, cases[i].body, cases[i].length);

		g_test_message("%s", cases[i].what);
		assert_refused(0, bytes);
	}
	g_byte_array_append(old, (const guint8 *)unversioned, sizeof(unversioned));
	assert_refused(0, old);
}

/* An exception counts only if its message is complete and begins with a known name. */
TEST("/client-call/refuses-exceptions-that-are-unknown-or-cut-off",
     refuses_exceptions_that_are_unknown_or_cut_off)
{
	const FakeRequest request = request_of(0);
	g_autoptr(GByteArray) unknown = g_byte_array_new();
	g_autoptr(GByteArray) known = g_byte_array_new();

	fake_reply_exception(unknown, &request, 6, "InvalidSystemClockwork");
	assert_refused(0, unknown);
	fake_reply_exception(known, &request, 6, "InvalidSystemClock: x");
	while (known->len > FRAME_HEADER) {
		g_byte_array_set_size(known, known->len - 1);
		assert_refused(0, known);
	}
}

TEST("/client-call/refuses-lists-of-wrong-ids", refuses_lists_of_wrong_ids)
{
	static const struct {
		gint64 first;
		guint count;
	} cases[] = {{1, N_IDS - 1}, {1, N_IDS + 1}, {0, N_IDS}, {-7, N_IDS}, {1, 0}};
	const FakeRequest request = request_of(2);
	g_autoptr(GByteArray) backwards = good_reply(2);

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GByteArray) bytes = g_byte_array_new();

		g_test_message("%u from %" G_GINT64_FORMAT, cases[i].count, cases[i].first);
		fake_reply_ids(bytes, &request, cases[i].first, cases[i].count);
		assert_refused(2, bytes);
	}
	backwards->data[backwards->len - 2] = 1; /* the last byte of the last ID */
	assert_refused(2, backwards);
}

/* The details of an error are ignored if any part of the reply is wrong. */
TEST("/client-call/ignores-details-of-damaged-refusals", ignores_details_of_damaged_refusals)
{
	static const struct {
		gsize call;
		gint16 field;
		gint64 retry_after_ms;
		gboolean count_refused;
	} cases[] = {{2, 4, 0, TRUE}, {2, 3, 250, FALSE}, {4, 1, 250, FALSE},
		     {5, 4, 0, TRUE}, {5, 3, 250, FALSE}, {5, 5, 0, FALSE},
		     {7, 4, 0, TRUE}, {7, 3, 250, FALSE}};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		const ClientCall *call = &calls[cases[i].call];
		const FakeRequest request = request_of(cases[i].call);
		g_autoptr(GByteArray) bytes = g_byte_array_new();

		fake_reply_declared(bytes, &request, cases[i].field, "why",
				    cases[i].retry_after_ms);
		g_byte_array_append(bytes, (const guint8 *)"", 1);
		for (gsize length = 4; length <= bytes->len; length++) {
			gboolean whole = length == bytes->len - 1;
			ClientReply reply = {0};

			g_assert_false(client_call_read(call, SEQID, bytes->data + 4, length - 4,
							&reply, NULL));
			g_assert_cmpint(reply.retry_after_ms, ==,
					whole ? cases[i].retry_after_ms : 0);
			g_assert_cmpint(reply.count_refused, ==, whole && cases[i].count_refused);
		}
	}
}

/* Returns a correct reply to get_id with an unknown field before the result: @depth nested structs.
 */
static GByteArray *nested_reply(guint depth)
{
	GByteArray *bytes = g_byte_array_new();

	fake_begin(bytes, MESSAGE_REPLY, "get_id", SEQID);
	for (guint i = 0; i < depth; i++)
		byte_writer_field(bytes, BINARY_STRUCT, 9);
	for (guint i = 0; i < depth; i++)
		byte_writer_u8(bytes, BINARY_STOP);
	byte_writer_field(bytes, BINARY_I64, 0);
	byte_writer_be64(bytes, 42);
	byte_writer_u8(bytes, BINARY_STOP);
	return bytes;
}

TEST("/client-call/skips-unknown-fields-to-a-depth", skips_unknown_fields_to_a_depth)
{
	g_autoptr(GByteArray) deepest = nested_reply(16);
	g_autoptr(GByteArray) too_deep = nested_reply(17);

	g_assert_true(read_exact_block(0, deepest, NULL));
	assert_refused(0, too_deep);
}

/* Returns a list of workers without any field: a byte each. */
static GByteArray *empty_workers(guint count)
{
	GByteArray *bytes = g_byte_array_new();

	fake_begin(bytes, MESSAGE_REPLY, "get_workers", SEQID);
	byte_writer_field(bytes, BINARY_LIST, 0);
	byte_writer_u8(bytes, BINARY_STRUCT);
	byte_writer_be32(bytes, count);
	for (guint i = 0; i <= count; i++)
		byte_writer_u8(bytes, BINARY_STOP);
	return bytes;
}

TEST("/client-call/refuses-lists-that-are-too-long", refuses_lists_that_are_too_long)
{
	const FakeRequest request = request_of(6);

	for (guint over = 0; over < 2; over++) {
		g_autoptr(GByteArray) workers = empty_workers(CLIENT_CALL_MAX_WORKERS + over);
		g_autoptr(GByteArray) counters = g_byte_array_new();

		fake_reply_counters(counters, &request, CLIENT_CALL_MAX_COUNTERS + over);
		g_assert_cmpint(read_exact_block(4, workers, NULL), ==, over == 0);
		g_assert_cmpint(read_exact_block(6, counters, NULL), ==, over == 0);
	}
}

TEST("/client-call/refuses-maps-of-something-else", refuses_maps_of_something_else)
{
	/* the types of keys and values follow the header of the field */
	const gsize types = FRAME_HEADER + 4 + 4 + strlen(calls[6].method) + 4 + 3;

	for (gsize i = 0; i < 2; i++) {
		g_autoptr(GByteArray) bytes = good_reply(6);

		bytes->data[types + i] = BINARY_DOUBLE;
		assert_refused(6, bytes);
	}
}

TEST("/client-call/refuses-uuids-that-are-none", refuses_uuids_that_are_none)
{
	static const struct {
		guint lengths[N_IDS + 1];
		guint count;
		gboolean equal; /* the second counter has the name of the first */
	} cases[] = {
		{{16, 16, 15}, N_IDS, FALSE},         {{16, 17, 16}, N_IDS, FALSE},
		{{0, 16, 16}, N_IDS, FALSE},          {{16, 16, 36}, N_IDS, FALSE},
		{{16, 16}, N_IDS - 1, FALSE},         {{0}, 0, FALSE},
		{{16, 16, 16, 16}, N_IDS + 1, FALSE}, {{16, 16, 16}, N_IDS, TRUE},
	};
	const FakeRequest request = request_of(5);

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GByteArray) bytes = g_byte_array_new();

		fake_reply_uuids(bytes, &request, cases[i].lengths, cases[i].count);
		if (cases[i].equal) /* before the third and the end of the struct */
			bytes->data[bytes->len - 1 - 16 - 4 - 16] = 0;
		g_test_message("case %zu", i);
		assert_refused(5, bytes);
	}
}

TEST("/client-call/refuses-runs-that-are-none", refuses_runs_that_are_none)
{
	static const struct {
		const char *what;
		SnowflakeClientIdRun runs[N_IDS + 1];
		guint n_runs;
		gboolean is_good;
	} cases[] = {
		{"one", {{1, N_IDS}}, 1, TRUE},
		{"a run for each", {{1, 1}, {2, 1}, {3, 1}}, 3, TRUE},
		{"the highest", {{G_MAXINT64 - 2, N_IDS}}, 1, TRUE},
		{"past the highest", {{G_MAXINT64 - 1, N_IDS}}, 1, FALSE},
		{"none", {{0}}, 0, FALSE},
		{"too few", {{1, 2}}, 1, FALSE},
		{"too many", {{1, N_IDS + 1}}, 1, FALSE},
		{"too many together", {{1, 2}, {7, 2}}, 2, FALSE},
		{"one too many", {{1, 3}, {7, 1}}, 2, FALSE},
		{"one is empty", {{1, 3}, {7, 0}}, 2, FALSE},
		{"the first is empty", {{1, 0}, {7, 3}}, 2, FALSE},
		{"less than nothing", {{1, N_IDS + 1}, {7, (guint)-1}}, 2, FALSE},
		{"most of a guint", {{1, (guint)-1}, {7, N_IDS + 1}}, 2, FALSE},
		{"once around 32 bits",
		 {{1, G_MAXINT32},
		  {G_GINT64_CONSTANT(1) << 33, G_MAXINT32},
		  {G_GINT64_CONSTANT(1) << 34, N_IDS + 2}},
		 3,
		 FALSE},
		{"0", {{0, N_IDS}}, 1, FALSE},
		{"below 0", {{-7, N_IDS}}, 1, FALSE},
		{"the lowest", {{G_MININT64, N_IDS}}, 1, FALSE},
		{"twice", {{7, 2}, {7, 1}}, 2, FALSE},
		{"one in both", {{7, 2}, {8, 1}}, 2, FALSE},
		{"back", {{7, 2}, {3, 1}}, 2, FALSE},
	};
	const FakeRequest request = request_of(7);

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GByteArray) bytes = g_byte_array_new();
		g_autoptr(GError) error = NULL;

		fake_reply_runs(bytes, &request, cases[i].runs, cases[i].n_runs);
		g_test_message("%s", cases[i].what);
		g_assert_true(read_exact_block(7, bytes, &error) == cases[i].is_good);
		if (!cases[i].is_good)
			g_assert_error(error, SNOWFLAKE_CLIENT_ERROR,
				       SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
	}
}

/* A run with a field of a later contract, without any known field, or with a field of another type.
 */
TEST("/client-call/reads-the-fields-of-a-run", reads_the_fields_of_a_run)
{
	static const struct {
		guint8 type; /* type of field 2; BINARY_STOP: no field 2 */
		gboolean with_unknown;
		gboolean is_good;
	} cases[] = {
		{BINARY_I32, FALSE, TRUE},
		{BINARY_I32, TRUE, TRUE},
		{BINARY_I64, FALSE, FALSE},
		{BINARY_STOP, FALSE, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GByteArray) bytes = g_byte_array_new();

		fake_begin(bytes, MESSAGE_REPLY, calls[7].method, SEQID);
		byte_writer_field(bytes, BINARY_LIST, 0);
		byte_writer_u8(bytes, BINARY_STRUCT);
		byte_writer_be32(bytes, 1);
		byte_writer_field(bytes, BINARY_I64, 1);
		byte_writer_be64(bytes, 42);
		if (cases[i].with_unknown) {
			byte_writer_field(bytes, BINARY_STRING, 3);
			byte_writer_text(bytes, "of a later contract");
		}
		if (cases[i].type != BINARY_STOP)
			byte_writer_field(bytes, cases[i].type, 2);
		if (cases[i].type == BINARY_I64)
			byte_writer_be64(bytes, N_IDS);
		else if (cases[i].type == BINARY_I32)
			byte_writer_be32(bytes, N_IDS);
		byte_writer_u8(bytes, BINARY_STOP);
		byte_writer_u8(bytes, BINARY_STOP);
		g_test_message("case %zu", i);
		g_assert_cmpint(read_exact_block(7, bytes, NULL), ==, cases[i].is_good);
	}
}

/* With a layout without a sequence, each ID is a run. */
TEST("/client-call/allows-a-reply-of-as-many-runs-as-ids", allows_a_reply_of_as_many_runs_as_ids)
{
	const ClientCall call = {"get_id_runs", CLIENT_RESULT_RUNS, "agent",
				 CLIENT_CALL_MAX_RUN_IDS};
	const FakeRequest request = {(char *)call.method, SEQID, NULL, 0};
	g_autofree SnowflakeClientIdRun *runs = g_new(SnowflakeClientIdRun, call.count);
	g_autoptr(GArray) got = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	ClientReply reply = {.runs = got};

	for (guint i = 0; i < call.count; i++)
		runs[i] = (SnowflakeClientIdRun){1 + (gint64)i * 1024, 1};
	fake_reply_runs(bytes, &request, runs, call.count);
	g_assert_cmpuint(bytes->len - 4, <=, client_call_max_reply_bytes(&call));
	g_assert_true(
		client_call_read(&call, SEQID, bytes->data + 4, bytes->len - 4, &reply, NULL));
	g_assert_cmpuint(got->len, ==, call.count);
}

TEST("/call/patience", patience)
{
	static const struct {
		gint64 wanted_ms, round_trip_us, left_ms, patience_ms;
	} cases[] = {
		{0, 0, 3000, 250},      {0, 1000, 3000, 58},
		{0, 25000, 3000, 250},  {0, 24000, 3000, 242},
		{0, 0, 300, 150},       {0, 0, 9, 5},
		{0, 0, -1, 5},          {700, 0, 3000, 700},
		{700, 1000, 1000, 500}, {G_MAXINT32, 0, 100, 50},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		g_assert_cmpint(client_call_patience_us(cases[i].wanted_ms * 1000,
							cases[i].round_trip_us,
							cases[i].left_ms * 1000),
				==, cases[i].patience_ms * 1000);
}

TEST("/call/pauses", pauses)
{
	static const gint64 pauses_ms[] = {10, 20, 40, 80, 160, 250, 250};
	gint64 pause_us = 0;

	for (gsize i = 0; i < G_N_ELEMENTS(pauses_ms); i++) {
		pause_us = client_call_pause_us(pause_us);
		g_assert_cmpint(pause_us, ==, pauses_ms[i] * 1000);
	}
}
