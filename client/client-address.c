/* SPDX-License-Identifier: Apache-2.0 */
#include "client/client-address.h"

#include <gio/gio.h>
#include <string.h>

#include "client/snowflake-client.h"

#define HOST_CHARACTERS G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-._"
#define MAX_HOST_BYTES  253 /* of a name in the DNS */

static gboolean is_ipv6(const char *host)
{
	/* the zone of a link-local address, as in fe80::1%eth0, is not part of it */
	g_autofree char *without_zone = g_strndup(host, strcspn(host, "%"));
	g_autoptr(GInetAddress) address = g_inet_address_new_from_string(without_zone);

	return address != NULL && g_inet_address_get_family(address) == G_SOCKET_FAMILY_IPV6;
}

static gboolean is_host(const char *host)
{
	gsize length = strlen(host);

	return length > 0 && length <= MAX_HOST_BYTES && strspn(host, HOST_CHARACTERS) == length;
}

static gboolean parse_port(const char *text, guint16 *out_port)
{
	guint64 port;

	if (!g_ascii_string_to_unsigned(text, 10, 1, G_MAXUINT16, &port, NULL))
		return FALSE;
	*out_port = port;
	return TRUE;
}

/* The host part of @text, or NULL; *out_rest is what follows it. */
static char *split_host(const char *text, const char **out_rest)
{
	gboolean bracketed = text[0] == '[';
	const char *start = text + bracketed;
	gsize length = strcspn(start, bracketed ? "]" : ":");
	g_autofree char *host = g_strndup(start, length);

	if (bracketed ? start[length] != ']' || !is_ipv6(host) : !is_host(host))
		return NULL;
	*out_rest = start + length + bracketed;
	return g_steal_pointer(&host);
}

ClientAddress *client_address_parse(const char *text, GError **error)
{
	const char *rest = NULL;
	guint16 port = CLIENT_ADDRESS_DEFAULT_PORT;
	g_autofree char *host = split_host(text, &rest);

	if (host == NULL || (*rest != '\0' && (*rest != ':' || !parse_port(rest + 1, &port)))) {
		g_autofree char *shown = g_strescape(text, NULL);

		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
			    "\"%s\" is not a server: write host, host:port or [IPv6]:port, "
			    "with a port from 1 to 65535",
			    shown);
		return NULL;
	}

	ClientAddress *self = g_new0(ClientAddress, 1);

	self->text = g_strdup_printf(text[0] == '[' ? "[%s]:%u" : "%s:%u", host, port);
	self->host = g_steal_pointer(&host);
	self->port = port;
	return self;
}

void client_address_free(ClientAddress *self)
{
	if (self == NULL)
		return;
	g_free(self->host);
	g_free(self->text);
	g_free(self);
}
