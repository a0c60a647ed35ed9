/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/origin.h"

#include <arpa/inet.h>
#include <string.h>

#include "common/socket.h"

/* IPv4: mapped, as a socket for both families has it. IPv6: the first half, as whoever has one
 * address has all that begin alike (RFC 6177). */
Origin origin_of_address(const struct sockaddr *address)
{
	struct in6_addr result = IN6ADDR_ANY_INIT;

	if (address->sa_family == AF_INET6) {
		result = ((const struct sockaddr_in6 *)address)->sin6_addr;
		if (!IN6_IS_ADDR_V4MAPPED(&result))
			memset(&result.s6_addr[8], 0, 8);
	} else if (address->sa_family == AF_INET) {
		result.s6_addr[10] = result.s6_addr[11] = 0xff;
		memcpy(&result.s6_addr[12], &((const struct sockaddr_in *)address)->sin_addr, 4);
	}
	return (Origin){result, -1};
}

Origin origin_of_user(uid_t uid)
{
	return (Origin){IN6ADDR_ANY_INIT, uid};
}

Origin origin_of_peer(int fd, const struct sockaddr *address)
{
	struct ucred peer;

	return address->sa_family == AF_UNIX && socket_unix_peer(fd, &peer)
		       ? origin_of_user(peer.uid)
		       : origin_of_address(address);
}

gboolean origin_is_local(const Origin *self)
{
	return self->uid >= 0;
}

guint origin_hash(gconstpointer key)
{
	const Origin *self = key;
	guint hash = g_int64_hash(&self->uid);

	for (gsize i = 0; i < sizeof self->address.s6_addr; i++)
		hash = hash * 33 + self->address.s6_addr[i];
	return hash;
}

gboolean origin_equal(gconstpointer a, gconstpointer b)
{
	const Origin *one = a, *other = b;

	return one->uid == other->uid && IN6_ARE_ADDR_EQUAL(&one->address, &other->address);
}

char *origin_text(const Origin *self)
{
	char text[INET6_ADDRSTRLEN];

	if (origin_is_local(self))
		return g_strdup_printf("unix:uid=%" G_GINT64_FORMAT, self->uid);
	if (IN6_IS_ADDR_V4MAPPED(&self->address)) {
		inet_ntop(AF_INET, &self->address.s6_addr[12], text, sizeof text);
		return g_strdup(text);
	}
	inet_ntop(AF_INET6, &self->address, text, sizeof text);
	return g_strconcat(text, "/64", NULL);
}
