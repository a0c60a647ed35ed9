/* SPDX-License-Identifier: Apache-2.0 */
#include "common/socket-name.h"

#include <glib.h>
#include <netdb.h>
#include <sys/socket.h>

#include "common/local-socket.h"

typedef int (*GetName)(int, struct sockaddr *restrict, socklen_t *restrict);

static char *describe(int fd, GetName get_name)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof address;
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if (get_name(fd, (struct sockaddr *)&address, &length) != 0)
		return g_strdup("unknown");
	if (address.ss_family == AF_UNIX)
		return local_socket_name((const struct sockaddr_un *)&address, length);
	if (getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return g_strdup("unknown");
	return g_strdup_printf(address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

char *socket_name_peer(int fd)
{
	struct ucred peer;

	/* clients of local sockets have no names */
	if (local_socket_peer(fd, &peer))
		return g_strdup_printf("unix:uid=%u,pid=%d", peer.uid, peer.pid);
	return describe(fd, getpeername);
}

char *socket_name_local(int fd)
{
	return describe(fd, getsockname);
}
