/* SPDX-License-Identifier: Apache-2.0 */

/* Servers that are not what they should be: every one costs an error of the right kind, in bounded
 * time, and no ID. */

#include <string.h>

#include "client/call.h"
#include "client/snowflake-client.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"

#define SHORT_MS 200 /* for those that are to time out */

typedef struct {
	const char *name;
	const char *bytes; /* NULL: a reply to get_id */
	gsize length;
	gint32 seqid_offset; /* added to the sequence ID of that reply */
	gboolean is_half;
	FakeNext next;
	SnowflakeClientError code;
} Case;

#define BYTES(text) text, sizeof(text) - 1

static const Case cases[] = {
	{"http", BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), 0, FALSE, FAKE_KEEP,
	 SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"empty-frame", BYTES("\0\0\0\0"), 0, FALSE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"oversize-frame", BYTES("\0\1\0\1"), 0, FALSE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"huge-frame", BYTES("\xff\xff\xff\xff"), 0, FALSE, FAKE_KEEP,
	 SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"close-at-once", BYTES(""), 0, FALSE, FAKE_CLOSE, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE},
	{"say-nothing", BYTES(""), 0, FALSE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"half-a-frame", NULL, 0, 0, TRUE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"half-a-frame-and-close", NULL, 0, 0, TRUE, FAKE_CLOSE,
	 SNOWFLAKE_CLIENT_ERROR_UNREACHABLE},
	/* in all, longer than the timeout; no single pause is */
	{"drip", NULL, 0, 0, FALSE, FAKE_DRIP, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"wrong-seqid", NULL, 0, 1, FALSE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"seqid-of-the-call-before", NULL, 0, -1, FALSE, FAKE_KEEP,
	 SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
};

static FakeNext misbehave(const FakeRequest *request, GByteArray *out, gpointer data)
{
	const Case *test = data;
	FakeRequest answered = *request;

	answered.seqid += test->seqid_offset;
	if (test->bytes != NULL)
		g_byte_array_append(out, (const guint8 *)test->bytes, (guint)test->length);
	else
		fake_reply_i64(out, &answered, 42);
	if (test->is_half)
		g_byte_array_set_size(out, out->len / 2);
	return test->next;
}

static void costs_an_error(gconstpointer data)
{
	const Case *test = data;
	g_autoptr(FakeServer) server = fake_server_new(misbehave, (gpointer)test);
	const char *const servers[] = {fake_server_text(server), NULL};
	g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, NULL);
	gboolean times_out = test->code == SNOWFLAKE_CLIENT_ERROR_TIMEOUT;

	snowflake_client_set_timeout_ms(client, times_out ? SHORT_MS : HANG_GUARD_MS);
	/* the second call finds out whether the first left something behind */
	for (guint i = 0; i < 2; i++) {
		g_autoptr(GError) error = NULL;
		gint64 id = 4711;

		g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, (gint)test->code);
		g_assert_cmpint(id, ==, 4711);
		g_assert_true(g_str_has_prefix(error->message, fake_server_text(server)));
	}
	if (!times_out)
		g_assert_cmpuint(fake_server_requests(server), ==, 2);
}

static FakeNext one_id_too_few(const FakeRequest *request, GByteArray *out,
			       G_GNUC_UNUSED gpointer data)
{
	fake_reply_ids(out, request, 1, (guint)request->count - 1);
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

/* Never content with a count, and forgetful: the connection is closed each time. */
static FakeNext never_content(const FakeRequest *request, GByteArray *out,
			      G_GNUC_UNUSED gpointer data)
{
	fake_reply_declared(out, request, 4, "too many", 0);
	return FAKE_CLOSE;
}

/* It is not asked for fewer; by get_id, it gives an ID that is out of order. */
static void costs_an_error_in_get_ids(void)
{
	static const struct {
		FakeAnswer answer;
		guint requests;
	} batches[] = {{one_id_too_few, 1}, {always_id_7, 3}};

	for (gsize i = 0; i < G_N_ELEMENTS(batches); i++) {
		g_autoptr(FakeServer) server = fake_server_new(batches[i].answer, NULL);
		const char *const servers[] = {fake_server_text(server), NULL};
		g_autoptr(SnowflakeClient) client = snowflake_client_new(servers, NULL);
		g_autoptr(GError) error = NULL;
		gint64 ids[5] = {4711, 4711, 4711, 4711, 4711};

		snowflake_client_set_timeout_ms(client, HANG_GUARD_MS);
		g_assert_false(snowflake_client_get_ids(client, "agent", 5, ids, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
		for (gsize j = 0; j < G_N_ELEMENTS(ids); j++)
			g_assert_cmpint(ids[j], ==, 4711);
		g_assert_cmpuint(fake_server_requests(server), ==, batches[i].requests);
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
