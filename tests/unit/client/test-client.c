/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client/snowflake-client.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

/* A server that works, and counts. */
typedef struct {
	atomic_llong next_id;
	atomic_uint n_get_ids;
	gint32 largest_batch; /* 0: it has no get_ids */
} Service;

static FakeNext serve(const FakeRequest *request, GByteArray *out, gpointer data)
{
	Service *service = data;

	if (g_str_equal(request->method, "get_id")) {
		fake_reply_i64(out, request, atomic_fetch_add(&service->next_id, 1) + 1);
		return FAKE_KEEP;
	}
	if (g_str_equal(request->method, "get_timestamp")) {
		fake_reply_i64(out, request, 1500000000000);
		return FAKE_KEEP;
	}
	if (g_str_equal(request->method, "get_ids"))
		atomic_fetch_add(&service->n_get_ids, 1);
	if (service->largest_batch == 0)
		fake_reply_exception(out, request, 1, "Invalid method name");
	else if (g_str_equal(request->method, "get_worker"))
		fake_reply_worker(out, request, "serving");
	else if (request->count > service->largest_batch)
		fake_reply_declared(out, request, 4, "too many", 0);
	else
		fake_reply_ids(out, request,
			       atomic_fetch_add(&service->next_id, request->count) + 1,
			       (guint)request->count);
	return FAKE_KEEP;
}

/* What a server refuses with, in each of the two ways of the contract. */
typedef struct {
	const char *message; /* of a TApplicationException; NULL: declared */
	gint32 type;
	gint16 field;
	gint64 retry_after_ms;
	SnowflakeClientError code;
	gboolean another_may_serve;
} Refusal;

static FakeNext refuse(const FakeRequest *request, GByteArray *out, gpointer data)
{
	const Refusal *refusal = data;

	if (refusal->message != NULL)
		fake_reply_exception(out, request, refusal->type, refusal->message);
	else
		fake_reply_declared(out, request, refusal->field, "why", refusal->retry_after_ms);
	return FAKE_KEEP;
}

/* On a busy machine a call may take longer than a client gives it. */
static SnowflakeClient *client_of(const char *first, const char *second)
{
	const char *const servers[] = {first, second, NULL};
	g_autoptr(GError) error = NULL;
	SnowflakeClient *client = snowflake_client_new(servers, &error);

	g_assert_no_error(error);
	snowflake_client_set_timeout_ms(client, HANG_GUARD_MS);
	return client;
}

/* Of a call that is the first argument. */
static void assert_done(gboolean done, GError **error)
{
	g_assert_no_error(*error);
	g_assert_true(done);
}

TEST("/client/makes-the-calls", makes_the_calls)
{
	Service service = {.largest_batch = 1000};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);
	g_autoptr(GError) error = NULL;
	gint64 number;
	gint64 ids[3];

	assert_done(snowflake_client_get_id(client, "agent", &number, &error), &error);
	g_assert_cmpint(number, ==, 1);
	assert_done(snowflake_client_get_ids(client, "agent", 3, ids, &error), &error);
	g_assert_cmpint(ids[0], ==, 2);
	g_assert_cmpint(ids[2], ==, 4);
	assert_done(snowflake_client_get_timestamp(client, &number, &error), &error);
	g_assert_cmpint(number, ==, 1500000000000);

	g_autoptr(SnowflakeClientWorker) worker = snowflake_client_get_worker(client, &error);

	g_assert_no_error(error);
	g_assert_cmpint(worker->datacenter_id, ==, 3);
	g_assert_cmpint(worker->worker_id, ==, 7);
	g_assert_cmpstr(worker->address, ==, "host.example:7609");
	g_assert_cmpstr(worker->nonce, ==, "a-nonce");
	g_assert_cmpint(worker->claimed_at_ms, ==, 1000);
	g_assert_cmpint(worker->reserved_until_ms, ==, 2000);
	g_assert_cmpstr(worker->state, ==, "serving");
	g_assert_cmpuint(fake_server_connections(server), ==, 1);
}

TEST("/client/connects-by-name-and-ipv6", connects_by_name_and_ipv6)
{
	Service service = {0};
	g_autoptr(FakeServer) v4 = fake_server_new(serve, &service);
	g_autoptr(FakeServer) v6 = fake_server_new_at("::1", serve, &service);
	g_autofree char *by_name =
		g_strdup_printf("localhost%s", strchr(fake_server_text(v4), ':'));
	g_autoptr(SnowflakeClient) client = client_of(by_name, NULL);
	gint64 id;

	g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
	if (v6 == NULL) {
		g_test_skip("no IPv6 on this machine");
		return;
	}

	g_autoptr(SnowflakeClient) client6 = client_of(fake_server_text(v6), NULL);

	g_assert_true(snowflake_client_get_id(client6, "agent", &id, NULL));
}

TEST("/client/refuses-wrong-arguments", refuses_wrong_arguments)
{
	g_autofree char *dead = NULL;
	int dead_fd = fake_silent_new(FALSE, &dead);
	g_autoptr(SnowflakeClient) client = client_of(dead, NULL);
	g_autofree char *long_agent = g_strnfill(257, 'a');
	const char *const servers[] = {"localhost", "local host", NULL};
	gint64 id = 4711;
	g_autoptr(GError) error = NULL;

	g_assert_null(snowflake_client_new(servers, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
	g_clear_error(&error);
	g_assert_false(snowflake_client_get_id(client, long_agent, &id, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
	g_clear_error(&error);
	g_assert_false(snowflake_client_get_ids(client, "agent", 0, &id, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
	g_assert_cmpint(id, ==, 4711);
	close(dead_fd);
}

/* How a call ends that may be given NULL for @client, and is for its other arguments. */
typedef gboolean (*CallWithNull)(SnowflakeClient *client, GError **error);

static gboolean id_without_agent(SnowflakeClient *client, GError **error)
{
	gint64 id;

	return snowflake_client_get_id(client, NULL, &id, error);
}

static gboolean ids_without_agent(SnowflakeClient *client, GError **error)
{
	gint64 id;

	return snowflake_client_get_ids(client, NULL, 1, &id, error);
}

static gboolean id_without_place(SnowflakeClient *client, GError **error)
{
	return snowflake_client_get_id(client, "agent", NULL, error);
}

static gboolean ids_without_place(SnowflakeClient *client, GError **error)
{
	return snowflake_client_get_ids(client, "agent", 1, NULL, error);
}

static gboolean timestamp_without_place(SnowflakeClient *client, GError **error)
{
	return snowflake_client_get_timestamp(client, NULL, error);
}

static gboolean worker_without_client(G_GNUC_UNUSED SnowflakeClient *client, GError **error)
{
	return snowflake_client_get_worker(NULL, error) != NULL;
}

static gboolean workers_without_client(G_GNUC_UNUSED SnowflakeClient *client, GError **error)
{
	return snowflake_client_get_workers(NULL, error) != NULL;
}

TEST("/client/refuses-null", refuses_null)
{
	static const CallWithNull calls[] = {
		id_without_agent,       ids_without_agent,       id_without_place,
		ids_without_place,      timestamp_without_place, worker_without_client,
		workers_without_client,
	};
	Service service = {.largest_batch = 1000};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);

	for (gsize i = 0; i < 2 * G_N_ELEMENTS(calls); i++) {
		g_autoptr(GError) error = NULL;

		g_test_message("call %zu", i / 2);
		g_assert_false(calls[i / 2](i % 2 == 0 ? client : NULL, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR,
			       SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
		g_assert_false(calls[i / 2](i % 2 == 0 ? client : NULL, NULL));
	}
	g_assert_cmpuint(fake_server_requests(server), ==, 0);
}

/* GLib would end the program. No other thread has descriptors to give back or to take: a server
 * that waits in accept() has taken one, or does so when it comes to it. */
TEST("/client/out-of-descriptors", out_of_descriptors)
{
	g_autofree char *silent = NULL;
	int listener = fake_silent_new(TRUE, &silent);
	g_autoptr(SnowflakeClient) client = client_of(silent, NULL);
	g_autoptr(GArray) fds = g_array_new(FALSE, FALSE, sizeof(int));
	g_autoptr(GError) connected = NULL;
	struct rlimit before, few;
	gint64 id;
	int fd;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
	few = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &few), ==, 0);
	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		g_array_append_val(fds, fd);
	for (guint n_left = 0; n_left < 4; n_left++) {
		g_autoptr(GError) error = NULL;

		g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE);
		g_assert_nonnull(strstr(error->message, g_strerror(EMFILE)));
		close(g_array_index(fds, int, n_left));
	}
	for (guint i = 4; i < fds->len; i++)
		close(g_array_index(fds, int, i));
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
	snowflake_client_set_timeout_ms(client, 100);
	g_assert_false(snowflake_client_get_id(client, "agent", &id, &connected));
	g_assert_error(connected, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT);
	close(listener);
}

static const Refusal refusals[] = {
	{"InvalidSystemClock: why", 6, 0, 0, SNOWFLAKE_CLIENT_ERROR_CLOCK, TRUE},
	{"InvalidSystemClock", 6, 0, 0, SNOWFLAKE_CLIENT_ERROR_CLOCK, TRUE},
	{"WorkerIdUnavailable: why", 6, 0, 0, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE, TRUE},
	{"Internal error", 6, 0, 0, SNOWFLAKE_CLIENT_ERROR_PROTOCOL, TRUE},
	{"InvalidUserAgentError: why", 6, 0, 0, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, FALSE},
	{NULL, 0, 1, 0, SNOWFLAKE_CLIENT_ERROR_CLOCK, TRUE},
	{NULL, 0, 3, 0, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE, TRUE},
	{NULL, 0, 3, 250, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE, TRUE},
	{NULL, 0, 2, 0, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, FALSE},
	{NULL, 0, 4, 0, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, FALSE},
};

static gboolean get_one(SnowflakeClient *client, const Refusal *refusal, GError **error)
{
	gint64 id = 4711;
	gboolean got = refusal->message != NULL
			       ? snowflake_client_get_id(client, "agent", &id, error)
			       : snowflake_client_get_ids(client, "agent", 1, &id, error);

	g_assert_true(got == (id != 4711));
	return got;
}

TEST("/client/tells-why-it-was-refused", tells_why_it_was_refused)
{
	for (gsize i = 0; i < G_N_ELEMENTS(refusals); i++) {
		const Refusal *refusal = &refusals[i];
		g_autoptr(FakeServer) server = fake_server_new(refuse, (gpointer)refusal);
		g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);
		g_autoptr(GError) error = NULL;

		g_test_message("refusal %zu", i);
		g_assert_false(get_one(client, refusal, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, (gint)refusal->code);
		g_assert_cmpint(snowflake_client_get_retry_after_ms(client), ==,
				refusal->retry_after_ms);
	}
}

TEST("/client/turns-to-another-server", turns_to_another_server_where_that_helps)
{
	for (gsize i = 0; i < G_N_ELEMENTS(refusals); i++) {
		const Refusal *refusal = &refusals[i];
		Service service = {.largest_batch = 1000};
		g_autoptr(FakeServer) first = fake_server_new(refuse, (gpointer)refusal);
		g_autoptr(FakeServer) second = fake_server_new(serve, &service);
		g_autoptr(SnowflakeClient) client =
			client_of(fake_server_text(first), fake_server_text(second));

		g_test_message("refusal %zu", i);
		g_assert_true(get_one(client, refusal, NULL) == refusal->another_may_serve);
		g_assert_cmpuint(fake_server_requests(first), ==, 1);
		g_assert_cmpuint(fake_server_requests(second), ==, refusal->another_may_serve);
		if (!refusal->another_may_serve)
			continue;
		/* and stays there */
		g_assert_cmpstr(snowflake_client_get_server(client), ==, fake_server_text(second));
		g_assert_true(get_one(client, refusal, NULL));
		g_assert_cmpuint(fake_server_requests(first), ==, 1);
	}
}

TEST("/client/retries-once", retries_once)
{
	g_autoptr(FakeServer) first = fake_server_new(refuse, (gpointer)&refusals[0]);
	g_autoptr(FakeServer) second = fake_server_new(refuse, (gpointer)&refusals[2]);
	g_autoptr(SnowflakeClient) client =
		client_of(fake_server_text(first), fake_server_text(second));
	g_autoptr(GError) error = NULL;

	g_assert_false(get_one(client, &refusals[0], &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	/* both have their say */
	g_assert_nonnull(strstr(error->message, "InvalidSystemClock"));
	g_assert_nonnull(strstr(error->message, "WorkerIdUnavailable"));
	g_assert_cmpuint(fake_server_requests(first), ==, 1);
	g_assert_cmpuint(fake_server_requests(second), ==, 1);
}

TEST("/client/keeps-the-connection-after-a-refusal", keeps_the_connection_after_a_refusal)
{
	g_autoptr(FakeServer) server = fake_server_new(refuse, (gpointer)&refusals[0]);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);

	for (guint i = 0; i < 3; i++)
		g_assert_false(get_one(client, &refusals[0], NULL));
	g_assert_cmpuint(fake_server_requests(server), ==, 3);
	g_assert_cmpuint(fake_server_connections(server), ==, 1);
}

static FakeNext note_seqid(const FakeRequest *request, GByteArray *out, gpointer last_seqid)
{
	atomic_store((atomic_int *)last_seqid, request->seqid);
	fake_reply_i64(out, request, 1);
	return FAKE_KEEP;
}

/* Each client from a number of its own, on whatever connections. */
TEST("/client/numbers-its-calls", numbers_its_calls)
{
	gint32 firsts[2];

	for (gsize i = 0; i < G_N_ELEMENTS(firsts); i++) {
		atomic_int last_seqid = -1;
		g_autoptr(FakeServer) server = fake_server_new(note_seqid, &last_seqid);
		g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);

		for (guint n = 0; n < 3; n++) {
			gint64 id;
			gint32 before = atomic_load(&last_seqid);

			g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
			g_assert_cmpint(atomic_load(&last_seqid), >=, 0);
			if (n == 0)
				firsts[i] = atomic_load(&last_seqid);
			else
				g_assert_cmpint(atomic_load(&last_seqid), ==,
						before == G_MAXINT32 ? 0 : before + 1);
		}
	}
	g_assert_cmpint(firsts[0], !=, firsts[1]);
}

TEST("/client/gets-many-ids", gets_many_ids)
{
	enum { COUNT = 2500 };
	static const struct {
		gint32 largest_batch;
		guint n_get_ids;
	} cases[] = {
		{10000, 3},             /* 1000, 1000, 500 */
		{1000, 3},              /* the same */
		{300, 2 + COUNT / 250}, /* 1000 and 500 are refused */
		{0, 1},                 /* refused once, then not asked again */
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Service service = {.largest_batch = cases[i].largest_batch};
		g_autoptr(FakeServer) server = fake_server_new(serve, &service);
		g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);
		g_autoptr(GError) error = NULL;
		gint64 ids[COUNT];

		g_test_message("largest batch %d", cases[i].largest_batch);
		assert_done(snowflake_client_get_ids(client, "agent", COUNT, ids, &error), &error);
		for (gint64 j = 0; j < COUNT; j++)
			g_assert_cmpint(ids[j], ==, j + 1);
		g_assert_cmpuint(atomic_load(&service.n_get_ids), ==, cases[i].n_get_ids);
		g_assert_cmpuint(fake_server_connections(server), ==, 1);
	}
}

/* Serves 1000 IDs, then has no clock. */
static FakeNext serve_1000(const FakeRequest *request, GByteArray *out, gpointer data)
{
	Service *service = data;

	if (atomic_load(&service->next_id) < 1000)
		return serve(request, out, data);
	fake_reply_declared(out, request, 1, "why", 0);
	return FAKE_KEEP;
}

TEST("/client/asks-another-server-for-as-many", asks_another_server_for_as_many_as_before)
{
	enum { COUNT = 3500 };
	Service small = {.largest_batch = 300};
	Service large = {.largest_batch = 1000, .next_id = 5000};
	g_autoptr(FakeServer) first = fake_server_new(serve_1000, &small);
	g_autoptr(FakeServer) second = fake_server_new(serve, &large);
	g_autoptr(SnowflakeClient) client =
		client_of(fake_server_text(first), fake_server_text(second));
	g_autoptr(GError) error = NULL;
	gint64 ids[COUNT];

	assert_done(snowflake_client_get_ids(client, "agent", COUNT, ids, &error), &error);
	g_assert_cmpint(ids[999], ==, 1000);
	g_assert_cmpint(ids[1000], ==, 5001);
	/* the 250 that the first did not serve any more, 1000, 1000, 250 */
	g_assert_cmpuint(atomic_load(&large.n_get_ids), ==, 4);
}

TEST("/client/tells-how-far-it-came", tells_how_far_it_came)
{
	Service service = {.largest_batch = 1000};
	g_autoptr(FakeServer) server = fake_server_new(serve_1000, &service);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);
	g_autofree char *message = g_strdup_printf(
		"after 1000 of 1500 IDs: %s: InvalidSystemClock: why", fake_server_text(server));
	g_autoptr(GError) error = NULL;
	gint64 ids[1500];

	g_assert_false(snowflake_client_get_ids(client, "agent", 1500, ids, &error));
	g_assert_cmpstr(error->message, ==, message);
}

static FakeNext list_workers(const FakeRequest *request, GByteArray *out, gpointer count)
{
	if (g_str_equal(request->method, "get_workers"))
		fake_reply_workers(out, request, *(const guint *)count);
	else if (g_str_equal(request->method, "get_counters"))
		fake_reply_counters(out, request, *(const guint *)count);
	else
		fake_reply_i64(out, request, 1);
	return FAKE_KEEP;
}

/* As many as the layout of twitter has room for make a reply that is longer than any other. */
TEST("/client/lists-workers", lists_workers)
{
	guint count = 1024;
	g_autoptr(FakeServer) server = fake_server_new(list_workers, &count);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);
	g_autoptr(GError) error = NULL;
	g_autoptr(GPtrArray) workers = snowflake_client_get_workers(client, &error);
	const SnowflakeClientWorker *last;

	g_assert_no_error(error);
	g_assert_cmpuint(workers->len, ==, count);
	last = workers->pdata[count - 1];
	g_assert_cmpint(last->worker_id, ==, (gint32)count - 1);
	g_assert_cmpstr(last->address, ==, "host.example:7609");
	g_assert_cmpstr(last->state, ==, "serving");
}

TEST("/client/lists-counters-by-name", lists_counters_by_name)
{
	guint count = 4096; /* a reply that is longer than most */
	g_autoptr(FakeServer) server = fake_server_new(list_workers, &count);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);
	g_autoptr(GPtrArray) counters = snowflake_client_get_counters(client, NULL);
	const SnowflakeClientCounter *third = counters->pdata[2];

	g_assert_cmpuint(counters->len, ==, count);
	g_assert_cmpstr(third->name, ==, "c10");
	g_assert_cmpint(third->value, ==, 10);
}

static FakeNext refuse_workers(const FakeRequest *request, GByteArray *out,
			       G_GNUC_UNUSED gpointer data)
{
	fake_reply_declared(out, request, 1, "why", 1000);
	return FAKE_KEEP;
}

TEST("/client/tells-that-the-registry-does-not-answer", tells_that_the_registry_does_not_answer)
{
	g_autoptr(FakeServer) server = fake_server_new(refuse_workers, NULL);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);
	g_autoptr(GError) error = NULL;

	g_assert_null(snowflake_client_get_workers(client, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	g_assert_true(g_str_has_suffix(error->message, "RegistryUnavailable: why"));
	g_assert_cmpint(snowflake_client_get_retry_after_ms(client), ==, 1000);
}

TEST("/client/tells-what-a-server-lacks", tells_what_a_server_lacks)
{
	Service service = {0};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);
	g_autoptr(GError) error = NULL;
	gint64 id;

	g_assert_null(snowflake_client_get_worker(client, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED);
	g_clear_error(&error);
	g_assert_null(snowflake_client_get_workers(client, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED);
	g_clear_error(&error);
	g_assert_null(snowflake_client_get_counters(client, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED);
	g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
	g_assert_cmpuint(fake_server_connections(server), ==, 1);
}

static void call_many_times(SnowflakeClient *client, guint n_rounds)
{
	for (guint i = 0; i < n_rounds; i++) {
		gint64 ids[2];
		g_autoptr(GError) error = NULL;
		g_autoptr(SnowflakeClientWorker) worker =
			snowflake_client_get_worker(client, &error);

		g_assert_no_error(error);
		assert_done(snowflake_client_get_id(client, "agent", &ids[0], &error), &error);
		assert_done(snowflake_client_get_ids(client, "agent", 2, ids, &error), &error);
		g_assert_false(snowflake_client_get_ids(client, "agent", 0, ids, NULL));
		g_assert_nonnull(worker);
	}
}

/* 100,000 calls; an allocator that does not keep the statistics (a sanitizer's) looks for leaks
 * itself. */
TEST("/client/keeps-no-memory", keeps_no_memory)
{
	Service service = {.largest_batch = 1000};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), NULL);

	call_many_times(client, 100);

	size_t before = mallinfo2().uordblks;

	call_many_times(client, 33333);
	g_assert_cmpuint(mallinfo2().uordblks, <, before + 64 * 1024);
}
