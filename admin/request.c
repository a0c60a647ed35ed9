/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/request.h"

#include <gio/gio.h>
#include <netinet/in.h>
#include <string.h>

#include "common/address.h"
#include "core/text.h"

const char *admin_request_argument(const AdminRequest *self, const char *name)
{
	const char *value = NULL;

	if (MHD_lookup_connection_value_n(self->connection, MHD_GET_ARGUMENT_KIND, name,
					  strlen(name), &value, NULL) == MHD_NO)
		return NULL;
	return value != NULL ? value : "";
}

const char *admin_request_header(const AdminRequest *self, const char *name)
{
	return MHD_lookup_connection_value(self->connection, MHD_HEADER_KIND, name);
}

typedef struct {
	const char *const *parameters;
	GHashTable *seen;
	char *fault;
} Inspection;

static gboolean contains(const char *const *names, const char *name)
{
	return names != NULL && g_strv_contains(names, name);
}

static enum MHD_Result inspect(void *data, enum MHD_ValueKind kind G_GNUC_UNUSED, const char *name,
			       const char *value G_GNUC_UNUSED)
{
	Inspection *self = data;
	g_autofree char *shown = text_escape(name, strlen(name));
	g_autofree char *known = NULL;

	if (contains(self->parameters, name)) {
		if (g_hash_table_add(self->seen, (gpointer)name))
			return MHD_YES;
		self->fault = g_strdup_printf("%s is given twice; leave one", shown);
		return MHD_NO;
	}
	known = self->parameters != NULL ? g_strjoinv(" and ", (char **)self->parameters)
					 : g_strdup("no arguments");
	self->fault = g_strdup_printf("unknown argument \"%s\"; this takes %s", shown, known);
	return MHD_NO;
}

char *admin_request_find_fault(const AdminRequest *self, const char *const *parameters)
{
	g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
	Inspection inspection = {.parameters = parameters, .seen = seen};

	MHD_get_connection_values(self->connection, MHD_GET_ARGUMENT_KIND, inspect, &inspection);
	return inspection.fault;
}

gboolean admin_request_is_of_another_site(const AdminRequest *self)
{
	const char *site = admin_request_header(self, "Sec-Fetch-Site");

	/* "none": a person typed it */
	return site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

static gboolean is_from_loopback(const AdminRequest *self)
{
	const struct sockaddr *peer =
		MHD_get_connection_info(self->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
			->client_addr;
	/* IPv4 within IPv6 becomes IPv4 */
	g_autoptr(GSocketAddress) address = g_socket_address_new_from_native(
		(gpointer)peer, peer->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
							    : sizeof(struct sockaddr_in));

	return G_IS_INET_SOCKET_ADDRESS(address) &&
	       g_inet_address_get_is_loopback(
		       g_inet_socket_address_get_address(G_INET_SOCKET_ADDRESS(address)));
}

gboolean admin_request_is_rebound(const AdminRequest *self)
{
	const char *host = admin_request_header(self, MHD_HTTP_HEADER_HOST);
	g_autoptr(Address) address = NULL;

	if (host == NULL || !is_from_loopback(self))
		return FALSE;
	address = address_parse(host, NULL);
	return address == NULL || (!g_hostname_is_ip_address(address->host) &&
				   g_ascii_strcasecmp(address->host, "localhost") != 0);
}
