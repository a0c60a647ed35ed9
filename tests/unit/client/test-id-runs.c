/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "client/snowflake-client.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

/* IDs as runs, from servers that have the call, that lack it, and that are none. */

#define TICK_IDS  4096
#define TICK_SIZE (G_GINT64_CONSTANT(1) << 22)

/* What a server has: less and less. */
typedef enum { HAS_RUNS, HAS_BATCHES, HAS_SINGLES } Has;

typedef struct {
	Has has;
	gint32 largest_batch;
	gint64 base;           /* of all its IDs */
	atomic_llong position; /* how many it has given */
	atomic_uint n_runs_calls, n_batch_calls, n_single_calls;
} Service;

static gint64 id_at(const Service *service, gint64 position)
{
	return service->base + position / TICK_IDS * TICK_SIZE + position % TICK_IDS;
}

static void reply_runs(Service *service, const FakeRequest *request, GByteArray *out)
{
	SnowflakeClientIdRun runs[16];
	guint n_runs = 0;

	for (gint32 left = request->count; left > 0; left -= (gint32)runs[n_runs++].count) {
		gint64 room = TICK_IDS - service->position % TICK_IDS;

		g_assert_cmpuint(n_runs, <, G_N_ELEMENTS(runs));
		runs[n_runs] = (SnowflakeClientIdRun){id_at(service, service->position),
						      (guint)MIN(left, room)};
		service->position += runs[n_runs].count;
	}
	fake_reply_runs(out, request, runs, n_runs);
}

static void reply_batch(Service *service, const FakeRequest *request, GByteArray *out)
{
	fake_begin(out, MESSAGE_REPLY, request->method, request->seqid);
	byte_writer_field(out, BINARY_LIST, 0);
	byte_writer_u8(out, BINARY_I64);
	byte_writer_be32(out, (guint32)request->count);
	for (gint32 i = 0; i < request->count; i++)
		byte_writer_be64(out, (guint64)id_at(service, service->position++));
	byte_writer_u8(out, BINARY_STOP);
	fake_end(out);
}

static FakeNext serve(const FakeRequest *request, GByteArray *out, gpointer data)
{
	Service *service = data;
	gboolean is_single = g_str_equal(request->method, "get_id");
	gboolean is_batch = g_str_equal(request->method, "get_ids");

	g_assert_cmpstr(request->agent, ==, "agent");
	atomic_fetch_add(is_single  ? &service->n_single_calls
			 : is_batch ? &service->n_batch_calls
				    : &service->n_runs_calls,
			 1);
	if (is_single)
		fake_reply_i64(out, request, id_at(service, service->position++));
	else if (service->has > (is_batch ? HAS_BATCHES : HAS_RUNS))
		fake_reply_exception(out, request, 1, "Invalid method name");
	else if (request->count > service->largest_batch)
		fake_reply_declared(out, request, 4, "too many", 0);
	else if (is_batch)
		reply_batch(service, request, out);
	else
		reply_runs(service, request, out);
	return FAKE_KEEP;
}

static SnowflakeClient *client_of(const FakeServer *first, const FakeServer *second)
{
	const char *const servers[] = {fake_server_text(first),
				       second != NULL ? fake_server_text(second) : NULL, NULL};
	SnowflakeClient *client = snowflake_client_new(servers, NULL);

	snowflake_client_set_timeout_ms(client, HANG_GUARD_MS);
	return client;
}

static const SnowflakeClientIdRun *run_at(const GArray *runs, guint i)
{
	return &g_array_index(runs, SnowflakeClientIdRun, i);
}

/* They are the service's first @count IDs, each run of one tick. */
static void assert_first_ids(const GArray *runs, guint count, const Service *service)
{
	gint64 position = 0;

	for (guint i = 0; i < runs->len; i++) {
		const SnowflakeClientIdRun *run = run_at(runs, i);

		g_assert_cmpint(run->first, ==, id_at(service, position));
		g_assert_cmpuint(run->count, >, 0);
		g_assert_cmpint(position % TICK_IDS + run->count, <=, TICK_IDS);
		position += run->count;
	}
	g_assert_cmpint(position, ==, count);
}

TEST("/client-id-runs/gets-runs-from-whatever-server", gets_runs_from_whatever_server)
{
	static const struct {
		Has has;
		gint32 largest_batch;
		guint count;
		guint n_runs;
		guint n_runs_calls, n_batch_calls, n_single_calls;
	} cases[] = {
		{HAS_RUNS, 10000, 1, 1, 1, 0, 0},
		{HAS_RUNS, 10000, 10000, 3, 1, 0, 0},
		{HAS_RUNS, 10000, 25000, 9, 3, 0,
		 0}, /* one of a tick's runs is two at each joint */
		{HAS_RUNS, 2816, 5632, 3, 1 + 2, 0, 0}, /* 5632 is refused */
		{HAS_BATCHES, 10000, 5000, 2, 1, 5, 0},
		{HAS_BATCHES, 300, 2500, 1, 1, 2 + 10, 0}, /* 1000, 500 are refused */
		{HAS_SINGLES, 0, 50, 1, 1, 1, 50},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Service service = {
			.has = cases[i].has,
			.largest_batch = cases[i].largest_batch,
			.base = TICK_SIZE,
		};
		g_autoptr(FakeServer) server = fake_server_new(serve, &service);
		g_autoptr(SnowflakeClient) client = client_of(server, NULL);
		g_autoptr(GError) error = NULL;
		g_autoptr(GArray) runs =
			snowflake_client_get_id_runs(client, "agent", cases[i].count, &error);

		g_test_message("case %zu", i);
		g_assert_no_error(error);
		assert_first_ids(runs, cases[i].count, &service);
		g_assert_cmpuint(runs->len, ==, cases[i].n_runs);
		g_assert_cmpuint(service.n_runs_calls, ==, cases[i].n_runs_calls);
		g_assert_cmpuint(service.n_batch_calls, ==, cases[i].n_batch_calls);
		g_assert_cmpuint(service.n_single_calls, ==, cases[i].n_single_calls);
		g_assert_cmpuint(fake_server_connections(server), ==, 1);
	}
}

/* What a server lacks is not asked for again, and is of the next one. */
TEST("/client-id-runs/remembers-what-a-server-lacks", remembers_what_a_server_lacks)
{
	Service old = {.has = HAS_BATCHES, .largest_batch = 10000, .base = TICK_SIZE};
	g_autoptr(FakeServer) server = fake_server_new(serve, &old);
	g_autoptr(SnowflakeClient) client = client_of(server, NULL);

	for (guint i = 0; i < 3; i++) {
		g_autoptr(GArray) runs = snowflake_client_get_id_runs(client, "agent", 10, NULL);

		g_assert_cmpuint(runs->len, ==, 1);
		g_assert_cmpint(run_at(runs, 0)->first, ==, id_at(&old, 10 * i));
	}
	g_assert_cmpuint(old.n_runs_calls, ==, 1);
	g_assert_cmpuint(old.n_batch_calls, ==, 3);
}

/* Its IDs are gone after the first of them. */
static FakeNext serve_once(const FakeRequest *request, GByteArray *out, gpointer data)
{
	Service *service = data;

	if (service->position == 0)
		return serve(request, out, data);
	fake_reply_declared(out, request, 3, "why", 250);
	return FAKE_KEEP;
}

TEST("/client-id-runs/goes-on-at-another-server", goes_on_at_another_server)
{
	Service first = {.has = HAS_RUNS, .largest_batch = 10000, .base = 5 * TICK_SIZE};
	Service second = {.has = HAS_RUNS, .largest_batch = 10000, .base = 1024};
	g_autoptr(FakeServer) failing = fake_server_new(serve_once, &first);
	g_autoptr(FakeServer) steady = fake_server_new(serve, &second);
	g_autoptr(SnowflakeClient) client = client_of(failing, steady);
	g_autoptr(GArray) runs = snowflake_client_get_id_runs(client, "agent", 20000, NULL);

	g_assert_cmpuint(runs->len, ==, 6);
	g_assert_cmpint(run_at(runs, 0)->first, ==, first.base);
	g_assert_cmpint(run_at(runs, 3)->first, ==, second.base);
	g_assert_cmpstr(snowflake_client_get_server(client), ==, fake_server_text(steady));
}

TEST("/client-id-runs/tells-how-far-it-came", tells_how_far_it_came)
{
	Service service = {.has = HAS_RUNS, .largest_batch = 10000, .base = TICK_SIZE};
	g_autoptr(FakeServer) server = fake_server_new(serve_once, &service);
	g_autoptr(SnowflakeClient) client = client_of(server, NULL);
	g_autofree char *message = g_strdup_printf(
		"after 10000 of 10001 IDs: %s: WorkerIdUnavailable: why", fake_server_text(server));
	g_autoptr(GError) error = NULL;

	g_assert_null(snowflake_client_get_id_runs(client, "agent", 10001, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	g_assert_cmpstr(error->message, ==, message);
	g_assert_cmpint(snowflake_client_get_retry_after_ms(client), ==, 250);
}

TEST("/client-id-runs/refuses-wrong-arguments", refuses_wrong_arguments)
{
	Service service = {.has = HAS_RUNS, .largest_batch = 10000, .base = TICK_SIZE};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autoptr(SnowflakeClient) client = client_of(server, NULL);
	g_autofree char *long_agent = g_strnfill(257, 'a');
	const struct {
		SnowflakeClient *client;
		const char *agent;
		guint count;
	} cases[] = {{NULL, "agent", 1},
		     {client, NULL, 1},
		     {client, long_agent, 1},
		     {client, "agent", 0}};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;

		g_assert_null(snowflake_client_get_id_runs(cases[i].client, cases[i].agent,
							   cases[i].count, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR,
			       SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
	}
	g_assert_cmpuint(fake_server_requests(server), ==, 0);
}

/* Of a server without batches: 9, 7. */
static FakeNext serve_backwards(const FakeRequest *request, GByteArray *out, gpointer data)
{
	atomic_int *next = data;

	if (g_str_equal(request->method, "get_id"))
		fake_reply_i64(out, request, atomic_fetch_sub(next, 2));
	else
		fake_reply_exception(out, request, 1, "Invalid method name");
	return FAKE_KEEP;
}

/* A run too short by one. */
static FakeNext serve_too_few(const FakeRequest *request, GByteArray *out,
			      gpointer data G_GNUC_UNUSED)
{
	const SnowflakeClientIdRun run = {42, (guint)request->count - 1};

	fake_reply_runs(out, request, &run, 1);
	return FAKE_KEEP;
}

TEST("/client-id-runs/is-not-misled", is_not_misled)
{
	static const FakeAnswer answers[] = {serve_backwards, serve_too_few};

	for (gsize i = 0; i < G_N_ELEMENTS(answers); i++) {
		atomic_int next = 9;
		g_autoptr(FakeServer) server = fake_server_new(answers[i], &next);
		g_autoptr(SnowflakeClient) client = client_of(server, NULL);
		g_autoptr(GError) error = NULL;

		g_assert_null(snowflake_client_get_id_runs(client, "agent", 2, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
	}
}
