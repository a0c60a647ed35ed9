/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/socket.h"
#include "tests/unit/unit-test.h"

typedef union {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
} Place;

/* Bound to a port of loopback; -1 if this machine has no such family. */
static int bound(sa_family_t family, Place *out_place)
{
	socklen_t length = sizeof *out_place;
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*out_place = (Place){.any.sa_family = family};
	if (family == AF_INET)
		out_place->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		out_place->v6.sin6_addr = in6addr_loopback;
	if (bind(fd, &out_place->any, length) != 0) {
		close(fd);
		return -1;
	}
	g_assert_cmpint(getsockname(fd, &out_place->any, &length), ==, 0);
	return fd;
}

TEST("/self-connection/families", test_families)
{
	static const sa_family_t FAMILIES[] = {AF_INET, AF_INET6};

	for (gsize i = 0; i < G_N_ELEMENTS(FAMILIES); i++) {
		Place own, client, server;
		int self = bound(FAMILIES[i], &own);
		int other = bound(FAMILIES[i], &client);
		int listener = bound(FAMILIES[i], &server);

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

TEST("/self-connection/none", test_none)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_false(socket_is_self_connected(fd));
	close(fd);
	g_assert_false(socket_is_self_connected(-1));
}
