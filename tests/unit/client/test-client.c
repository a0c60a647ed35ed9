/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <malloc.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/snowflake-client.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

/* A server that works, and counts the calls. */
typedef struct {
	atomic_llong next_id;
	atomic_uint n_get_ids;
	gint32 largest_batch; /* 0 if it has no get_ids */
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

/* Asserts that a call succeeded, which is the first argument. */
static void assert_done(gboolean done, GError **error)
{
	g_assert_no_error(*error);
	g_assert_true(done);
}

/* Returns a client for the server, with a timeout that is long enough for a busy machine. */
static SnowflakeClient *client_of_name(const char *server)
{
	g_autoptr(GError) error = NULL;
	SnowflakeClient *client = snowflake_client_new((const char *[]){server, NULL}, &error);

	g_assert_no_error(error);
	snowflake_client_set_timeout_ms(client, HANG_GUARD_MS);
	snowflake_client_set_retry(client, FALSE);
	return client;
}

TEST("/client/makes-the-calls", makes_the_calls)
{
	Service service = {.largest_batch = 1000};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autofree char *by_name =
		g_strdup_printf("localhost%s", strchr(fake_server_text(server), ':'));
	g_autoptr(SnowflakeClient) client = client_of_name(by_name);
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

TEST("/client/connects-to-each-kind-of-address", connects_to_each_kind_of_address)
{
	g_autofree char *directory = g_dir_make_tmp("snowflake-test-XXXXXX", NULL);
	g_autofree char *path = g_strdup_printf("unix:%s/ids", directory);
	g_autofree char *abstract = g_strdup_printf("unix:@test-client-%d", getpid());
	const char *const addresses[] = {"127.0.0.1", "::1", path, abstract};

	for (gsize i = 0; i < G_N_ELEMENTS(addresses); i++) {
		Service service = {0};
		g_autoptr(FakeServer) server = fake_server_new_at(addresses[i], serve, &service);

		g_test_message("%s", addresses[i]);
		if (server == NULL) /* no IPv6 on this machine */
			continue;

		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);

		for (gint64 id, n = 1; n <= 3; n++) {
			g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
			g_assert_cmpint(id, ==, n);
		}
		g_assert_cmpstr(snowflake_client_get_server(client), ==, fake_server_text(server));
		g_assert_cmpuint(fake_server_connections(server), ==, 1);
		g_clear_pointer(&client, snowflake_client_free);
	}
	g_unlink(path + strlen("unix:"));
	g_rmdir(directory);
}

/* The server has one connection at a time, so the child waits until the parent has closed its own.
 */
TEST("/client/reconnects-in-a-child", reconnects_in_a_child)
{
	Service service = {0};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
	gint64 id;
	pid_t child;
	int status;

	g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
	child = fork();
	g_assert_cmpint(child, >=, 0);
	if (child == 0) {
		gboolean got = snowflake_client_get_id(client, "agent", &id, NULL);

		snowflake_client_free(client);
		_exit(got && id == 3 ? EXIT_SUCCESS : EXIT_FAILURE);
	}
	g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
	g_assert_cmpint(id, ==, 2);
	g_clear_pointer(&client, snowflake_client_free);
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
	g_assert_cmpuint(fake_server_connections(server), ==, 2);
}

TEST("/client/reports-connect-errors", reports_connect_errors)
{
	g_autofree char *dead = NULL;
	int dead_fd = fake_silent_new(FALSE, &dead);
	g_autofree char *stale = g_strdup_printf("unix:@test-client-%d", getpid());
	const struct {
		const char *name;
		const char *why;
	} cases[] = {
		{dead, "Connection refused"},
		{stale, "Connection refused"},
		{"unix:/nowhere/ids", "No such file or directory"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(SnowflakeClient) client = client_of_name(cases[i].name);
		g_autofree char *message =
			g_strdup_printf("%s: cannot connect: %s", cases[i].name, cases[i].why);
		g_autoptr(GError) error = NULL;
		gint64 id = 4711;

		g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE);
		g_assert_cmpstr(error->message, ==, message);
		g_assert_cmpint(id, ==, 4711);
	}
	close(dead_fd);
}

static void assert_invalid(gboolean done, GError **error)
{
	g_assert_false(done);
	g_assert_error(*error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
	g_clear_error(error);
}

TEST("/client/refuses-wrong-arguments", refuses_wrong_arguments)
{
	static const char *const wrong[] = {"local host", "unix:ids"};
	Service service = {.largest_batch = 1000};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
	g_autofree char *long_agent = g_strnfill(257, 'a');
	g_autoptr(GError) error = NULL;
	gint64 id = 4711;

	for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
		const char *const servers[] = {"localhost", wrong[i], NULL};

		assert_invalid(snowflake_client_new(servers, &error) != NULL, &error);
	}
	for (guint i = 0; i < 2; i++) {
		SnowflakeClient *one = i == 0 ? client : NULL;

		assert_invalid(snowflake_client_get_id(one, long_agent, &id, &error), &error);
		assert_invalid(snowflake_client_get_id(one, NULL, &id, &error), &error);
		assert_invalid(snowflake_client_get_id(one, "agent", NULL, &error), &error);
		assert_invalid(snowflake_client_get_ids(one, NULL, 1, &id, &error), &error);
		assert_invalid(snowflake_client_get_ids(one, "agent", 0, &id, &error), &error);
		assert_invalid(snowflake_client_get_ids(one, "agent", 1, NULL, &error), &error);
		assert_invalid(snowflake_client_get_timestamp(one, NULL, &error), &error);
		g_assert_false(snowflake_client_get_id(one, NULL, &id, NULL));
	}
	assert_invalid(snowflake_client_set_tls(
			       client, &(const SnowflakeClientTls){.reserved = {&id}}, &error),
		       &error);
	assert_invalid(snowflake_client_get_worker(NULL, &error) != NULL, &error);
	assert_invalid(snowflake_client_get_workers(NULL, &error) != NULL, &error);
	g_assert_null(snowflake_client_get_worker(NULL, NULL));
	g_assert_cmpint(id, ==, 4711);
	g_assert_cmpuint(fake_server_requests(server), ==, 0);
}

/* A connection to an IP address needs one descriptor at a time. No other thread opens or closes
 * any: a server that waits in accept() would take one. */
TEST("/client/out-of-descriptors", out_of_descriptors)
{
	g_autofree char *silent = NULL;
	int listener = fake_silent_new(TRUE, &silent);
	g_autoptr(SnowflakeClient) client = client_of_name(silent);
	g_autoptr(GArray) fds = g_array_new(FALSE, FALSE, sizeof(int));
	g_autoptr(GError) error = NULL, connected = NULL;
	struct rlimit before, few;
	gint64 id;
	int fd;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &before), ==, 0);
	few = (struct rlimit){.rlim_cur = 64, .rlim_max = before.rlim_max};
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &few), ==, 0);
	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		g_array_append_val(fds, fd);
	g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE);
	g_assert_nonnull(strstr(error->message, g_strerror(EMFILE)));
	close(g_array_index(fds, int, 0));
	snowflake_client_set_timeout_ms(client, 100);
	g_assert_false(snowflake_client_get_id(client, "agent", &id, &connected));
	g_assert_error(connected, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT);
	for (guint i = 1; i < fds->len; i++)
		close(g_array_index(fds, int, i));
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &before), ==, 0);
	close(listener);
}

static const FakeRefusal refusals[] = {
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

static gboolean get_one(SnowflakeClient *client, const FakeRefusal *refusal, GError **error)
{
	gint64 id = 4711;
	gboolean got = refusal->message != NULL
			       ? snowflake_client_get_id(client, "agent", &id, error)
			       : snowflake_client_get_ids(client, "agent", 1, &id, error);

	g_assert_true(got == (id != 4711));
	return got;
}

/* With one server, the client reports the refusal. With two, it fails over if the other server may
 * serve the call. */
TEST("/client/fails-over", fails_over_where_that_helps)
{
	for (gsize i = 0; i < G_N_ELEMENTS(refusals); i++) {
		const FakeRefusal *refusal = &refusals[i];
		Service service = {.largest_batch = 1000};
		g_autoptr(FakeServer) first = fake_server_new(fake_refuse, (gpointer)refusal);
		g_autoptr(FakeServer) second = fake_server_new(serve, &service);
		g_autoptr(SnowflakeClient) client = fake_server_client(first, NULL);

		g_test_message("refusal %zu", i);
		for (guint n = 1; n <= 3; n++) {
			g_autoptr(GError) error = NULL;

			g_assert_false(get_one(client, refusal, &error));
			g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, (gint)refusal->code);
			g_assert_cmpint(snowflake_client_get_retry_after_ms(client), ==,
					refusal->retry_after_ms);
			g_assert_cmpuint(fake_server_requests(first), ==, n);
		}
		if (refusal->code != SNOWFLAKE_CLIENT_ERROR_PROTOCOL)
			g_assert_cmpuint(fake_server_connections(first), ==, 1);
		/* the server has one connection at a time */
		snowflake_client_free(client);
		client = fake_server_client(first, second);
		g_assert_true(get_one(client, refusal, NULL) == refusal->another_may_serve);
		g_assert_cmpuint(fake_server_requests(first), ==, 4);
		g_assert_cmpuint(fake_server_requests(second), ==, refusal->another_may_serve);
		if (!refusal->another_may_serve)
			continue;
		/* and stays there */
		g_assert_cmpstr(snowflake_client_get_server(client), ==, fake_server_text(second));
		g_assert_true(get_one(client, refusal, NULL));
		g_assert_cmpuint(fake_server_requests(first), ==, 4);
	}
}

TEST("/client/retries-once", retries_once)
{
	g_autoptr(FakeServer) first = fake_server_new(fake_refuse, (gpointer)&refusals[0]);
	g_autoptr(FakeServer) second = fake_server_new(fake_refuse, (gpointer)&refusals[2]);
	g_autoptr(SnowflakeClient) client = fake_server_client(first, second);
	g_autoptr(GError) error = NULL;

	g_assert_false(get_one(client, &refusals[0], &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	/* the error has the message of both */
	g_assert_nonnull(strstr(error->message, "InvalidSystemClock"));
	g_assert_nonnull(strstr(error->message, "WorkerIdUnavailable"));
	g_assert_cmpuint(fake_server_requests(first), ==, 1);
	g_assert_cmpuint(fake_server_requests(second), ==, 1);
}

static FakeNext note_seqid(const FakeRequest *request, GByteArray *out, gpointer last_seqid)
{
	atomic_store((atomic_int *)last_seqid, request->seqid);
	fake_reply_i64(out, request, 1);
	return FAKE_KEEP;
}

/* Each client starts at its own sequence ID and counts across connections. */
TEST("/client/numbers-its-calls", numbers_its_calls)
{
	gint32 firsts[2];

	for (gsize i = 0; i < G_N_ELEMENTS(firsts); i++) {
		atomic_int last_seqid = -1;
		g_autoptr(FakeServer) server = fake_server_new(note_seqid, &last_seqid);
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);

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
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
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

/* Serves 1000 IDs, then reports InvalidSystemClock. */
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
	g_autoptr(SnowflakeClient) client = fake_server_client(first, second);
	g_autoptr(GError) error = NULL;
	gint64 ids[COUNT];

	assert_done(snowflake_client_get_ids(client, "agent", COUNT, ids, &error), &error);
	g_assert_cmpint(ids[999], ==, 1000);
	g_assert_cmpint(ids[1000], ==, 5001);
	/* 250 after the failure of the first server, 1000, 1000, 250 */
	g_assert_cmpuint(atomic_load(&large.n_get_ids), ==, 4);
}

TEST("/client/reports-progress", reports_progress)
{
	Service service = {.largest_batch = 1000};
	g_autoptr(FakeServer) server = fake_server_new(serve_1000, &service);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
	g_autofree char *message = g_strdup_printf(
		"after 1000 of 1500 IDs: %s: InvalidSystemClock: why", fake_server_text(server));
	g_autoptr(GError) error = NULL;
	gint64 ids[1500];

	g_assert_false(snowflake_client_get_ids(client, "agent", 1500, ids, &error));
	g_assert_cmpstr(error->message, ==, message);
}

static FakeNext list_many(const FakeRequest *request, GByteArray *out, gpointer count)
{
	if (g_str_equal(request->method, "get_workers"))
		fake_reply_workers(out, request, *(const guint *)count);
	else
		fake_reply_counters(out, request, *(const guint *)count);
	return FAKE_KEEP;
}

/* The longest replies: as many workers as the layout "twitter" allows. */
TEST("/client/lists", lists)
{
	guint count = 1024;
	g_autoptr(FakeServer) server = fake_server_new(list_many, &count);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
	g_autoptr(GPtrArray) workers = snowflake_client_get_workers(client, NULL);
	g_autoptr(GPtrArray) counters = snowflake_client_get_counters(client, NULL);
	const SnowflakeClientWorker *last = workers->pdata[count - 1];
	g_autoptr(SnowflakeClientWorker) copy = snowflake_client_worker_copy(last);
	const SnowflakeClientCounter *third = counters->pdata[2];

	g_assert_cmpuint(workers->len, ==, count);
	g_assert_cmpint(copy->worker_id, ==, (gint32)count - 1);
	g_assert_cmpstr(copy->address, ==, last->address);
	g_assert_true(copy->address != last->address);
	g_assert_cmpint(last->worker_id, ==, (gint32)count - 1);
	g_assert_cmpstr(last->address, ==, "host.example:7609");
	g_assert_cmpstr(last->state, ==, "serving");
	/* counters are sorted by name */
	g_assert_cmpuint(counters->len, ==, count);
	g_assert_cmpstr(third->name, ==, "c10");
	g_assert_cmpint(third->value, ==, 10);
}

TEST("/client/reports-a-silent-registry", reports_a_silent_registry)
{
	static const FakeRefusal refusal = {.field = 1, .retry_after_ms = 1000};
	g_autoptr(FakeServer) server = fake_server_new(fake_refuse, (gpointer)&refusal);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
	g_autoptr(GError) error = NULL;

	g_assert_null(snowflake_client_get_workers(client, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	g_assert_true(g_str_has_suffix(error->message, "RegistryUnavailable: why"));
	g_assert_cmpint(snowflake_client_get_retry_after_ms(client), ==, 1000);
}

static void assert_unsupported(gpointer got, GError **error)
{
	g_assert_null(got);
	g_assert_error(*error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED);
	g_clear_error(error);
}

TEST("/client/reports-unsupported-calls", reports_unsupported_calls)
{
	Service service = {0};
	g_autoptr(FakeServer) server = fake_server_new(serve, &service);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
	g_autoptr(GError) error = NULL;
	gint64 id;

	assert_unsupported(snowflake_client_get_worker(client, &error), &error);
	assert_unsupported(snowflake_client_get_workers(client, &error), &error);
	assert_unsupported(snowflake_client_get_counters(client, &error), &error);
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
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);

	call_many_times(client, 100);

	size_t before = mallinfo2().uordblks;

	call_many_times(client, 33333);
	g_assert_cmpuint(mallinfo2().uordblks, <, before + 64 * 1024);
}

/* When a server misbehaves, the client reports the right error in bounded time, and no ID. */

#define SHORT_MS 200 /* timeout for calls that must time out */

#define BYTES(text) text, sizeof(text) - 1

typedef struct {
	const char *name;
	const char *bytes; /* NULL for a reply to get_id */
	gsize length;
	gint32 seqid_offset; /* added to the sequence ID of that reply */
	gboolean is_half;
	FakeNext next;
	SnowflakeClientError code;
} Misbehaviour;

static const Misbehaviour misbehaviours[] = {
	{"HTTP", BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), 0, FALSE, FAKE_KEEP,
	 SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"an empty frame", BYTES("\0\0\0\0"), 0, FALSE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"a frame that is too large", BYTES("\0\1\0\1"), 0, FALSE, FAKE_KEEP,
	 SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"a huge frame", BYTES("\xff\xff\xff\xff"), 0, FALSE, FAKE_KEEP,
	 SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"a closed connection", BYTES(""), 0, FALSE, FAKE_CLOSE,
	 SNOWFLAKE_CLIENT_ERROR_UNREACHABLE},
	{"nothing", BYTES(""), 0, FALSE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"half a frame", NULL, 0, 0, TRUE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"half a frame, then a closed connection", NULL, 0, 0, TRUE, FAKE_CLOSE,
	 SNOWFLAKE_CLIENT_ERROR_UNREACHABLE},
	/* the whole reply takes longer than the timeout, but no single pause does */
	{"one byte at a time", NULL, 0, 0, FALSE, FAKE_DRIP, SNOWFLAKE_CLIENT_ERROR_TIMEOUT},
	{"the next sequence ID", NULL, 0, 1, FALSE, FAKE_KEEP, SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
	{"the previous sequence ID", NULL, 0, -1, FALSE, FAKE_KEEP,
	 SNOWFLAKE_CLIENT_ERROR_PROTOCOL},
};

static FakeNext misbehave(const FakeRequest *request, GByteArray *out, gpointer data)
{
	const Misbehaviour *how = data;
	FakeRequest answered = *request;

	answered.seqid += how->seqid_offset;
	if (how->bytes != NULL)
		g_byte_array_append(out, (const guint8 *)how->bytes, (guint)how->length);
	else
		fake_reply_i64(out, &answered, 42);
	if (how->is_half)
		g_byte_array_set_size(out, out->len / 2);
	return how->next;
}

TEST("/client/hostile/get-id", hostile_get_id)
{
	for (gsize i = 0; i < G_N_ELEMENTS(misbehaviours); i++) {
		const Misbehaviour *how = &misbehaviours[i];
		g_autoptr(FakeServer) server = fake_server_new(misbehave, (gpointer)how);
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
		gboolean times_out = how->code == SNOWFLAKE_CLIENT_ERROR_TIMEOUT;

		g_test_message("%s", how->name);
		if (times_out)
			snowflake_client_set_timeout_ms(client, SHORT_MS);
		/* the second call must not be affected by the first */
		for (guint n = 0; n < 2; n++) {
			g_autoptr(GError) error = NULL;
			gint64 id = 4711;

			g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
			g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, (gint)how->code);
			g_assert_cmpint(id, ==, 4711);
			g_assert_true(g_str_has_prefix(error->message, fake_server_text(server)));
		}
		if (!times_out)
			g_assert_cmpuint(fake_server_requests(server), ==, 2);
	}
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

/* The client does not ask for fewer IDs after a wrong reply. An ID from get_id that is out of order
 * is an error, too. */
TEST("/client/hostile/get-ids", hostile_get_ids)
{
	static const struct {
		FakeAnswer answer;
		guint requests;
	} batches[] = {{one_id_too_few, 1}, {always_id_7, 3}};

	for (gsize i = 0; i < G_N_ELEMENTS(batches); i++) {
		g_autoptr(FakeServer) server = fake_server_new(batches[i].answer, NULL);
		g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
		g_autoptr(GError) error = NULL;
		gint64 ids[5] = {4711, 4711, 4711, 4711, 4711};

		g_assert_false(snowflake_client_get_ids(client, "agent", 5, ids, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
		for (gsize j = 0; j < G_N_ELEMENTS(ids); j++)
			g_assert_cmpint(ids[j], ==, 4711);
		g_assert_cmpuint(fake_server_requests(server), ==, batches[i].requests);
	}
}

/* Refuses every count and closes the connection. */
static FakeNext refuse_every_count(const FakeRequest *request, GByteArray *out,
				   G_GNUC_UNUSED gpointer data)
{
	fake_reply_declared(out, request, 4, "too many", 0);
	return FAKE_CLOSE;
}

/* The client asks for fewer and fewer IDs, and gives up. Its error is about the last count or about
 * the closed connection, depending on the timing. */
TEST("/client/hostile/refuses-every-count", hostile_refuses_every_count)
{
	g_autoptr(FakeServer) server = fake_server_new(refuse_every_count, NULL);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
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

	++*last_id;
	for (guint i = 0; i < 2; i++) {
		g_autoptr(GByteArray) once = g_byte_array_new();

		fake_reply_i64(once, request, *last_id);
		g_byte_array_append(out, once->data, once->len);
	}
	return FAKE_KEEP;
}

/* The second copy arrives before the next call, which uses a new connection. */
TEST("/client/hostile/answers-twice", hostile_answers_twice)
{
	gint64 last_id = 0;
	g_autoptr(FakeServer) server = fake_server_new(each_answer_twice, &last_id);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);

	for (guint i = 1; i <= 20; i++) {
		gint64 id;

		g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
		g_assert_cmpint(id, ==, i);
		g_assert_cmpuint(fake_server_connections(server), ==, i);
	}
}

/* Answers all calls with the answer to the first one. */
static FakeNext the_first_answer_again(const FakeRequest *request, GByteArray *out, gpointer data)
{
	GByteArray *first = data;

	if (first->len == 0)
		fake_reply_i64(first, request, 42);
	g_byte_array_append(out, first->data, first->len);
	return FAKE_KEEP;
}

TEST("/client/hostile/answers-again", hostile_answers_again)
{
	g_autoptr(GByteArray) first = g_byte_array_new();
	g_autoptr(FakeServer) server = fake_server_new(the_first_answer_again, first);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
	gint64 id;

	g_assert_true(snowflake_client_get_id(client, "agent", &id, NULL));
	for (guint i = 1; i <= 3; i++) {
		g_autoptr(GError) error = NULL;

		g_assert_false(snowflake_client_get_id(client, "agent", &id, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL);
		g_assert_true(g_str_has_suffix(error->message, "the reply to another call"));
		g_assert_cmpuint(fake_server_connections(server), ==, i);
	}
}

TEST("/client/hostile/terminal", hostile_terminal)
{
	static const FakeRefusal refusal = {"InvalidSystemClock: \x1b[2J\xff\n", .type = 6};
	g_autoptr(FakeServer) server = fake_server_new(fake_refuse, (gpointer)&refusal);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);
	g_autoptr(GError) error = NULL;

	g_assert_false(get_one(client, &refusal, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_CLOCK);
	g_assert_true(g_str_has_suffix(error->message, ": InvalidSystemClock: ?[2J??"));
}
