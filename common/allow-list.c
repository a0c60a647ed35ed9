/* SPDX-License-Identifier: Apache-2.0 */
#include "common/allow-list.h"

#include <gio/gio.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "core/text.h"

#define MAX_PREFIX_BITS 128
#define MAPPED_BITS     96 /* the prefix ::ffff:0:0 before an IPv4 address */

/* Returns: (transfer full) (nullable): %NULL if @entry is not an address or network. An IPv4-mapped
 * IPv6 address becomes an IPv4 address, because clients' addresses have this form. */
static GInetAddressMask *parse_mask(const char *entry)
{
	const char *slash = strchr(entry, '/');
	g_autoptr(GInetAddressMask) mask = NULL;
	g_autoptr(GInetAddress) inner = NULL;
	GInetAddress *address;
	guint64 n_bits;
	guint length;

	/* GLib accepts two invalid numbers of bits: one that wraps around, and 129 as all bits */
	if (entry[strspn(entry, "0123456789abcdefABCDEF:./")] != '\0' ||
	    (slash != NULL &&
	     !g_ascii_string_to_unsigned(slash + 1, 10, 0, MAX_PREFIX_BITS, &n_bits, NULL)))
		return NULL;
	mask = g_inet_address_mask_new_from_string(entry, NULL);
	if (mask == NULL)
		return NULL;
	address = g_inet_address_mask_get_address(mask);
	length = g_inet_address_mask_get_length(mask);
	if (g_inet_address_get_family(address) != G_SOCKET_FAMILY_IPV6 || length < MAPPED_BITS ||
	    !IN6_IS_ADDR_V4MAPPED(g_inet_address_to_bytes(address)))
		return g_steal_pointer(&mask);
	inner = g_inet_address_new_from_bytes(g_inet_address_to_bytes(address) + MAPPED_BITS / 8,
					      G_SOCKET_FAMILY_IPV4);
	return g_inet_address_mask_new(inner, length - MAPPED_BITS, NULL);
}

AllowList *allow_list_parse(const char *text, GError **error)
{
	g_autoptr(AllowList) self = g_new0(AllowList, 1);
	g_auto(GStrv) entries = g_strsplit(text, ",", -1);

	atomic_init(&self->references, 1);
	self->text = g_strdup(text);
	self->masks = g_ptr_array_new_with_free_func(g_object_unref);
	self->names = g_ptr_array_new_with_free_func(g_free);
	for (guint i = 0; i == 0 || entries[i] != NULL; i++) {
		const char *entry = entries[i] != NULL ? g_strstrip(entries[i]) : "";
		const char *name = entry + strlen(ALLOW_LIST_NAME_PREFIX);
		gboolean is_name = g_str_has_prefix(entry, ALLOW_LIST_NAME_PREFIX);
		GInetAddressMask *mask = is_name ? NULL : parse_mask(entry);

		if (mask != NULL) {
			g_ptr_array_add(self->masks, mask);
		} else if (is_name && *name != '\0' && *name != '.') {
			g_ptr_array_add(self->names, g_strdup(name));
		} else {
			text_refuse_value(error, entry,
					  "is not an address such as 192.0.2.7, a network such as "
					  "10.0.0.0/8 with 0 bits after the prefix, "
					  "or " ALLOW_LIST_NAME_PREFIX "NAME");
			return NULL;
		}
	}
	return g_steal_pointer(&self);
}

AllowList *allow_list_ref(AllowList *self)
{
	if (self != NULL)
		atomic_fetch_add(&self->references, 1);
	return self;
}

void allow_list_unref(AllowList *self)
{
	if (self == NULL || atomic_fetch_sub(&self->references, 1) > 1)
		return;
	g_free(self->text);
	g_ptr_array_unref(self->masks);
	g_ptr_array_unref(self->names);
	g_free(self);
}

gboolean allow_list_has_names(const AllowList *self)
{
	return self != NULL && self->names->len > 0;
}

static gboolean admits_name(const AllowList *self, const TlsStream *tls)
{
	for (guint i = 0; i < self->names->len; i++)
		if (tls_stream_peer_is(tls, self->names->pdata[i]))
			return TRUE;
	return FALSE;
}

gboolean allow_list_admits(const AllowList *self, int fd, const TlsStream *tls)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t length = sizeof peer;
	g_autoptr(GSocketAddress) address = NULL;

	if (self == NULL)
		return TRUE;
	if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0)
		address = g_socket_address_new_from_native(&peer, length);
	for (guint i = 0; G_IS_INET_SOCKET_ADDRESS(address) && i < self->masks->len; i++)
		if (g_inet_address_mask_matches(
			    self->masks->pdata[i],
			    g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(address))))
			return TRUE;
	return tls != NULL && admits_name(self, tls);
}

char *allow_list_entry_for(const TlsStream *tls)
{
	g_autofree char *name = tls != NULL ? tls_stream_peer_name(tls) : NULL;
	g_autofree char *entry = NULL;
	g_autoptr(AllowList) list = NULL;

	if (name == NULL)
		return NULL;
	entry = g_strconcat(ALLOW_LIST_NAME_PREFIX, name, NULL);
	list = allow_list_parse(entry, NULL);
	/* accept exactly one entry, because a name with commas would be parsed as several */
	return list != NULL && list->masks->len == 0 && list->names->len == 1 &&
			       admits_name(list, tls)
		       ? g_steal_pointer(&entry)
		       : NULL;
}
