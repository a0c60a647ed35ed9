/* SPDX-License-Identifier: Apache-2.0 */

/* Servers that hang, go away and come back. */

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/snowflake-client.h"
#include "common/socket.h"
#include "options/options-table.h"
#include "tests/unit/client/fake-server.h"
#include "tests/unit/client/meets-itself.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/open-fds.h"
#include "tests/unit/unit-test.h"

#define MAX_SERVERS  30
#define HANGING_NAME "hanging.example"

static FakeNext serve(const FakeRequest *request, GByteArray *out, G_GNUC_UNUSED gpointer data)
{
	fake_reply_i64(out, request, 1);
	return FAKE_KEEP;
}

/* @data: the FakeServer that must have been asked meanwhile */
static FakeNext serve_when_another_was_asked(const FakeRequest *request, GByteArray *out,
					     gpointer data)
{
	while (fake_server_requests(data) == 0)
		poll(NULL, 0, 1);
	return serve(request, out, NULL);
}

static FakeNext say_nothing(G_GNUC_UNUSED const FakeRequest *request, G_GNUC_UNUSED GByteArray *out,
			    G_GNUC_UNUSED gpointer data)
{
	return FAKE_KEEP;
}

static FakeNext lack_worker_id(const FakeRequest *request, GByteArray *out,
			       G_GNUC_UNUSED gpointer data)
{
	fake_reply_exception(out, request, 6, "WorkerIdUnavailable: why");
	return FAKE_KEEP;
}

/* Makes a listener whose backlog one connection fills, so that no other connection is made.
 * @address: (inout): where to listen
 * Returns: %FALSE if the machine has no such address, or it is in use */
static gboolean deaf_at(struct sockaddr *address, socklen_t length, int out_fds[2])
{
	for (guint i = 0; i < 2; i++)
		out_fds[i] = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return bind(out_fds[0], address, length) == 0 && listen(out_fds[0], 0) == 0 &&
	       getsockname(out_fds[0], address, &length) == 0 &&
	       connect(out_fds[1], address, length) == 0;
}

static char *deaf_server(int out_fds[2])
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	g_assert_true(deaf_at((struct sockaddr *)&v4, sizeof(v4), out_fds));
	return g_strdup_printf("127.0.0.1:%u", ntohs(v4.sin_port));
}

static char *deaf_local_server(int out_fds[2])
{
	char *name = g_strdup_printf("unix:@test-failover-%d", getpid());
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(name + strlen("unix:"), &address);

	g_assert_true(deaf_at((struct sockaddr *)&address, length, out_fds));
	return name;
}

/* The lookup of one name hangs while a test holds this lock. */
static pthread_mutex_t looking_up = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint n_lookups;

/* Replaces the function of the C library. */
int getaddrinfo(const char *restrict name, const char *restrict service,
		const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
	int (*look_up)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (name == NULL || !g_str_equal(name, HANGING_NAME)) {
		*(void **)&look_up = dlsym(RTLD_NEXT, "getaddrinfo");
		return look_up(name, service, hints, out);
	}
	atomic_fetch_add(&n_lookups, 1);
	pthread_mutex_lock(&looking_up);
	pthread_mutex_unlock(&looking_up);
	return EAI_AGAIN;
}

/* Returns a client for @n times @bad, then @good unless it is %NULL. */
static SnowflakeClient *client_of(const char *bad, guint n, const char *good)
{
	const char *servers[MAX_SERVERS + 2] = {NULL};
	g_autoptr(GError) error = NULL;

	g_assert_cmpuint(n, <=, MAX_SERVERS);
	for (guint i = 0; i < n; i++)
		servers[i] = bad;
	servers[n] = good;

	SnowflakeClient *client = snowflake_client_new(servers, &error);

	g_assert_no_error(error);
	snowflake_client_set_retry(client, FALSE);
	return client;
}

static gboolean get_id(SnowflakeClient *client, GError **error)
{
	gint64 id;

	return snowflake_client_get_id(client, "agent", &id, error);
}

/* Servers that hang, and their addresses. */
typedef struct {
	FakeServer *mute;
	char *deaf, *deaf_local;
	int fds[4];
	const char *servers[4];
} Hanging;

static void hanging_init(Hanging *self)
{
	self->mute = fake_server_new(say_nothing, NULL);
	self->deaf = deaf_server(self->fds);
	self->deaf_local = deaf_local_server(self->fds + 2);
	self->servers[0] = fake_server_text(self->mute);
	self->servers[1] = self->deaf;
	self->servers[2] = HANGING_NAME;
	self->servers[3] = self->deaf_local;
	pthread_mutex_lock(&looking_up);
}

/* Call this after the clients have been freed. */
static void hanging_clear(Hanging *self)
{
	pthread_mutex_unlock(&looking_up);
	for (gsize i = 0; i < G_N_ELEMENTS(self->fds); i++)
		close(self->fds[i]);
	g_free(self->deaf);
	g_free(self->deaf_local);
	fake_server_free(self->mute);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Hanging, hanging_clear)

/* The timeout applies with any number of servers. */
TEST("/failover/times-out", times_out)
{
	static const guint n_servers[] = {1, MAX_SERVERS};
	g_auto(Hanging) hanging = {0};

	hanging_init(&hanging);
	for (gsize i = 0; i < G_N_ELEMENTS(hanging.servers); i++) {
		for (gsize j = 0; j < G_N_ELEMENTS(n_servers); j++) {
			g_autoptr(SnowflakeClient) client =
				client_of(hanging.servers[i], n_servers[j], NULL);
			g_autoptr(GError) error = NULL;

			g_test_message("%u of %s", n_servers[j], hanging.servers[i]);
			snowflake_client_set_timeout_ms(client, 300);
			g_assert_false(get_id(client, &error));
			g_assert_error(error, SNOWFLAKE_CLIENT_ERROR,
				       SNOWFLAKE_CLIENT_ERROR_TIMEOUT);
			if (n_servers[j] == 1 && hanging.servers[i] == hanging.deaf_local)
				g_assert_nonnull(
					strstr(error->message, "no connection within 300 ms"));
		}
	}
	g_assert_cmpuint(atomic_load(&n_lookups), >, 0);
}

TEST("/failover/leaves-a-crowd", leaves_a_crowd_for_another_server)
{
	int fds[2];
	g_autofree char *deaf = deaf_local_server(fds);
	g_autoptr(FakeServer) other = fake_server_new(serve, NULL);
	g_autoptr(SnowflakeClient) client = client_of(deaf, 1, fake_server_text(other));

	g_assert_true(get_id(client, NULL));
	close(fds[0]);
	close(fds[1]);
}

static void connect_by_name(const char *server)
{
	g_autoptr(SnowflakeClient) client = client_of(server, 1, NULL);
	g_autoptr(GError) error = NULL;

	g_assert_true(get_id(client, &error));
	g_assert_no_error(error);
}

/* localhost is ::1 and 127.0.0.1 on most machines. An attempt at ::1 hangs here. */
TEST("/failover/leaves-nothing-behind", leaves_nothing_behind_at_an_address_that_hangs)
{
	guint before = count_open_sockets();
	g_autoptr(FakeServer) server = fake_server_new(serve, NULL);
	const char *port = strchr(fake_server_text(server), ':') + 1;
	g_autofree char *by_name = g_strdup_printf("localhost:%s", port);
	g_autofree char *hanging = g_strdup_printf("[::1]:%s", port);
	g_autoptr(SnowflakeClient) client = client_of(hanging, 1, NULL);
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
		.sin6_port = htons((guint16)atoi(port)),
	};
	g_autoptr(GError) error = NULL;
	int fds[2];

	if (!deaf_at((struct sockaddr *)&v6, sizeof(v6), fds)) {
		g_test_skip("no IPv6 on this machine, or the port is taken");
	} else {
		snowflake_client_set_timeout_ms(client, 100);
		g_assert_false(get_id(client, &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT);
		for (guint i = 0; i < 4; i++)
			connect_by_name(by_name);
	}
	close(fds[0]);
	close(fds[1]);
	g_clear_pointer(&client, snowflake_client_free);
	g_clear_pointer(&server, fake_server_free);
	g_assert_cmpuint(count_open_sockets(), ==, before);
}

static int max_wait_ms(void)
{
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		if (g_str_equal(OPTIONS_TABLE[i].name, "max-wait"))
			return atoi(OPTIONS_TABLE[i].default_text);
	g_assert_not_reached();
}

/* A server lets a call wait before it refuses it. The timeout is enough for two such refusals. */
TEST("/failover/leaves-time-for-two-refusals", leaves_time_for_two_refusals)
{
	g_assert_cmpint(2 * max_wait_ms(), <, SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS);
}

TEST("/failover/does-not-take-itself-for-a-server", does_not_take_itself_for_a_server)
{
	g_autofree char *dead = NULL;
	int dead_fd = fake_silent_new(FALSE, &dead);
	g_autofree char *message =
		g_strdup_printf("%s: cannot connect: %s", dead, g_strerror(ECONNREFUSED));
	g_autoptr(SnowflakeClient) client = client_of(dead, 1, NULL);
	g_autoptr(GError) error = NULL;

	meets_itself_set(TRUE);
	g_assert_false(get_id(client, &error));
	meets_itself_set(FALSE);
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE);
	g_assert_cmpstr(error->message, ==, message);
	close(dead_fd);
}

/* Without retries. */
TEST("/failover/asks-each-server-once", asks_each_server_once)
{
	g_autoptr(FakeServer) bad = fake_server_new(lack_worker_id, NULL);
	g_autoptr(FakeServer) worse = fake_server_new(lack_worker_id, NULL);
	g_autoptr(FakeServer) good = fake_server_new(serve, NULL);
	g_autoptr(SnowflakeClient) hopeless = fake_server_client(bad, worse);
	g_autofree char *all = g_strdup_printf("%s, %s,%s", fake_server_text(bad),
					       fake_server_text(worse), fake_server_text(good));
	g_autoptr(SnowflakeClient) client = client_of(all, 1, NULL);
	g_autoptr(GError) error = NULL;

	snowflake_client_set_timeout_ms(client, HANG_GUARD_MS);
	snowflake_client_set_attempt_timeout_ms(client, HANG_GUARD_MS);
	g_assert_false(get_id(hopeless, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	g_clear_pointer(&hopeless, snowflake_client_free);
	g_assert_true(get_id(client, NULL));
	g_assert_cmpuint(fake_server_requests(bad), ==, 2);
	g_assert_cmpuint(fake_server_requests(worse), ==, 2);
	g_assert_cmpuint(fake_server_requests(good), ==, 1);
}

static FakeNext lack_worker_id_at_first(const FakeRequest *request, GByteArray *out, gpointer data)
{
	atomic_uint *n_left = data;

	if (atomic_load(n_left) == 0)
		return serve(request, out, NULL);
	atomic_fetch_sub(n_left, 1);
	return lack_worker_id(request, out, NULL);
}

/* On the same connection. */
TEST("/failover/retries", retries_until_a_server_serves)
{
	atomic_uint n_left = 5;
	g_autoptr(FakeServer) server = fake_server_new(lack_worker_id_at_first, &n_left);
	g_autoptr(SnowflakeClient) client = fake_server_client(server, NULL);

	snowflake_client_set_retry(client, TRUE);
	g_assert_true(get_id(client, NULL));
	g_assert_cmpuint(fake_server_requests(server), ==, 6);
	g_assert_cmpuint(fake_server_connections(server), ==, 1);
}

/* The reply of the first server comes after the second one was asked. */
TEST("/failover/waits-for-a-slow-server", waits_for_a_slow_server)
{
	g_autoptr(FakeServer) mute = fake_server_new(say_nothing, NULL);
	g_autoptr(FakeServer) slow = fake_server_new(serve_when_another_was_asked, mute);
	g_autoptr(SnowflakeClient) client = fake_server_client(slow, mute);

	snowflake_client_set_attempt_timeout_ms(client, 1);
	g_assert_true(get_id(client, NULL));
	g_assert_cmpstr(snowflake_client_get_server(client), ==, fake_server_text(slow));
	g_assert_cmpuint(fake_server_connections(slow), ==, 1);
}

/* The deadline of the call is far away. */
TEST("/failover/leaves-a-server-that-hangs", leaves_a_server_that_hangs)
{
	g_autoptr(FakeServer) mute = fake_server_new(say_nothing, NULL);
	g_autoptr(FakeServer) other = fake_server_new(serve, NULL);
	g_autoptr(SnowflakeClient) client = fake_server_client(mute, other);

	snowflake_client_set_timeout_ms(client, G_MAXUINT);
	snowflake_client_set_attempt_timeout_ms(client, 0);
	for (guint i = 0; i < 2; i++) {
		g_assert_true(get_id(client, NULL));
		g_assert_cmpstr(snowflake_client_get_server(client), ==, fake_server_text(other));
	}
	g_assert_cmpuint(fake_server_requests(mute), <=, 1);
}

/* Answers calls as a script says, with one letter per call; the last letter repeats: (s)erve, serve
 * and (e)nd the connection, (c)lose, close after (h)alf an answer, s(t)op. */
typedef struct {
	const char *letters;
	guint at;
} Script;

static FakeNext follow(const FakeRequest *request, GByteArray *out, gpointer data)
{
	Script *script = data;
	char letter = script->letters[script->at];

	if (script->letters[script->at + 1] != '\0')
		script->at++;
	if (letter == 's' || letter == 'e' || letter == 'h')
		fake_reply_i64(out, request, 1);
	if (letter == 'h')
		g_byte_array_set_size(out, out->len / 2);
	return letter == 's' ? FAKE_KEEP : letter == 't' ? FAKE_STOP : FAKE_CLOSE;
}

/* One server in the list, and the connection of the previous call breaks during the call. */
TEST("/failover/repeats-a-call", repeats_a_call_whose_connection_breaks)
{
	static const struct {
		const char *letters;
		const char *calls; /* expected result of each call: (w)ell or (b)ad */
		guint n_requests;
	} cases[] = {
		{"scs", "www", 4},   {"shs", "www", 4},
		{"scshs", "www", 5}, {"sc", "wb", 3}, /* the client repeats a call once only */
		{"cs", "bw", 2}, /* no repetition on a connection made for the call */
		{"st", "wb", 2}, /* there is no other */
		{"e", "wwww", 4},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		Script script = {cases[i].letters, 0};
		g_autoptr(FakeServer) server = fake_server_new(follow, &script);
		g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), 1, NULL);

		g_test_message("%s", cases[i].letters);
		for (const char *call = cases[i].calls; *call != '\0'; call++) {
			g_autoptr(GError) error = NULL;

			g_assert_true(get_id(client, &error) == (*call == 'w'));
			if (error != NULL)
				g_assert_error(error, SNOWFLAKE_CLIENT_ERROR,
					       SNOWFLAKE_CLIENT_ERROR_UNREACHABLE);
		}
		g_assert_cmpuint(fake_server_requests(server), ==, cases[i].n_requests);
	}
}

/* Eight addresses that differ in their last digit and have no listener: the kernel never assigns
 * port 1. */
static char **dead_servers(void)
{
	char **servers = g_new0(char *, 9);

	for (guint i = 0; i < 8; i++)
		servers[i] = g_strdup_printf("127.0.0.%u:1", i + 1);
	return servers;
}

static SnowflakeClient *shuffled_client(char **servers)
{
	SnowflakeClient *client = snowflake_client_new((const char *const *)servers, NULL);

	snowflake_client_set_retry(client, FALSE);
	snowflake_client_shuffle_servers(client);
	return client;
}

static char last_digit(const char *server)
{
	return server[strlen("127.0.0.")];
}

/* Returns the digits of the servers in the order in which a failing call tries them. */
static char *order_of(SnowflakeClient *client)
{
	g_autoptr(GError) error = NULL;

	g_assert_false(get_id(client, &error));

	g_auto(GStrv) messages = g_strsplit(error->message, "; ", -1);
	GString *order = g_string_new(NULL);

	for (guint i = 0; messages[i] != NULL; i++)
		g_string_append_c(order, last_digit(messages[i]));
	return g_string_free(order, FALSE);
}

/* Without a shuffle, servers are tried in list order. A random first server alone would give 8
 * orders; a shuffle gives more. */
TEST("/failover/shuffles-servers", shuffles_servers)
{
	g_auto(GStrv) servers = dead_servers();
	g_autoptr(GHashTable) orders = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	g_autoptr(SnowflakeClient) plain = snowflake_client_new((const char *const *)servers, NULL);
	g_autofree char *as_given = order_of(plain);

	g_assert_cmpstr(as_given, ==, "12345678");
	for (guint i = 0; i < 30; i++) {
		g_autoptr(SnowflakeClient) client = shuffled_client(servers);
		char *order = order_of(client);

		g_assert_cmpuint(strlen(order), ==, 8);
		for (const char *digit = "12345678"; *digit != '\0'; digit++)
			g_assert_nonnull(strchr(order, *digit));
		g_hash_table_add(orders, order);
	}
	g_assert_cmpuint(g_hash_table_size(orders), >, 8);
}

TEST("/failover/any-server-may-be-the-first", any_server_may_be_the_first)
{
	g_auto(GStrv) servers = dead_servers();
	guint n_first[8] = {0};

	for (guint i = 0; i < 8 * 100; i++) {
		g_autoptr(SnowflakeClient) client = shuffled_client(servers);

		n_first[last_digit(snowflake_client_get_server(client)) - '1']++;
	}
	/* 100 on average, and 50 is more than five standard deviations off */
	for (guint i = 0; i < 8; i++)
		g_assert_cmpuint(n_first[i], >, 50);
}

TEST("/failover/shuffles-what-is-in-use", shuffles_what_is_in_use)
{
	g_autoptr(FakeServer) server = fake_server_new(serve, NULL);
	g_autoptr(SnowflakeClient) client = client_of(fake_server_text(server), 1, NULL);

	for (guint i = 1; i <= 3; i++) {
		g_assert_true(get_id(client, NULL));
		g_assert_true(get_id(client, NULL));
		g_assert_cmpuint(fake_server_connections(server), ==, i);
		snowflake_client_shuffle_servers(client);
	}
}
