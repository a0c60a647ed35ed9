/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>

#include "client/snowflake-client.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

/* Batches: IDs as runs, ULIDs and UUIDs, from servers that support the call, servers without it,
 * servers that refuse it and servers that misbehave. */

#define TICK_IDS  4096
#define TICK_SIZE (G_GINT64_CONSTANT(1) << 22)

/* Capabilities of a server; each row supports fewer calls than the one before. */
typedef enum { HAS_RUNS, HAS_BATCHES, HAS_SINGLES } Has;

typedef struct {
	Has has;
	gint32 largest_batch;
	gint64 base;           /* first ID of the server */
	atomic_llong position; /* number of issued IDs */
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
	fake_begin_list(out, request, BINARY_I64, (guint32)request->count);
	for (gint32 i = 0; i < request->count; i++)
		byte_writer_be64(out, (guint64)id_at(service, service->position++));
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

static const SnowflakeClientIdRun *run_at(const GArray *runs, guint i)
{
	return &g_array_index(runs, SnowflakeClientIdRun, i);
}

/* Asserts that they are the first @count IDs of the service, and that each run is of one tick. */
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
		 0}, /* a run of one tick is split in two at each batch boundary */
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
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
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

/* The client does not repeat a call that a server does not support, but uses it with the next
 * server. */
TEST("/client-id-runs/remembers-what-a-server-lacks", remembers_what_a_server_lacks)
{
	Service old = {.has = HAS_BATCHES, .largest_batch = 10000, .base = TICK_SIZE};
	g_autoptr(FakeServer) server = fake_server_new(serve, &old);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);

	for (guint i = 0; i < 3; i++) {
		g_autoptr(GArray) runs = snowflake_client_get_id_runs(client, "agent", 10, NULL);

		g_assert_cmpuint(runs->len, ==, 1);
		g_assert_cmpint(run_at(runs, 0)->first, ==, id_at(&old, 10 * i));
	}
	g_assert_cmpuint(old.n_runs_calls, ==, 1);
	g_assert_cmpuint(old.n_batch_calls, ==, 3);
}

/* Serves one ID, then has no more. */
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
	g_autoptr(SnowflakeClient) client = fake_server_client(failing, steady);
	g_autoptr(GArray) runs = snowflake_client_get_id_runs(client, "agent", 20000, NULL);

	g_assert_cmpuint(runs->len, ==, 6);
	g_assert_cmpint(run_at(runs, 0)->first, ==, first.base);
	g_assert_cmpint(run_at(runs, 3)->first, ==, second.base);
	g_assert_cmpstr(snowflake_client_get_server(client), ==, fake_server_text(steady));
}

TEST("/client-id-runs/reports-progress", reports_progress)
{
	Service service = {.has = HAS_RUNS, .largest_batch = 10000, .base = TICK_SIZE};
	g_autoptr(FakeServer) server = fake_server_new(serve_once, &service);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
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
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
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

/* A server without batches, which returns 9, then 7. */
static FakeNext serve_backwards(const FakeRequest *request, GByteArray *out, gpointer data)
{
	atomic_int *next = data;

	if (g_str_equal(request->method, "get_id"))
		fake_reply_i64(out, request, atomic_fetch_sub(next, 2));
	else
		fake_reply_exception(out, request, 1, "Invalid method name");
	return FAKE_KEEP;
}

/* Returns a run that is too short by one. */
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
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
		g_autoptr(GError) error = NULL;

		g_assert_null(snowflake_client_get_id_runs(client, "agent", 2, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
	}
}

/* ULIDs and UUIDs */

typedef gboolean (*GetUuids)(SnowflakeClient *self, const char *agent, guint count,
			     guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES], GError **error);

static const struct {
	const char *method;
	GetUuids get;
} CALLS[] = {
	{"get_ulids", snowflake_client_get_ulids},
	{"get_uuids", snowflake_client_get_uuids},
};

typedef struct {
	const char *method; /* the only supported one */
	gint32 largest_batch;
	atomic_ullong last;
	atomic_uint refused; /* calls for too many UUIDs */
} UuidService;

/* Answers with UUIDs whose last bytes count up from 1. */
static FakeNext serve_uuids(const FakeRequest *request, GByteArray *out, gpointer data)
{
	UuidService *service = data;

	g_assert_cmpstr(request->agent, ==, "agent");
	if (!g_str_equal(request->method, service->method)) {
		fake_reply_exception(out, request, 1, "Invalid method name");
		return FAKE_KEEP;
	}
	if (request->count > service->largest_batch) {
		service->refused++;
		fake_reply_declared(out, request, 4, "too many", 0);
		return FAKE_KEEP;
	}
	fake_begin_list(out, request, BINARY_STRING, (guint32)request->count);
	for (gint32 i = 0; i < request->count; i++) {
		byte_writer_be32(out, SNOWFLAKE_CLIENT_UUID_BYTES);
		byte_writer_be64(out, 0x0123456789abcdef);
		byte_writer_be64(out, ++service->last);
	}
	fake_end(out);
	return FAKE_KEEP;
}

static FakeNext serve_one_byte_too_few(const FakeRequest *request, GByteArray *out,
				       gpointer data G_GNUC_UNUSED)
{
	static const guint lengths[] = {16, 15};

	fake_reply_uuids(out, request, lengths, 2);
	return FAKE_KEEP;
}

TEST("/client-uuids/gets-many", gets_many)
{
	enum { COUNT = 2500 };
	static const gint32 largest_batches[] = {1000, 300};

	for (gsize i = 0; i < G_N_ELEMENTS(CALLS) * G_N_ELEMENTS(largest_batches); i++) {
		UuidService service = {CALLS[i % 2].method, largest_batches[i / 2], 0, 0};
		g_autoptr(FakeServer) server = fake_server_new(serve_uuids, &service);
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
		g_autoptr(GError) error = NULL;
		guint8 uuids[COUNT][SNOWFLAKE_CLIENT_UUID_BYTES];

		g_test_message("%s, at most %d", CALLS[i % 2].method, service.largest_batch);
		CALLS[i % 2].get(client, "agent", COUNT, uuids, &error);
		g_assert_no_error(error);
		for (guint64 j = 0; j < COUNT; j++) {
			const guint64 expected[] = {GUINT64_TO_BE(0x0123456789abcdef),
						    GUINT64_TO_BE(j + 1)};

			g_assert_cmpmem(uuids[j], sizeof(uuids[j]), expected, sizeof(expected));
		}
		g_assert_cmpuint(service.refused, ==, i / 2 == 0 ? 0 : 2);
	}
}

TEST("/client-uuids/refuses-wrong-arguments", uuids_refuses_wrong_arguments)
{
	for (gsize i = 0; i < G_N_ELEMENTS(CALLS); i++) {
		UuidService service = {CALLS[i].method, 1000, 0, 0};
		g_autoptr(FakeServer) server = fake_server_new(serve_uuids, &service);
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
		g_autofree char *long_agent = g_strnfill(257, 'a');
		guint8 uuid[1][SNOWFLAKE_CLIENT_UUID_BYTES];

		g_assert_false(CALLS[i].get(NULL, "agent", 1, uuid, NULL));
		g_assert_false(CALLS[i].get(client, NULL, 1, uuid, NULL));
		g_assert_false(CALLS[i].get(client, long_agent, 1, uuid, NULL));
		g_assert_false(CALLS[i].get(client, "agent", 0, uuid, NULL));
		g_assert_false(CALLS[i].get(client, "agent", 1, NULL, NULL));
		g_assert_cmpuint(fake_server_requests(server), ==, 0);
	}
}

TEST("/client-uuids/reports-refusals", reports_refusals)
{
	static const FakeRefusal refusals[] = {
		{NULL, 0, 1, 0, SNOWFLAKE_CLIENT_ERROR_CLOCK, TRUE},
		{NULL, 0, 2, 0, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, FALSE},
		{NULL, 0, 3, 250, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE, TRUE},
		{NULL, 0, 4, 0, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, FALSE},
		/* the layout has no such IDs */
		{NULL, 0, 5, 0, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED, FALSE},
		/* a field that is not declared */
		{NULL, 0, 6, 0, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, TRUE},
		/* an unknown method */
		{"why", 1, 0, 0, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED, FALSE},
		{"why", 6, 0, 0, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, TRUE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CALLS) * G_N_ELEMENTS(refusals); i++) {
		const FakeRefusal *refusal = &refusals[i / 2];
		UuidService service = {CALLS[i % 2].method, 1000, 0, 0};
		g_autoptr(FakeServer) first = fake_server_new(fake_refuse, (gpointer)refusal);
		g_autoptr(FakeServer) second = fake_server_new(serve_uuids, &service);
		g_autoptr(SnowflakeClient) alone = fake_server_client(first, NULL);
		g_autoptr(SnowflakeClient) both = NULL;
		guint8 uuid[1][SNOWFLAKE_CLIENT_UUID_BYTES] = {{47}};
		g_autoptr(GError) error = NULL;

		g_test_message("%s, refusal %zu", CALLS[i % 2].method, i / 2);
		g_assert_false(CALLS[i % 2].get(alone, "agent", 1, uuid, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, (gint)refusal->code);
		g_assert_cmpint(uuid[0][0], ==, 47);
		g_assert_cmpint(snowflake_client_get_retry_after_ms(alone), ==,
				refusal->retry_after_ms);
		/* the server has one connection at a time */
		g_clear_pointer(&alone, snowflake_client_free);
		both = fake_server_client(first, second);
		g_assert_true(CALLS[i % 2].get(both, "agent", 1, uuid, NULL) ==
			      refusal->another_may_serve);
	}
}

TEST("/client-uuids/is-not-misled", uuids_is_not_misled)
{
	for (gsize i = 0; i < G_N_ELEMENTS(CALLS); i++) {
		g_autoptr(FakeServer) server = fake_server_new(serve_one_byte_too_few, NULL);
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
		guint8 uuids[2][SNOWFLAKE_CLIENT_UUID_BYTES] = {{47}, {11}};
		g_autoptr(GError) error = NULL;

		g_assert_false(CALLS[i].get(client, "agent", 2, uuids, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
		g_assert_cmpint(uuids[0][0], ==, 47);
		g_assert_cmpint(uuids[1][0], ==, 11);
	}
}
