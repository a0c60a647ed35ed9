/* SPDX-License-Identifier: Apache-2.0 */
#include "issuer/worker-id-lookup.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <netdb.h>

#include "issuer/worker-id-source.h"

/* Addresses that only the default route leads to: they are kept free for documentation, by RFC 5737
 * and RFC 3849. */
#define FAR_AWAY_V4 "203.0.113.1"
#define FAR_AWAY_V6 "2001:db8::1"
#define ANY_PORT    9

static gboolean from_interfaces(const struct ifaddrs *interfaces, guint bits, guint *out_worker_id,
				char **out_from, GError **error)
{
	const struct ifaddrs *found = worker_id_source_find_interface(interfaces);
	const guint8 *mac;

	if (found == NULL) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
			    "no network interface of this machine has a MAC address; give a "
			    "number");
		return FALSE;
	}
	mac = ((const struct sockaddr_ll *)found->ifa_addr)->sll_addr;
	*out_worker_id = worker_id_source_from_mac(mac, bits);
	*out_from = g_strdup_printf("%s %02x:%02x:%02x:%02x:%02x:%02x", found->ifa_name, mac[0],
				    mac[1], mac[2], mac[3], mac[4], mac[5]);
	return TRUE;
}

static gboolean from_mac(guint bits, guint *out_worker_id, char **out_from, GError **error)
{
	struct ifaddrs *interfaces;
	gboolean found;

	if (getifaddrs(&interfaces) != 0) {
		int code = errno;

		g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(code),
			    "the network interfaces cannot be listed: %s", g_strerror(code));
		return FALSE;
	}
	found = from_interfaces(interfaces, bits, out_worker_id, out_from, error);
	freeifaddrs(interfaces);
	return found;
}

/* (transfer full) (nullable): the first that @host stands for. */
static GInetAddress *look_up(const char *host, GError **error)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
	g_autoptr(GSocketAddress) first = NULL;
	struct addrinfo *found;
	int code = getaddrinfo(host, NULL, &hints, &found);

	if (code != 0) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
			    "the address of --advertise, %s, cannot be looked up: %s", host,
			    code == EAI_SYSTEM ? g_strerror(errno) : gai_strerror(code));
		return NULL;
	}
	first = g_socket_address_new_from_native(found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return g_object_ref(g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(first)));
}

/* (transfer full) (nullable): by which this machine would send to @far_away. */
static GInetAddress *source_address(const char *far_away)
{
	g_autoptr(GSocketAddress) remote =
		g_inet_socket_address_new_from_string(far_away, ANY_PORT);
	g_autoptr(GSocket) socket =
		g_socket_new(g_socket_address_get_family(remote), G_SOCKET_TYPE_DATAGRAM,
			     G_SOCKET_PROTOCOL_UDP, NULL);
	g_autoptr(GSocketAddress) local = NULL;

	/* of a datagram's socket, this looks for a route and sends nothing */
	if (socket == NULL || !g_socket_connect(socket, remote, NULL, NULL))
		return NULL;
	local = g_socket_get_local_address(socket, NULL);
	if (local == NULL)
		return NULL;
	return g_object_ref(g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(local)));
}

static GInetAddress *find_ip(const Address *advertise, GError **error)
{
	GInetAddress *address;

	if (advertise != NULL)
		return look_up(advertise->host, error);
	address = source_address(FAR_AWAY_V4);
	if (address == NULL)
		address = source_address(FAR_AWAY_V6);
	if (address == NULL)
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
			    "this machine has no default route, so none of its addresses stands "
			    "out; say which, with --advertise HOST:PORT");
	return address;
}

static gboolean from_ip(const Address *advertise, guint bits, guint *out_worker_id, char **out_from,
			GError **error)
{
	g_autoptr(GInetAddress) address = find_ip(advertise, error);
	g_autofree char *text = NULL;

	if (address == NULL)
		return FALSE;
	text = g_inet_address_to_string(address);
	if (g_inet_address_get_is_loopback(address)) {
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
			    "%s is a loopback address, which every machine has; say which others "
			    "reach, with --advertise HOST:PORT",
			    text);
		return FALSE;
	}
	*out_worker_id = worker_id_source_from_ip(address, bits);
	*out_from = g_steal_pointer(&text);
	return TRUE;
}

static gboolean from_ordinal(guint bits, guint *out_worker_id, char **out_from, GError **error)
{
	const char *host_name = g_get_host_name();

	if (!worker_id_source_from_host_name(host_name, bits, out_worker_id, error))
		return FALSE;
	*out_from = g_strdup(host_name);
	return TRUE;
}

gboolean worker_id_lookup(OptionsWorkerId source, const Address *advertise, const Layout *layout,
			  guint *out_worker_id, char **out_from, GError **error)
{
	switch (source) {
	case OPTIONS_WORKER_ID_MAC:
		return from_mac(layout->worker_bits, out_worker_id, out_from, error);
	case OPTIONS_WORKER_ID_IP:
		return from_ip(advertise, layout->worker_bits, out_worker_id, out_from, error);
	case OPTIONS_WORKER_ID_ORDINAL:
		return from_ordinal(layout->worker_bits, out_worker_id, out_from, error);
	case OPTIONS_WORKER_ID_NONE:
		break;
	}
	g_assert_not_reached();
}
