/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/self-connection.h"
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

static void assert_self(sa_family_t family)
{
	Place place;
	int fd = bound(family, &place);

	if (fd < 0)
		return;
	g_assert_false(self_connection_is_one(fd));
	g_assert_cmpint(connect(fd, &place.any, sizeof place), ==, 0);
	g_assert_true(self_connection_is_one(fd));
	close(fd);
}

static void assert_other(sa_family_t family)
{
	Place place, own;
	int listener = bound(family, &place);
	int fd = bound(family, &own);

	if (listener < 0)
		return;
	g_assert_cmpint(listen(listener, 1), ==, 0);
	g_assert_cmpint(connect(fd, &place.any, sizeof place), ==, 0);
	g_assert_false(self_connection_is_one(fd));
	close(fd);
	close(listener);
}

TEST("/self-connection/self", test_self)
{
	assert_self(AF_INET);
	assert_self(AF_INET6);
}

TEST("/self-connection/other", test_other)
{
	assert_other(AF_INET);
	assert_other(AF_INET6);
}

TEST("/self-connection/none", test_none)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	g_assert_false(self_connection_is_one(fd));
	close(fd);
	g_assert_false(self_connection_is_one(-1));
}
