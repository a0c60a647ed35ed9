/* SPDX-License-Identifier: Apache-2.0 */

/* Servers that are not what they should be: every one costs an error of the right kind, in bounded
 * time, and no ID. */

#include <string.h>

#include "client/call.h"
#include "client/snowflake-client.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/patience.h"

#define SHORT_MS 200 /* for those that are to time out */

static FakeNext raw(GByteArray *out, const char *bytes, gsize length, FakeNext next)
{
	g_byte_array_append(out, (const guint8 *)bytes, length);
	return next;
}

static FakeNext http(G_GNUC_UNUSED const FakeRequest *request, GByteArray *out,
		     G_GNUC_UNUSED gpointer data)
{
	static const char text[] = "HTTP/1.1 400 Bad Request\r\n\r\n";

	return raw(out, text, strlen(text), FAKE_KEEP);
}

static FakeNext empty_frame(G_GNUC_UNUSED const FakeRequest *request, GByteArray *out,
			    G_GNUC_UNUSED gpointer data)
{
	return raw(out, "\0\0\0\0", 4, FAKE_KEEP);
}

static FakeNext oversize_frame(G_GNUC_UNUSED const FakeRequest *request, GByteArray *out,
			       G_GNUC_UNUSED gpointer data)
{
	byte_writer_be32(out, 65536 + 1);
	return FAKE_KEEP;
}

static FakeNext huge_frame(G_GNUC_UNUSED const FakeRequest *request, GByteArray *out,
			   G_GNUC_UNUSED gpointer data)
{
	return raw(out, "\xff\xff\xff\xff", 4, FAKE_KEEP);
}

static FakeNext close_at_once(G_GNUC_UNUSED const FakeRequest *request,
			      G_GNUC_UNUSED GByteArray *out, G_GNUC_UNUSED gpointer data)
{
	return FAKE_CLOSE;
}

static FakeNext say_nothing(G_GNUC_UNUSED const FakeRequest *request, G_GNUC_UNUSED GByteArray *out,
			    G_GNUC_UNUSED gpointer data)
{
	return FAKE_KEEP;
}

static FakeNext half_a_frame(const FakeRequest *request, GByteArray *out,
			     G_GNUC_UNUSED gpointer data)
{
	fake_reply_i64(out, request, 42);
	g_byte_array_set_size(out, out->len / 2);
	return FAKE_KEEP;
}

static FakeNext half_a_frame_and_close(const FakeRequest *request, GByteArray *out, gpointer data)
{
	half_a_frame(request, out, data);
	return FAKE_CLOSE;
}

/* In all, longer than the timeout; no single pause is. */
static FakeNext drip(const FakeRequest *request, GByteArray *out, G_GNUC_UNUSED gpointer data)
{
	fake_reply_i64(out, request, 42);
	return FAKE_DRIP;
}

static FakeNext wrong_seqid(const FakeRequest *request, GByteArray *out,
			    G_GNUC_UNUSED gpointer data)
{
	FakeRequest other = *request;

	other.seqid++;
	fake_reply_i64(out, &other, 42);
	return FAKE_KEEP;
}

static FakeNext seqid_of_the_call_before(const FakeRequest *request, GByteArray *out,
					 G_GNUC_UNUSED gpointer data)
{
	FakeRequest other = *request;

	other.seqid--;
	fake_reply_i64(out, &other, 42);
	return FAKE_KEEP;
}

/* One that counts its calls from 0. */
static FakeNext seqid_of_another_client(const FakeRequest *request, GByteArray *out,
					G_GNUC_UNUSED gpointer data)
{
	FakeRequest other = *request;

	other.seqid = 0;
	fake_reply_i64(out, &other, 42);
	return FAKE_KEEP;
}

static FakeNext exception_for_another_call(const FakeRequest *request, GByteArray *out,
					   G_GNUC_UNUSED gpointer data)
{
	FakeRequest other = *request;

	other.seqid++;
	fake_reply_exception(out, &other, 6, "InvalidSystemClock");
	return FAKE_KEEP;
}

static FakeNext wrong_method(const FakeRequest *request, GByteArray *out,
			     G_GNUC_UNUSED gpointer data)
{
	FakeRequest other = {(char *)"get_worker_id", request->seqid, NULL, 0};

	fake_reply_i64(out, &other, 42);
	return FAKE_KEEP;
}

static FakeNext longer_method(const FakeRequest *request, GByteArray *out,
			      G_GNUC_UNUSED gpointer data)
{
	FakeRequest other = {(char *)"get_idx", request->seqid, NULL, 0};

	fake_reply_i64(out, &other, 42);
	return FAKE_KEEP;
}

static FakeNext echo_of_the_call(const FakeRequest *request, GByteArray *out,
				 G_GNUC_UNUSED gpointer data)
{
	fake_begin(out, MESSAGE_CALL, request->method, request->seqid);
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext unversioned(const FakeRequest *request, GByteArray *out,
			    G_GNUC_UNUSED gpointer data)
{
	byte_writer_be32(out, 0);
	byte_writer_text(out, request->method);
	byte_writer_u8(out, MESSAGE_REPLY);
	byte_writer_be32(out, (guint32)request->seqid);
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext no_result(const FakeRequest *request, GByteArray *out, G_GNUC_UNUSED gpointer data)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext result_of_another_type(const FakeRequest *request, GByteArray *out,
				       G_GNUC_UNUSED gpointer data)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_I32, 0);
	byte_writer_be32(out, 42);
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext id_0(const FakeRequest *request, GByteArray *out, G_GNUC_UNUSED gpointer data)
{
	fake_reply_i64(out, request, 0);
	return FAKE_KEEP;
}

static FakeNext negative_id(const FakeRequest *request, GByteArray *out,
			    G_GNUC_UNUSED gpointer data)
{
	fake_reply_i64(out, request, -1);
	return FAKE_KEEP;
}

static FakeNext endless_nesting(const FakeRequest *request, GByteArray *out,
				G_GNUC_UNUSED gpointer data)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	for (guint i = 0; i < 20000; i++)
		byte_writer_field(out, BINARY_STRUCT, 9);
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext endless_list(const FakeRequest *request, GByteArray *out,
			     G_GNUC_UNUSED gpointer data)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_LIST, 9);
	byte_writer_u8(out, BINARY_BOOL);
	byte_writer_be32(out, G_MAXUINT32);
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext list_of_nothing(const FakeRequest *request, GByteArray *out,
				G_GNUC_UNUSED gpointer data)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_LIST, 9);
	byte_writer_u8(out, BINARY_STOP);
	byte_writer_be32(out, G_MAXUINT32);
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext internal_error(const FakeRequest *request, GByteArray *out,
			       G_GNUC_UNUSED gpointer data)
{
	fake_reply_exception(out, request, 6, "InvalidSystemClockwork");
	return FAKE_KEEP;
}

static FakeNext exception_cut_off(const FakeRequest *request, GByteArray *out,
				  G_GNUC_UNUSED gpointer data)
{
	fake_reply_exception(out, request, 6, "InvalidSystemClock: x");
	g_byte_array_set_size(out, out->len - 6);
	fake_end(out);
	return FAKE_KEEP;
}

typedef struct {
	const char *name;
	FakeAnswer answer;
	SnowflakeClientError code;
} Case;

static const Case cases[] = {
	{"http", http, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"empty-frame", empty_frame, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"oversize-frame", oversize_frame, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"huge-frame", huge_frame, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"close-at-once", close_at_once, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE},
	{"say-nothing", say_nothing, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"half-a-frame", half_a_frame, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"half-a-frame-and-close", half_a_frame_and_close, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE},
	{"drip", drip, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"wrong-seqid", wrong_seqid, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"seqid-of-the-call-before", seqid_of_the_call_before, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"seqid-of-another-client", seqid_of_another_client, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"exception-for-another-call", exception_for_another_call, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"wrong-method", wrong_method, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"longer-method", longer_method, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"echo-of-the-call", echo_of_the_call, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"unversioned", unversioned, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"no-result", no_result, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"result-of-another-type", result_of_another_type, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"id-0", id_0, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"negative-id", negative_id, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"endless-nesting", endless_nesting, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"endless-list", endless_list, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"list-of-nothing", list_of_nothing, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"internal-error", internal_error, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"exception-cut-off", exception_cut_off, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
};

static void costs_an_error(gconstpointer data)
{
	const Case *test = data;
	g_autoptr(FakeServer) server = fake_server_new(test->answer, NULL);
	const char *const servers[] = {fake_server_text(server), NULL};
	g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, NULL);

	gboolean times_out = test->code == SNOWFLAKE_CLIENT_ERROR_TIMEOUT;

	snowflake_client_set_timeout_ms(client, times_out ? SHORT_MS : PATIENCE_MS);
	/* the second call finds out whether the first left something behind */
	for (guint i = 0; i < 2; i++) {
		g_autoptr(GError) error = NULL;
		gint64 id = 4711;
		gint64 start_us = g_get_monotonic_time();

		g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, (gint)test->code);
		g_assert_cmpint(id, ==, 4711);
		g_assert_cmpint(g_get_monotonic_time() - start_us, <, PATIENCE_US);
		g_assert_true(g_str_has_prefix(error->message, fake_server_text(server)));
	}
	if (!times_out)
		g_assert_cmpuint(fake_server_requests(server), ==, 2);
}

static FakeNext ids_that_decrease(const FakeRequest *request, GByteArray *out,
				  G_GNUC_UNUSED gpointer data)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_LIST, 0);
	byte_writer_u8(out, BINARY_I64);
	byte_writer_be32(out, (guint32)request->count);
	for (gint32 i = request->count; i > 0; i--)
		byte_writer_be64(out, (guint64)i);
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext one_id_too_few(const FakeRequest *request, GByteArray *out,
			       G_GNUC_UNUSED gpointer data)
{
	fake_reply_ids(out, request, 1, (guint)request->count - 1);
	return FAKE_KEEP;
}

static FakeNext one_id_too_many(const FakeRequest *request, GByteArray *out,
				G_GNUC_UNUSED gpointer data)
{
	fake_reply_ids(out, request, 1, (guint)request->count + 1);
	return FAKE_KEEP;
}

static FakeNext ids_from_0(const FakeRequest *request, GByteArray *out, G_GNUC_UNUSED gpointer data)
{
	fake_reply_ids(out, request, 0, (guint)request->count);
	return FAKE_KEEP;
}

static FakeNext always_id_7(const FakeRequest *request, GByteArray *out,
			    G_GNUC_UNUSED gpointer data)
{
	if (g_str_equal(request->method, "get_id"))
		fake_reply_i64(out, request, 7);
	else
		fake_reply_exception(out, request, 1, "unknown");
	return FAKE_KEEP;
}

/* Not content with a count either, and says so in a reply that does not parse. */
static FakeNext count_refused_and_more(const FakeRequest *request, GByteArray *out,
				       G_GNUC_UNUSED gpointer data)
{
	fake_reply_declared(out, request, 4, "too many", 0);
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
	return FAKE_KEEP;
}

/* Never content with a count, and forgetful: the connection is closed each time. */
static FakeNext never_content(const FakeRequest *request, GByteArray *out,
			      G_GNUC_UNUSED gpointer data)
{
	fake_reply_declared(out, request, 4, "too many", 0);
	return FAKE_CLOSE;
}

static void costs_an_error_in_get_ids(void)
{
	static const Case batches[] = {
		{"decrease", ids_that_decrease, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
		{"too-few", one_id_too_few, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
		{"too-many", one_id_too_many, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
		{"always-7", always_id_7, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
		{"from-0", ids_from_0, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
		{"no-result", no_result, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
		{"count-refused", count_refused_and_more, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(batches); i++) {
		g_autoptr(FakeServer) server = fake_server_new(batches[i].answer, NULL);
		const char *const servers[] = {fake_server_text(server), NULL};
		g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, NULL);
		g_autoptr(GError) error = NULL;
		gint64 ids[5] = {4711, 4711, 4711, 4711, 4711};

		g_test_message("%s", batches[i].name);
		g_assert_false(snowflake_client_get_ids(client, "agent", 5, ids, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, (gint)batches[i].code);
		for (gsize j = 0; j < G_N_ELEMENTS(ids); j++)
			g_assert_cmpint(ids[j], ==, 4711);
		/* it was not asked for fewer; by get_id, it gives an ID that is out of order */
		g_assert_cmpuint(fake_server_requests(server), ==,
				 batches[i].answer == always_id_7 ? 3 : 1);
	}
}

/* It asks for less and less, and gives up. Whether it hears of the last count or of the end of the
 * connection first is chance. */
static void ends_with_a_server_that_is_never_content(void)
{
	g_autoptr(FakeServer) server = fake_server_new(never_content, NULL);
	const char *const servers[] = {fake_server_text(server), NULL};
	g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, NULL);
	g_autoptr(GError) error = NULL;
	gint64 ids[5];

	g_assert_false(snowflake_client_get_ids(client, "agent", G_N_ELEMENTS(ids), ids, &error));
	g_assert_true(
		g_error_matches(error, SNOWFLAKE_CLIENT_ERROR,
				SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT) ||
		g_error_matches(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE));
	g_assert_cmpuint(fake_server_requests(server), <=, 20);
}

static FakeNext each_answer_twice(const FakeRequest *request, GByteArray *out, gpointer data)
{
	gint64 *last_id = data;

	fake_reply_i64(out, request, ++*last_id);

	g_autofree guint8 *once = g_memdup2(out->data, out->len);

	g_byte_array_append(out, once, out->len);
	return FAKE_KEEP;
}

/* The copy is there before the next call, which is made on a new connection. */
static void an_answer_is_taken_once(void)
{
	gint64 last_id = 0;
	g_autoptr(FakeServer) server = fake_server_new(each_answer_twice, &last_id);
	const char *const servers[] = {fake_server_text(server), NULL};
	g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, NULL);

	for (guint i = 1; i <= 20; i++) {
		gint64 id;

		g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
		g_assert_cmpint(id, ==, i);
		g_assert_cmpuint(fake_server_connections(server), ==, i);
	}
}

/* Answers all calls as it did the first. */
static FakeNext the_first_answer_again(const FakeRequest *request, GByteArray *out, gpointer data)
{
	GByteArray *first = data;

	if (first->len == 0)
		fake_reply_i64(first, request, 42);
	g_byte_array_append(out, first->data, first->len);
	return FAKE_KEEP;
}

static void an_answer_that_comes_again_is_refused(void)
{
	g_autoptr(GByteArray) first = g_byte_array_new();
	g_autoptr(FakeServer) server = fake_server_new(the_first_answer_again, first);
	const char *const servers[] = {fake_server_text(server), NULL};
	g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, NULL);
	gint64 id;

	g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
	for (guint i = 1; i <= 3; i++) {
		g_autoptr(GError) error = NULL;

		g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
		g_assert_true(g_str_has_suffix(error->message, "the answer to another call"));
		g_assert_cmpuint(fake_server_connections(server), ==, i);
	}
}

static FakeNext escape_sequence(const FakeRequest *request, GByteArray *out,
				G_GNUC_UNUSED gpointer data)
{
	fake_reply_exception(out, request, 6, "InvalidSystemClock: \x1b[2J\xff\n");
	return FAKE_KEEP;
}

static void cannot_reach_the_terminal(void)
{
	g_autoptr(FakeServer) server = fake_server_new(escape_sequence, NULL);
	const char *const servers[] = {fake_server_text(server), NULL};
	g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, NULL);
	g_autoptr(GError) error = NULL;
	gint64 id;

	g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_CLOCK);
	g_assert_true(g_str_has_suffix(error->message, ": InvalidSystemClock: ?[2J??"));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *path = g_strconcat("/client-hostile/", cases[i].name, NULL);

		g_test_add_data_func(path, &cases[i], costs_an_error);
	}
	g_test_add_func("/client-hostile/get-ids", costs_an_error_in_get_ids);
	g_test_add_func("/client-hostile/never-content", ends_with_a_server_that_is_never_content);
	g_test_add_func("/client-hostile/answer-twice", an_answer_is_taken_once);
	g_test_add_func("/client-hostile/answer-again", an_answer_that_comes_again_is_refused);
	g_test_add_func("/client-hostile/cannot-reach-the-terminal", cannot_reach_the_terminal);
	return g_test_run();
}
