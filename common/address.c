/* SPDX-License-Identifier: Apache-2.0 */
#include "common/address.h"

#include <arpa/inet.h>
#include <string.h>

#include "core/text.h"

#define MAX_HOST_BYTES 253 /* of a name in the DNS */

/* What is wrong with a host in brackets, or NULL. */
static const char *bracketed_host_fault(const char *host)
{
	if (strchr(host, ':') == NULL || !g_hostname_is_ip_address(host))
		return "what stands in brackets is not an IPv6 address";
	return NULL;
}

/* What is wrong with any other host, or NULL. */
static const char *host_fault(const char *host)
{
	static const char NAME[] = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-._";

	if (strcmp(host, "*") == 0)
		return NULL;
	if (*host == '\0')
		return "the host is missing; \"*\" is every address of the machine";
	if (strchr(host, ':') != NULL)
		return "an IPv6 address stands in brackets, as in [::1]:7609";
	if (host[strspn(host, NAME)] != '\0' || strlen(host) > MAX_HOST_BYTES)
		return "the host is neither a name nor an IP address";
	/* the resolver would take 7609 for 0.0.29.185 */
	if (host[strspn(host, G_CSET_DIGITS ".")] == '\0' && !g_hostname_is_ip_address(host))
		return "the host is not an IPv4 address; \"*\" is every address of the machine";
	return NULL;
}

/* Sets *out_port to NULL if there is none. Returns what is wrong with the text, or NULL. */
static const char *split(const char *text, char **out_host, const char **out_port)
{
	gboolean bracketed = *text == '[';
	const char *host = text + bracketed;
	const char *host_end = bracketed ? strchr(text, ']') : strrchr(text, ':');
	const char *rest;

	if (bracketed && host_end == NULL)
		return "the bracket is not closed";
	if (host_end == NULL)
		host_end = text + strlen(text);
	rest = host_end + bracketed;
	if (*rest != '\0' && *rest != ':')
		return "a port stands after a colon, as in [::1]:7609";
	*out_host = g_strndup(host, (gsize)(host_end - host));
	*out_port = *rest == ':' ? rest + 1 : NULL;
	return bracketed ? bracketed_host_fault(*out_host) : host_fault(*out_host);
}

static Address *refuse(const char *text, const char *fault, GError **error)
{
	g_autofree char *escaped = text_escape(text, strlen(text));

	g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "\"%s\" is not HOST:PORT: %s",
		    escaped, fault);
	return NULL;
}

static Address *parse(const char *text, guint16 default_port, GError **error)
{
	g_autofree char *host = NULL;
	const char *port_text = NULL;
	guint64 port = default_port;
	const char *fault = split(text, &host, &port_text);
	gboolean bracketed;
	Address *self;

	if (fault == NULL && port_text != NULL &&
	    !g_ascii_string_to_unsigned(port_text, 10, 0, G_MAXUINT16, &port, NULL))
		fault = "the port is not a number from 0 to 65535";
	if (fault != NULL)
		return refuse(text, fault, error);
	bracketed = strchr(host, ':') != NULL;
	self = g_new(Address, 1);
	self->text = g_strdup_printf(bracketed ? "[%s]:%u" : "%s:%u", host, (guint)port);
	self->host = g_steal_pointer(&host);
	self->port = (guint16)port;
	return self;
}

Address *address_parse(const char *text, GError **error)
{
	return parse(text, ADDRESS_DEFAULT_PORT, error);
}

Address *address_parse_admin(const char *text, GError **error)
{
	return parse(text, ADDRESS_ADMIN_PORT, error);
}

Address *address_parse_peer(const char *text, GError **error)
{
	g_autoptr(Address) self = address_parse(text, error);

	if (self == NULL)
		return NULL;
	if (address_is_everywhere(self) || self->port == 0)
		return refuse(text, "others cannot connect to this", error);
	return g_steal_pointer(&self);
}

Address *address_copy(const Address *self)
{
	Address *copy = g_new(Address, 1);

	*copy = (Address){g_strdup(self->host), self->port, g_strdup(self->text)};
	return copy;
}

void address_free(Address *self)
{
	if (self == NULL)
		return;
	g_free(self->host);
	g_free(self->text);
	g_free(self);
}

/* "::", in any spelling, also of an interface alone. */
static gboolean is_unspecified_v6(const char *host)
{
	g_autofree char *bare = g_strndup(host, strcspn(host, "%"));
	struct in6_addr address;

	if (inet_pton(AF_INET6, bare, &address) != 1)
		return FALSE;
	if (IN6_IS_ADDR_V4MAPPED(&address))
		memset(&address, 0, 12);
	return IN6_IS_ADDR_UNSPECIFIED(&address);
}

static gboolean is_unspecified_v4(const char *host)
{
	struct in_addr address;

	return inet_pton(AF_INET, host, &address) == 1 && address.s_addr == INADDR_ANY;
}

gboolean address_is_everywhere(const Address *self)
{
	return strcmp(self->host, "*") == 0 || is_unspecified_v4(self->host) ||
	       is_unspecified_v6(self->host);
}
