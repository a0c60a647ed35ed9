/* SPDX-License-Identifier: Apache-2.0 */
#include "common/socket.h"

#include <errno.h>
#include <glib.h>
#include <netdb.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/address.h"
#include "core/text.h"

G_STATIC_ASSERT(ADDRESS_MAX_PATH_BYTES == sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);

socklen_t socket_unix_address(const char *path, struct sockaddr_un *out_address)
{
	gboolean is_abstract = *path == '@';

	*out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	g_strlcpy(out_address->sun_path, path, sizeof out_address->sun_path);
	if (is_abstract)
		out_address->sun_path[0] = '\0';
	/* every byte of an abstract name is significant, so it must not end with a NUL */
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path) + !is_abstract);
}

char *socket_unix_name(const struct sockaddr_un *address, socklen_t length)
{
	gsize offset = offsetof(struct sockaddr_un, sun_path);
	gsize bytes = length > offset ? MIN(length - offset, sizeof address->sun_path) : 0;
	const char *name = address->sun_path + 1;
	gboolean is_abstract = bytes > 0 && address->sun_path[0] == '\0';
	g_autofree char *plain = NULL, *text = NULL, *escaped = NULL;
	g_autoptr(Address) usable = NULL;

	if (bytes == 0)
		return g_strdup("unix:");
	/* a relative path, but relative to an unknown directory */
	if (!is_abstract && address->sun_path[0] != '/')
		return g_strdup("unix:?");
	bytes = is_abstract ? bytes - 1 : strnlen(name, bytes - 1);
	plain = g_strndup(name, bytes);
	text = g_strdup_printf("unix:%c%s", is_abstract ? '@' : '/', plain);
	/* escaped unless it is an address that a client can use */
	if (strlen(plain) == bytes)
		usable = address_parse_server(text, NULL);
	if (usable != NULL)
		return g_steal_pointer(&text);
	escaped = text_escape(name, bytes);
	return g_strdup_printf("unix:%c%s", is_abstract ? '@' : '/', escaped);
}

gboolean socket_unix_peer(int fd, struct ucred *out_peer)
{
	struct ucred peer;
	socklen_t length = sizeof peer;

	/* only for local sockets does the kernel know the peer's user; a process in another PID
	 * namespace has pid 0 */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid == (uid_t)-1)
		return FALSE;
	*out_peer = peer;
	return TRUE;
}

int socket_unix_connect(const char *path, guint timeout_ms)
{
	gint64 end_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(path, &address);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	gboolean is_connected = FALSE;
	int failure = EINTR;

	if (fd < 0)
		return fd;
	/* use a blocking connect(), because a non-blocking one fails at once while the server's
	 * queue is full */
	while (!is_connected && failure == EINTR) {
		gint64 left_us = MAX(end_us - g_get_monotonic_time(), 1);
		const struct timeval timeout = {.tv_sec = left_us / G_USEC_PER_SEC,
						.tv_usec = left_us % G_USEC_PER_SEC};

		is_connected =
			setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0 &&
			connect(fd, (const struct sockaddr *)&address, length) == 0;
		failure = errno;
	}
	if (is_connected)
		return fd;
	close(fd);
	errno = failure == EAGAIN ? ETIMEDOUT : failure;
	return -1;
}

static char *describe_end(int fd, gboolean is_peer)
{
	struct sockaddr_storage address;
	socklen_t length = sizeof address;
	char host[NI_MAXHOST], port[NI_MAXSERV];

	if ((is_peer ? getpeername : getsockname)(fd, (struct sockaddr *)&address, &length) != 0)
		return g_strdup("unknown");
	if (address.ss_family == AF_UNIX)
		return socket_unix_name((const struct sockaddr_un *)&address, length);
	if (getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return g_strdup("unknown");
	return g_strdup_printf(address.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

char *socket_name_peer(int fd)
{
	struct ucred peer;

	/* clients of local sockets have no names */
	if (socket_unix_peer(fd, &peer))
		return g_strdup_printf("unix:uid=%u,pid=%d", peer.uid, peer.pid);
	return describe_end(fd, TRUE);
}

char *socket_name_local(int fd)
{
	return describe_end(fd, FALSE);
}

gboolean socket_is_self_connected(int fd)
{
	struct sockaddr_storage own = {0};
	struct sockaddr_storage peer = {0};
	socklen_t own_length = sizeof own;
	socklen_t peer_length = sizeof peer;

	return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
	       getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 &&
	       own_length == peer_length && memcmp(&own, &peer, own_length) == 0;
}
