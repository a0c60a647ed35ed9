/* SPDX-License-Identifier: Apache-2.0 */
#include "issuer/worker-id-source.h"

#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>

#include "core/text.h"

#define MAC_BYTES 6

static guint low_bits(const guint8 *bytes, gsize n_bytes, guint bits)
{
	guint64 number = 0;

	for (gsize i = 0; i < n_bytes; i++)
		number = number << 8 | bytes[i]; /* what is too high for it is lost, rightly */
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

/* (nullable) (transfer full): the digits after the last dash of the name. */
static char *find_ordinal(const char *host_name)
{
	g_autofree char *name = g_strndup(host_name, strcspn(host_name, "."));
	const char *dash = strrchr(name, '-');

	if (dash == NULL || dash == name || dash[1] == '\0' ||
	    strspn(dash + 1, "0123456789") < strlen(dash + 1))
		return NULL;
	return g_strdup(dash + 1);
}

gboolean worker_id_source_from_host_name(const char *host_name, guint bits, guint *out_worker_id,
					 GError **error)
{
	g_autofree char *ordinal = find_ordinal(host_name);
	guint max = (1u << bits) - 1;
	guint64 number;

	if (ordinal == NULL) {
		g_autofree char *escaped = g_strescape(host_name, NULL);

		g_set_error(
			error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
			"the host name \"%s\" does not end in a dash and a number, as ids-3 does",
			escaped);
		return FALSE;
	}
	if (!text_parse_number(ordinal, 10, 0, max, &number)) {
		g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
			    "the number at the end of the host name, %s, does not fit the layout, "
			    "0 to %u",
			    ordinal, max);
		return FALSE;
	}
	*out_worker_id = (guint)number;
	return TRUE;
}

static gboolean has_mac(const struct ifaddrs *interface)
{
	static const guint8 NO_MAC[MAC_BYTES] = {0};
	const struct sockaddr_ll *link = (const struct sockaddr_ll *)interface->ifa_addr;

	return link != NULL && link->sll_family == AF_PACKET &&
	       (interface->ifa_flags & IFF_LOOPBACK) == 0 && link->sll_halen == MAC_BYTES &&
	       memcmp(link->sll_addr, NO_MAC, MAC_BYTES) != 0;
}

static int index_of(const struct ifaddrs *interface)
{
	return ((const struct sockaddr_ll *)interface->ifa_addr)->sll_ifindex;
}

const struct ifaddrs *worker_id_source_find_interface(const struct ifaddrs *interfaces)
{
	const struct ifaddrs *found = NULL;

	for (const struct ifaddrs *one = interfaces; one != NULL; one = one->ifa_next)
		if (has_mac(one) && (found == NULL || index_of(one) < index_of(found)))
			found = one;
	return found;
}
