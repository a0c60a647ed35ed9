/* SPDX-License-Identifier: Apache-2.0 */
#include "common/self-connection.h"

#include <string.h>
#include <sys/socket.h>

gboolean self_connection_is_one(int fd)
{
	struct sockaddr_storage own = {0};
	struct sockaddr_storage peer = {0};
	socklen_t own_length = sizeof own;
	socklen_t peer_length = sizeof peer;

	return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
	       getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 &&
	       own_length == peer_length && memcmp(&own, &peer, own_length) == 0;
}
