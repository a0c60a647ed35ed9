/* SPDX-License-Identifier: Apache-2.0 */
#include "issuer/worker-id-source.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netdb.h>
#include <string.h>

#include "core/text.h"

#define MAC_BYTES 6

static guint low_bits(const guint8 *bytes, gsize n_bytes, guint bits)
{
	guint64 number = 0;

	for (gsize i = 0; i < n_bytes; i++)
		number = number << 8 | bytes[i]; /* higher bytes are dropped */
	return (guint)(number & ((1u << bits) - 1));
}

guint worker_id_source_from_ip(GInetAddress *address, guint bits)
{
	return low_bits(g_inet_address_to_bytes(address), g_inet_address_get_native_size(address),
			bits);
}

guint worker_id_source_from_mac(const guint8 *mac, guint bits)
{
	return low_bits(mac, MAC_BYTES, bits);
}

gboolean worker_id_source_from_host_name(const char *host_name, guint bits, guint *out_worker_id,
					 GError **error)
{
	g_autofree char *name = g_strndup(host_name, strcspn(host_name, "."));
	const char *dash = strrchr(name, '-');
	guint max = (1u << bits) - 1;
	guint64 number;

	if (dash == NULL || dash == name || dash[1] == '\0' ||
	    strspn(dash + 1, "0123456789") < strlen(dash + 1)) {
		g_autofree char *escaped = g_strescape(host_name, NULL);

		g_set_error(
			error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
			"the host name \"%s\" does not end in a hyphen and a number, such as ids-3",
			escaped);
		return FALSE;
	}
	if (!text_parse_number(dash + 1, 10, 0, max, &number)) {
		g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
			    "the number at the end of the host name, %s, does not fit the layout, "
			    "0 to %u",
			    dash + 1, max);
		return FALSE;
	}
	*out_worker_id = (guint)number;
	return TRUE;
}

const struct ifaddrs *worker_id_source_find_interface(const struct ifaddrs *interfaces)
{
	static const guint8 NO_MAC[MAC_BYTES] = {0};
	const struct ifaddrs *found = NULL;
	int lowest = 0;

	for (const struct ifaddrs *one = interfaces; one != NULL; one = one->ifa_next) {
		const struct sockaddr_ll *link = (const struct sockaddr_ll *)one->ifa_addr;

		if (link == NULL || link->sll_family != AF_PACKET ||
		    (one->ifa_flags & IFF_LOOPBACK) != 0 || link->sll_halen != MAC_BYTES ||
		    memcmp(link->sll_addr, NO_MAC, MAC_BYTES) == 0)
			continue;
		if (link->sll_ifindex == 0 || (found != NULL && link->sll_ifindex >= lowest))
			continue;
		found = one;
		lowest = link->sll_ifindex;
	}
	return found;
}

/* Addresses that are reached only by the default route: RFC 5737 and RFC 3849 reserve them for
 * documentation. */
#define FAR_AWAY_V4 "203.0.113.1"
#define FAR_AWAY_V6 "2001:db8::1"
#define ANY_PORT    9

static gboolean derive_from_mac(guint bits, guint *out_worker_id, char **out_from, GError **error)
{
	struct ifaddrs *interfaces;
	const struct ifaddrs *found;

	if (getifaddrs(&interfaces) != 0) {
		int code = errno;

		g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(code),
			    "cannot list the network interfaces: %s", g_strerror(code));
		return FALSE;
	}
	found = worker_id_source_find_interface(interfaces);
	if (found != NULL) {
		const guint8 *mac = ((const struct sockaddr_ll *)found->ifa_addr)->sll_addr;

		*out_worker_id = worker_id_source_from_mac(mac, bits);
		*out_from = g_strdup_printf("%s %02x:%02x:%02x:%02x:%02x:%02x", found->ifa_name,
					    mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
	} else {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
			    "no network interface has a MAC address; specify a number");
	}
	freeifaddrs(interfaces);
	return found != NULL;
}

/* Returns: (transfer full) (nullable): the first address of @host. */
static GInetAddress *resolve_host(const char *host, GError **error)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
	g_autoptr(GSocketAddress) first = NULL;
	struct addrinfo *found;
	int code = getaddrinfo(host, NULL, &hints, &found);

	if (code != 0) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
			    "cannot resolve the --advertise address, %s: %s", host,
			    code == EAI_SYSTEM ? g_strerror(errno) : gai_strerror(code));
		return NULL;
	}
	first = g_socket_address_new_from_native(found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return g_object_ref(g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(first)));
}

/* Returns: (transfer full) (nullable): the local address from which a datagram to @far_away would
 *   be sent. */
static GInetAddress *find_source_address(const char *far_away)
{
	g_autoptr(GSocketAddress) remote =
		g_inet_socket_address_new_from_string(far_away, ANY_PORT);
	g_autoptr(GSocket) socket =
		g_socket_new(g_socket_address_get_family(remote), G_SOCKET_TYPE_DATAGRAM,
			     G_SOCKET_PROTOCOL_UDP, NULL);
	g_autoptr(GSocketAddress) local = NULL;

	/* for a datagram socket, connect() finds a route but sends nothing */
	if (socket == NULL || !g_socket_connect(socket, remote, NULL, NULL))
		return NULL;
	local = g_socket_get_local_address(socket, NULL);
	if (local == NULL)
		return NULL;
	return g_object_ref(g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(local)));
}

static gboolean derive_from_ip(const Address *advertise, guint bits, guint *out_worker_id,
			       char **out_from, GError **error)
{
	g_autoptr(GInetAddress) address = NULL;
	g_autofree char *text = NULL;

	if (advertise != NULL) {
		address = resolve_host(advertise->host, error);
		if (address == NULL)
			return FALSE;
	} else {
		address = find_source_address(FAR_AWAY_V4);
		if (address == NULL)
			address = find_source_address(FAR_AWAY_V6);
	}
	if (address == NULL) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
			    "cannot choose an address, because this machine has no default route; "
			    "specify one with --advertise HOST:PORT");
		return FALSE;
	}
	text = g_inet_address_to_string(address);
	if (g_inet_address_get_is_loopback(address)) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
			    "%s is a loopback address, which is the same on every machine; specify "
			    "another address with --advertise HOST:PORT",
			    text);
		return FALSE;
	}
	*out_worker_id = worker_id_source_from_ip(address, bits);
	*out_from = g_steal_pointer(&text);
	return TRUE;
}

gboolean worker_id_source_derive(OptionsWorkerId source, const Address *advertise,
				 const Layout *layout, guint *out_worker_id, char **out_from,
				 GError **error)
{
	switch (source) {
	case OPTIONS_WORKER_ID_MAC:
		return derive_from_mac(layout->worker_bits, out_worker_id, out_from, error);
	case OPTIONS_WORKER_ID_IP:
		return derive_from_ip(advertise, layout->worker_bits, out_worker_id, out_from,
				      error);
	case OPTIONS_WORKER_ID_ORDINAL:
		if (!worker_id_source_from_host_name(g_get_host_name(), layout->worker_bits,
						     out_worker_id, error))
			return FALSE;
		*out_from = g_strdup(g_get_host_name());
		return TRUE;
	case OPTIONS_WORKER_ID_NONE:
		break;
	}
	g_assert_not_reached();
}
