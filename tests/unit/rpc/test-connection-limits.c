/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rpc/connection-limits.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

#define SECOND_US G_GINT64_CONSTANT(1000000)
#define LONG_US   (100 * SECOND_US)
#define MOST      200
#define IDLE_MS   10000
#define NOBODY    1000

/* Both ends of loopback connections. The test decides which are idle. */
typedef struct {
	ConnectionLimitsConfig config;
	ConnectionLimits *table;
	gint64 now_us;
	guint n;
	int servers[MOST];
	int clients[MOST];
	ConnectionEntry *entries[MOST];
} Crowd;

static struct {
	gboolean idle[1024]; /* indexed by descriptor */
	guint asked;
} kernel;

static gboolean is_idle(int fd, guint idle_ms)
{
	g_assert_cmpuint(idle_ms, ==, IDLE_MS);
	kernel.asked++;
	return kernel.idle[fd];
}

static Crowd *crowd_new(guint max_connections, guint max_per_address)
{
	Crowd *self = g_new0(Crowd, 1);

	memset(&kernel, 0, sizeof kernel);
	self->config = (ConnectionLimitsConfig){max_connections, max_per_address, IDLE_MS, is_idle};
	self->table = connection_limits_new(&self->config);
	self->now_us = LONG_US;
	return self;
}

static void leave(Crowd *self, guint i)
{
	if (self->entries[i] == NULL)
		return;
	connection_limits_remove(g_steal_pointer(&self->entries[i]));
	close(self->servers[i]);
	close(self->clients[i]);
}

static void crowd_free(Crowd *self)
{
	for (guint i = 0; i < self->n; i++)
		leave(self, i);
	g_assert_cmpuint(connection_limits_n_connections(self->table), ==, 0);
	connection_limits_free(self->table);
	g_free(self);
}

static void connect_pair(int *out_server, int *out_client)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	g_assert_cmpint(bind(listener, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(listen(listener, 1), ==, 0);
	g_assert_cmpint(getsockname(listener, (struct sockaddr *)&address, &length), ==, 0);
	*out_client = socket(AF_INET, SOCK_STREAM, 0);
	g_assert_cmpint(connect(*out_client, (struct sockaddr *)&address, length), ==, 0);
	*out_server = accept(listener, NULL, NULL);
	g_assert_cmpint(*out_server, >=, 0);
	close(listener);
}

/* Parses an address, or "uid " and a user ID, for a local socket. */
static Origin parse(const char *text)
{
	struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
	struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;

	if (g_str_has_prefix(text, "uid ")) {
		Origin origin = {.is_local = TRUE};

		g_snprintf(origin.text, sizeof origin.text, "unix:uid=%s", text + strlen("uid "));
		return origin;
	}
	if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
		address.ss_family = AF_INET;
	else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
		address.ss_family = AF_INET6;
	return origin_of_peer(-1, (const struct sockaddr *)&address);
}

/* Adds a connection as if from @address. If it is admitted, its index is n - 1. */
static ConnectionLimitsVerdict arrive(Crowd *self, const char *address)
{
	const Origin from = parse(address);
	g_autofree char *left = NULL;
	ConnectionLimitsVerdict verdict;
	guint i = self->n;

	g_assert_cmpuint(i, <, MOST);
	connect_pair(&self->servers[i], &self->clients[i]);
	kernel.idle[self->servers[i]] = FALSE;
	verdict = connection_limits_admit(self->table, self->servers[i], &from, self->now_us,
					  &self->entries[i], &left);
	if (verdict == CONNECTION_LIMITS_ADMITTED) {
		g_assert_nonnull(self->entries[i]);
		self->n++;
		return verdict;
	}
	g_assert_null(left);
	g_assert_null(self->entries[i]); /* not used */
	close(self->servers[i]);
	close(self->clients[i]);
	return verdict;
}

static void arrive_many(Crowd *self, const char *address, guint n)
{
	for (guint i = 0; i < n; i++)
		g_assert_cmpint(arrive(self, address), ==, CONNECTION_LIMITS_ADMITTED);
}

static void set_idle(Crowd *self, guint i)
{
	kernel.idle[self->servers[i]] = TRUE;
}

/* Returns whether the client sees the end of its connection. */
static gboolean is_shut_down(Crowd *self, guint i)
{
	char byte;

	if (recv(self->clients[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
		return TRUE;
	g_assert_cmpint(errno, ==, EAGAIN);
	return FALSE;
}

static guint count_shut_down(Crowd *self)
{
	guint n = 0;

	for (guint i = 0; i < self->n; i++)
		n += self->entries[i] != NULL && is_shut_down(self, i);
	return n;
}

static void assert_biggest(Crowd *self, const char *address, guint connections)
{
	guint n;
	g_autofree char *biggest = connection_limits_biggest(self->table, &n);

	g_assert_cmpstr(biggest, ==, address);
	g_assert_cmpuint(n, ==, connections);
}

/* Both forms of an IPv4 address count as one address, and so do IPv6 addresses with the same
 * prefix. */
TEST("/connection-limits/addresses", test_addresses)
{
	static const struct {
		const char *address;
		const char *biggest; /* the largest after its arrival */
		guint connections;
	} CASES[] = {
		{"10.0.0.1", "10.0.0.1", 1},
		{"10.0.0.2", NULL, 1},
		{"::ffff:10.0.0.2", "10.0.0.2", 2},
		{"::10.0.0.2", "10.0.0.2", 2},
		{"2001:db8::1", "10.0.0.2", 2},
		{"2001:db8::2", NULL, 2},
		{"2001:db8::3:4:5:6", "2001:db8::/64", 3},
		{"2001:db8:0:1::1", "2001:db8::/64", 3},
		{"", "2001:db8::/64", 3},
		{"uid 0", NULL, 3}, /* differs from the address of zeros only */
		{"uid 1000", NULL, 3},
		{"uid 1000", NULL, 3},
		{"uid 1000", NULL, 3},
		{"uid 1000", "unix:uid=1000", 4},
	};
	Crowd *crowd = crowd_new(MOST, 0);

	assert_biggest(crowd, "none", 0);
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		guint n;
		g_autofree char *biggest = NULL;

		arrive_many(crowd, CASES[i].address, 1);
		biggest = connection_limits_biggest(crowd->table, &n);
		g_assert_cmpuint(n, ==, CASES[i].connections);
		if (CASES[i].biggest != NULL)
			g_assert_cmpstr(biggest, ==, CASES[i].biggest);
		g_assert_cmpuint(connection_limits_n_connections(crowd->table), ==, i + 1);
	}
	crowd_free(crowd);
}

/* Compares the address with the most connections with a plain count, while connections come and go.
 */
TEST("/connection-limits/most", test_most)
{
	static const char *const ADDRESSES[] = {"10.0.0.1", "10.0.0.2", "::1", "2001:db8::1"};
	static const char *const NAMES[] = {"10.0.0.1", "10.0.0.2", "::/64", "2001:db8::/64"};
	g_autoptr(GRand) random = g_rand_new_with_seed(7609);
	Crowd *crowd = crowd_new(MOST, 0);
	guint numbers[4] = {0};
	guint whose[MOST];

	for (guint i = 0; i < MOST; i++) {
		guint most = 0, reported, gone;
		g_autofree char *biggest = NULL;

		whose[i] = (guint)g_rand_int_range(random, 0, 4);
		arrive_many(crowd, ADDRESSES[whose[i]], 1);
		numbers[whose[i]]++;
		gone = (guint)g_rand_int_range(random, 0, (gint)i + 1);
		if (i % 3 == 0 && crowd->entries[gone] != NULL) {
			leave(crowd, gone);
			numbers[whose[gone]]--;
		}
		for (guint j = 0; j < 4; j++)
			most = MAX(most, numbers[j]);
		biggest = connection_limits_biggest(crowd->table, &reported);
		g_assert_cmpuint(reported, ==, most);
		for (guint j = 0; j < 4; j++)
			if (g_str_equal(biggest, NAMES[j]))
				g_assert_cmpuint(numbers[j], ==, most);
	}
	crowd_free(crowd);
}

/* Each address and each user may have 2 connections, idle or not. */
TEST("/connection-limits/per-address", test_per_address)
{
	static const struct {
		const char *address;
		const char *alias; /* the same address in another form */
	} CASES[] = {
		{"10.0.0.1", "::ffff:10.0.0.1"},
		{"10.0.0.2", "10.0.0.2"},
		{"::", "::"},
		{"uid 0", "uid 0"},
		{"uid 4294967294", "uid 4294967294"},
	};
	Crowd *crowd = crowd_new(10, 2);

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		arrive_many(crowd, CASES[i].address, 2);
		set_idle(crowd, 2 * i);
		g_assert_cmpint(arrive(crowd, CASES[i].address), ==,
				CONNECTION_LIMITS_ADDRESS_FULL);
		g_assert_cmpint(arrive(crowd, CASES[i].alias), ==, CONNECTION_LIMITS_ADDRESS_FULL);
	}
	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		leave(crowd, 2 * i);
		arrive_many(crowd, CASES[i].alias, 1);
		g_assert_cmpint(arrive(crowd, CASES[i].address), ==,
				CONNECTION_LIMITS_ADDRESS_FULL);
	}
	g_assert_cmpuint(kernel.asked, ==, 0);
	crowd_free(crowd);
}

/* The kernel does not know how long a local socket is silent, so its loop reports it. */
TEST("/connection-limits/local-room", test_local_room)
{
	Crowd *crowd = crowd_new(3, 0);
	const gint64 idle_us = G_GINT64_CONSTANT(1000) * IDLE_MS;

	arrive_many(crowd, "uid 1000", 3);
	for (guint i = 0; i < 3; i++) {
		g_assert_true(crowd->entries[i]->is_local);
		set_idle(crowd, i);
	}
	crowd->now_us += idle_us - 1;
	g_assert_cmpint(arrive(crowd, "uid 1"), ==, CONNECTION_LIMITS_FULL);
	g_assert_cmpuint(kernel.asked, ==, 0);
	crowd->entries[0]->active_at_us = crowd->now_us;
	kernel.idle[crowd->servers[1]] = FALSE;
	crowd->now_us += CONNECTION_LIMITS_BACKOFF_US;
	arrive_many(crowd, "uid 1", 1);
	g_assert_true(is_shut_down(crowd, 2));
	g_assert_cmpint(arrive(crowd, "uid 1"), ==, CONNECTION_LIMITS_FULL);
	crowd->now_us += MAX(CONNECTION_LIMITS_BACKOFF_US, idle_us);
	arrive_many(crowd, "uid 1", 1);
	g_assert_true(is_shut_down(crowd, 0));
	g_assert_false(is_shut_down(crowd, 1));
	crowd_free(crowd);
}

/* Only an idle connection of the address with the most connections is closed to make room. */
TEST("/connection-limits/room", test_room)
{
	static const struct {
		const char *name;
		guint big, small; /* connections of each of two addresses */
		guint idle;       /* NOBODY: none */
		guint closed;     /* NOBODY: the new connection is refused */
	} CASES[] = {
		{"nobody is idle", 3, 2, NOBODY, NOBODY},
		{"the first", 3, 2, 0, 0},
		{"the last of the biggest", 3, 2, 2, 2},
		{"of the smaller one", 3, 2, 3, NOBODY},
		{"two have as many: of the first", 2, 2, 1, 1},
		{"two have as many: of the second", 2, 2, 3, 3},
		{"far in the list", 150, 10, 149, 149},
		{"all of the list", 150, 10, 155, NOBODY},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		guint all = CASES[i].big + CASES[i].small;
		gboolean refused = CASES[i].closed == NOBODY;
		Crowd *crowd = crowd_new(all, 0);

		g_test_message("%s", CASES[i].name);
		arrive_many(crowd, "10.0.0.1", CASES[i].big);
		arrive_many(crowd, "10.0.0.2", CASES[i].small);
		g_assert_cmpuint(kernel.asked, ==, 0);
		if (CASES[i].idle != NOBODY)
			set_idle(crowd, CASES[i].idle);
		g_assert_cmpint(arrive(crowd, "10.0.0.3"), ==,
				refused ? CONNECTION_LIMITS_FULL : CONNECTION_LIMITS_ADMITTED);
		g_assert_cmpuint(kernel.asked, <=, all);
		g_assert_cmpuint(count_shut_down(crowd), ==, refused ? 0 : 1);
		if (!refused)
			g_assert_true(is_shut_down(crowd, CASES[i].closed));
		g_assert_cmpuint(connection_limits_n_connections(crowd->table), ==, all);
		crowd_free(crowd);
	}
}

/* A connection with calls that wait for the server is silent, but not idle. */
TEST("/connection-limits/waits", test_waits)
{
	Crowd *crowd = crowd_new(2, 0);

	arrive_many(crowd, "10.0.0.1", 2);
	set_idle(crowd, 0);
	set_idle(crowd, 1);
	crowd->entries[0]->waits = TRUE;
	arrive_many(crowd, "10.0.0.1", 1);
	g_assert_true(is_shut_down(crowd, 1));
	g_assert_cmpint(arrive(crowd, "10.0.0.1"), ==, CONNECTION_LIMITS_FULL);
	crowd->entries[0]->waits = FALSE;
	crowd->now_us += CONNECTION_LIMITS_BACKOFF_US;
	arrive_many(crowd, "10.0.0.1", 1);
	g_assert_true(is_shut_down(crowd, 0));
	crowd_free(crowd);
}

/* A connection that was found busy is checked last the next time. */
TEST("/connection-limits/rotation", test_rotation)
{
	Crowd *crowd = crowd_new(100, 0);

	arrive_many(crowd, "10.0.0.1", 100);
	for (guint i = 90; i < 100; i++)
		set_idle(crowd, i);
	arrive_many(crowd, "10.0.0.2", 1);
	g_assert_cmpuint(kernel.asked, ==, 91);
	for (guint i = 1; i < 10; i++) {
		arrive_many(crowd, "10.0.0.2", 1);
		g_assert_cmpuint(kernel.asked, ==, 91 + i);
		g_assert_true(is_shut_down(crowd, 90 + i));
	}
	g_assert_cmpint(arrive(crowd, "10.0.0.2"), ==, CONNECTION_LIMITS_FULL);
	g_assert_cmpuint(kernel.asked, ==, 100 + 90);
	crowd_free(crowd);
}

/* If no idle connection was found, there is no other search for a second. */
TEST("/connection-limits/barren", test_barren)
{
	Crowd *crowd = crowd_new(70, 0);

	arrive_many(crowd, "10.0.0.1", 70);
	g_assert_cmpint(arrive(crowd, "10.0.0.2"), ==, CONNECTION_LIMITS_FULL);
	g_assert_cmpuint(kernel.asked, ==, 70);
	set_idle(crowd, 5);
	crowd->now_us += CONNECTION_LIMITS_BACKOFF_US - 1;
	g_assert_cmpint(arrive(crowd, "10.0.0.2"), ==, CONNECTION_LIMITS_FULL);
	g_assert_cmpuint(kernel.asked, ==, 70);
	g_assert_false(is_shut_down(crowd, 5));
	crowd->now_us++;
	arrive_many(crowd, "10.0.0.2", 1);
	g_assert_true(is_shut_down(crowd, 5));
	/* a client that disconnects makes room at once */
	g_assert_cmpint(arrive(crowd, "10.0.0.2"), ==, CONNECTION_LIMITS_FULL);
	leave(crowd, 6);
	arrive_many(crowd, "10.0.0.2", 1);
	crowd_free(crowd);
}

/* Evicted connections no longer count, but their number is limited. */
TEST("/connection-limits/leaving", test_leaving)
{
	Crowd *crowd = crowd_new(64, 0);

	arrive_many(crowd, "10.0.0.1", 64);
	for (guint i = 0; i < 64; i++)
		set_idle(crowd, i);
	for (guint i = 0; i < CONNECTION_LIMITS_MOST_CLOSING; i++) {
		g_assert_true(connection_limits_can_admit(crowd->table));
		arrive_many(crowd, "10.0.0.2", 1);
	}
	g_assert_false(connection_limits_can_admit(crowd->table));
	g_assert_cmpuint(count_shut_down(crowd), ==, CONNECTION_LIMITS_MOST_CLOSING);
	g_assert_cmpuint(connection_limits_n_connections(crowd->table), ==, 64);
	leave(crowd, 0);
	g_assert_true(connection_limits_can_admit(crowd->table));
	g_assert_cmpuint(connection_limits_n_connections(crowd->table), ==, 64);
	crowd_free(crowd);
}

/* Idle time as the kernel reports it. With 0 ms, each connection without unread or unsent bytes is
 * idle. */
TEST("/connection-limits/idle", test_idle)
{
	char bytes[65536] = {0};
	int server, client;

	connect_pair(&server, &client);
	g_assert_true(connection_limits_is_idle(server, 0)); /* the client never sent anything */
	g_assert_false(connection_limits_is_idle(server, IDLE_MS));
	g_assert_cmpint(send(client, bytes, 1, 0), ==, 1);
	g_assert_cmpint(poll(&(struct pollfd){server, POLLIN, 0}, 1, HANG_GUARD_MS), ==, 1);
	g_assert_false(connection_limits_is_idle(server, 0)); /* there are unread bytes */
	g_assert_cmpint(recv(server, bytes, 1, 0), ==, 1);
	g_assert_true(connection_limits_is_idle(server, 0));
	while (send(server, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
		;
	g_assert_false(connection_limits_is_idle(server, 0)); /* the client reads nothing */
	close(server);
	close(client);
}

/* For a local socket, the kernel reports unread and unsent bytes, but no time. */
TEST("/connection-limits/idle-local", test_idle_local)
{
	char byte = 0;
	int fds[2];

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), ==, 0);
	g_assert_true(connection_limits_is_idle(fds[0], IDLE_MS));
	g_assert_cmpint(send(fds[1], &byte, 1, 0), ==, 1);
	g_assert_false(connection_limits_is_idle(fds[0], IDLE_MS)); /* there are unread bytes */
	g_assert_cmpint(recv(fds[0], &byte, 1, 0), ==, 1);
	g_assert_true(connection_limits_is_idle(fds[0], IDLE_MS));
	g_assert_cmpint(send(fds[0], &byte, 1, 0), ==, 1);
	/* the client has unread bytes */
	g_assert_false(connection_limits_is_idle(fds[0], IDLE_MS));
	g_assert_cmpint(recv(fds[1], &byte, 1, 0), ==, 1);
	g_assert_true(connection_limits_is_idle(fds[0], IDLE_MS));
	close(fds[1]);
	close(fds[0]);
	g_assert_false(connection_limits_is_idle(fds[0], IDLE_MS));
}

static void *come_and_go(void *data)
{
	Crowd *crowd = data;

	/* close evicted connections, as a loop does, until the last one is closed */
	for (guint i = 0; i < MOST / 2; i++) {
		char byte;

		g_assert_cmpint(recv(crowd->servers[i], &byte, 1, 0), ==, 0);
		connection_limits_remove(crowd->entries[i]);
		close(crowd->servers[i]);
	}
	return NULL;
}

/* Connections are evicted and admitted while another thread closes some. */
TEST("/connection-limits/threads", test_threads)
{
	Crowd *crowd = crowd_new(MOST / 2, 0);
	pthread_t thread;

	arrive_many(crowd, "10.0.0.1", MOST / 2);
	for (guint i = 0; i < MOST / 2; i++)
		set_idle(crowd, i);
	g_assert_cmpint(pthread_create(&thread, NULL, come_and_go, crowd), ==, 0);
	for (guint i = 0; i < MOST / 2; i++) {
		g_autofree char *address = NULL;

		while (!connection_limits_can_admit(crowd->table))
			g_thread_yield();
		address = g_strdup_printf("10.1.0.%u", i);
		arrive_many(crowd, address, 1);
	}
	pthread_join(thread, NULL);
	for (guint i = 0; i < MOST / 2; i++) {
		crowd->entries[i] = NULL;
		close(crowd->clients[i]);
	}
	g_assert_cmpuint(connection_limits_n_connections(crowd->table), ==, MOST / 2);
	crowd_free(crowd);
}
