/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <glib/gstdio.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/address.h"
#include "common/socket.h"

#define UNIT_TEST_SET_UP    set_up_all
#define UNIT_TEST_TEAR_DOWN tear_down_all
#include "tests/unit/unit-test.h"

static char *directory;

static char *in_directory(const char *name)
{
	return g_build_filename(directory, name, NULL);
}

/* Returns a name that no other process has, of the maximum length if @is_long. */
static char *abstract_name(gboolean is_long)
{
	g_autofree char *name = g_strdup_printf("@test-socket-%d-", getpid());
	g_autofree char *rest = g_strnfill(ADDRESS_MAX_PATH_BYTES - strlen(name), 'x');

	return g_strconcat(name, is_long ? rest : "", NULL);
}

static int listen_at(const char *path, int backlog)
{
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(path, &address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_cmpint(bind(fd, (struct sockaddr *)&address, length), ==, 0);
	g_assert_cmpint(listen(fd, backlog), ==, 0);
	return fd;
}

static void assert_name(int fd, const char *expected)
{
	g_autofree char *name = socket_name_local(fd);

	g_assert_cmpstr(name, ==, expected);
}

/* The kernel reports the address to which a socket was bound. */
TEST("/socket/local/names", test_names)
{
	g_autofree char *long_path =
		g_strnfill(ADDRESS_MAX_PATH_BYTES - strlen(directory) - 1, 'x');
	char *const paths[] = {in_directory("ids"), in_directory("h\xc3\xb6st 1"),
			       in_directory(long_path), abstract_name(FALSE), abstract_name(TRUE)};

	for (gsize i = 0; i < G_N_ELEMENTS(paths); i++) {
		g_autofree char *text = g_strconcat("unix:", paths[i], NULL);
		int fd = listen_at(paths[i], 1);

		assert_name(fd, text);
		g_assert_true(g_file_test(paths[i], G_FILE_TEST_EXISTS) == (*paths[i] == '/'));
		close(fd);
		g_free(paths[i]);
	}
}

/* Names of sockets that other programs have bound. */
TEST("/socket/local/strange-names", test_strange_names)
{
	static const struct {
		const char *bytes;
		gsize length;
		const char *name;
	} CASES[] = {
		{"", 0, "unix:"},
		{"\0", 1, "unix:@"},
		{"\0a\0b", 4, "unix:@a\\x00b"},
		{"\0a\0", 3, "unix:@a\\x00"},
		{"\0a\n", 3, "unix:@a\\x0a"},
		{"/a\xff", 4, "unix:/a\\xff"},
		{"/a\0/b", 5, "unix:/a"},
		{"/a", 2, "unix:/a"},
		{"ids", 4, "unix:?"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		struct sockaddr_un address = {.sun_family = AF_UNIX};
		gsize offset = offsetof(struct sockaddr_un, sun_path);
		g_autofree char *name = NULL;

		memcpy(address.sun_path, CASES[i].bytes, CASES[i].length);
		name = socket_unix_name(&address, (socklen_t)(offset + CASES[i].length));
		g_assert_cmpstr(name, ==, CASES[i].name);
	}
}

TEST("/socket/local/connect", test_connect)
{
	char *const paths[] = {in_directory("connected"), abstract_name(FALSE)};

	for (gsize i = 0; i < G_N_ELEMENTS(paths); i++) {
		int listener = listen_at(paths[i], 1);
		int client = socket_unix_connect(paths[i], 1000);
		int server = accept(listener, NULL, NULL);
		g_autofree char *expected =
			g_strdup_printf("unix:uid=%u,pid=%d", getuid(), getpid());
		g_autofree char *peer = socket_name_peer(server);
		char byte = 0;

		g_assert_cmpint(client, >=, 0);
		g_assert_cmpint(write(client, "x", 1), ==, 1);
		g_assert_cmpint(read(server, &byte, 1), ==, 1);
		g_assert_true(byte == 'x');
		g_assert_cmpstr(peer, ==, expected);
		close(client);
		close(server);
		close(listener);
		g_free(paths[i]);
	}
}

static void assert_fails(const char *path, int expected)
{
	g_assert_cmpint(socket_unix_connect(path, 50), ==, -1);
	g_assert_cmpint(errno, ==, expected);
}

TEST("/socket/local/no-listener", test_no_listener)
{
	g_autofree char *missing = in_directory("missing/ids");
	g_autofree char *stale = in_directory("stale");
	g_autofree char *file = in_directory("file");
	g_autofree char *abstract = abstract_name(FALSE);

	close(listen_at(stale, 1));
	g_assert_true(g_file_set_contents(file, "", 0, NULL));
	assert_fails(missing, ENOENT);
	assert_fails(stale, ECONNREFUSED);
	assert_fails(file, ECONNREFUSED);
	assert_fails(abstract, ECONNREFUSED);
}

/* If the backlog is full, connecting waits for room, up to its time limit. */
TEST("/socket/local/crowd", test_crowd)
{
	g_autofree char *path = in_directory("crowd");
	int listener = listen_at(path, 0);
	int first = socket_unix_connect(path, 50);
	gint64 began_us = g_get_monotonic_time();

	g_assert_cmpint(first, >=, 0);
	assert_fails(path, ETIMEDOUT);
	g_assert_cmpint(g_get_monotonic_time() - began_us, >=, 50000);
	close(accept(listener, NULL, NULL));
	close(first);
	first = socket_unix_connect(path, 50);
	g_assert_cmpint(first, >=, 0);
	close(first);
	close(listener);
}

TEST("/socket/local/peer-of-others", test_peer_of_others)
{
	struct ucred peer;
	int fds[2];
	int inet = socket(AF_INET, SOCK_STREAM, 0);

	g_assert_false(socket_unix_peer(inet, &peer));
	g_assert_false(socket_unix_peer(-1, &peer));
	g_assert_cmpint(pipe(fds), ==, 0);
	g_assert_false(socket_unix_peer(fds[0], &peer));
	close(inet);
	close(fds[0]);
	close(fds[1]);
}

static void remove_all(void)
{
	g_autoptr(GDir) names = g_dir_open(directory, 0, NULL);
	const char *name;

	while ((name = g_dir_read_name(names)) != NULL) {
		g_autofree char *path = in_directory(name);

		g_unlink(path);
	}
	g_rmdir(directory);
}

static void set_up_all(void)
{
	directory = g_dir_make_tmp("snowflake-test-XXXXXX", NULL);
}

static void tear_down_all(void)
{
	remove_all();
	g_free(directory);
}

typedef union {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
} SocketAddress;

/* Returns a socket on a port of loopback, or -1 if this machine has no such family. */
static int bind_loopback(sa_family_t family, SocketAddress *out_address)
{
	socklen_t length = sizeof *out_address;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*out_address = (SocketAddress){.any.sa_family = family};
	if (family == AF_INET)
		out_address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		out_address->v6.sin6_addr = in6addr_loopback;
	if (bind(fd, &out_address->any, length) != 0) {
		close(fd);
		return -1;
	}
	g_assert_cmpint(getsockname(fd, &out_address->any, &length), ==, 0);
	return fd;
}

TEST("/socket/self-connection/families", test_families)
{
	static const sa_family_t FAMILIES[] = {AF_INET, AF_INET6};

	for (gsize i = 0; i < G_N_ELEMENTS(FAMILIES); i++) {
		SocketAddress own, client, server;
		int self = bind_loopback(FAMILIES[i], &own);
		int other = bind_loopback(FAMILIES[i], &client);
		int listener = bind_loopback(FAMILIES[i], &server);

		if (listener < 0)
			continue;
		g_assert_cmpint(listen(listener, 1), ==, 0);
		g_assert_cmpint(connect(other, &server.any, sizeof server), ==, 0);
		g_assert_false(socket_is_self_connected(other));
		g_assert_false(socket_is_self_connected(self));
		g_assert_cmpint(connect(self, &own.any, sizeof own), ==, 0);
		g_assert_true(socket_is_self_connected(self));
		close(self);
		close(other);
		close(listener);
	}
}

TEST("/socket/self-connection/none", test_none)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_false(socket_is_self_connected(fd));
	close(fd);
	g_assert_false(socket_is_self_connected(-1));
}
