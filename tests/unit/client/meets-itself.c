/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/client/meets-itself.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

static atomic_bool is_on;

/* Replaces the function of the C library. */
int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	int (*go)(int, const struct sockaddr *, socklen_t);
	struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t own_length = sizeof own;

	*(void **)&go = dlsym(RTLD_NEXT, "connect");
	if (!atomic_load(&is_on))
		return go(fd, address, length);
	g_assert_cmpint(bind(fd, (struct sockaddr *)&own, own_length), ==, 0);
	g_assert_cmpint(getsockname(fd, (struct sockaddr *)&own, &own_length), ==, 0);
	return go(fd, (struct sockaddr *)&own, own_length);
}

void meets_itself_set(gboolean on)
{
	atomic_store(&is_on, on);
}
