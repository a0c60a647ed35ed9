/* SPDX-License-Identifier: Apache-2.0 */
#include "common/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <string.h>

#include "core/text.h"

#define LOCAL_PREFIX "unix:"

static const char NAME[] = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-._";

/* Returns the error in a host, or NULL. */
static const char *host_fault(const char *host, gboolean is_bracketed)
{
	if (is_bracketed) {
		const char *zone = strchr(host, '%');

		if (strchr(host, ':') == NULL || !g_hostname_is_ip_address(host))
			return "the text in brackets is not an IPv6 address";
		/* GLib accepts a zone of any length */
		if (zone != NULL &&
		    (zone[1 + strspn(zone + 1, NAME)] != '\0' || strlen(zone + 1) >= IF_NAMESIZE))
			return "the text after % is not a network interface";
		return NULL;
	}
	if (strcmp(host, "*") == 0)
		return NULL;
	if (strpbrk(host, ",;") != NULL)
		return "it is more than one address";
	if (*host == '\0')
		return "the host is missing; * means all addresses of the machine";
	if (strchr(host, ':') != NULL)
		return "an IPv6 address needs brackets, as in [::1]:7609";
	if (host[strspn(host, NAME)] != '\0' || strlen(host) > ADDRESS_MAX_HOST_BYTES)
		return "the host is neither a name nor an IP address";
	/* the resolver would read 7609 as the address 0.0.29.185 */
	if (host[strspn(host, G_CSET_DIGITS ".")] == '\0' && !g_hostname_is_ip_address(host))
		return "the host is not an IPv4 address; * means all addresses of the machine";
	return NULL;
}

/* Splits HOST:PORT. Sets *out_port to NULL if there is no port. Returns the error in the text, or
 * NULL. */
static const char *split_host_port(const char *text, char **out_host, const char **out_port)
{
	gboolean is_bracketed = *text == '[';
	const char *host = text + is_bracketed;
	const char *host_end = is_bracketed ? strchr(text, ']') : strrchr(text, ':');
	const char *rest;

	if (is_bracketed && host_end == NULL)
		return "the bracket is not closed";
	if (host_end == NULL)
		host_end = text + strlen(text);
	rest = host_end + is_bracketed;
	if (*rest != '\0' && *rest != ':')
		return "the port must follow a colon, as in [::1]:7609";
	*out_host = g_strndup(host, (gsize)(host_end - host));
	*out_port = *rest == ':' ? rest + 1 : NULL;
	return host_fault(*out_host, is_bracketed);
}

/* Sets an error that quotes @text. @form: the expected form. Returns NULL. */
static Address *refuse_address(const char *text, const char *form, const char *fault,
			       GError **error)
{
	g_autofree char *why = g_strdup_printf("is not %s: %s", form, fault);

	text_refuse_value(error, text, why);
	return NULL;
}

/* Returns whether @text begins with @prefix, such as "unix:". "unix:7609" does not: it means port
 * 7609 of a host named unix. */
static gboolean has_prefix(const char *text, const char *prefix)
{
	const char *rest = text + strlen(prefix);

	return g_str_has_prefix(text, prefix) &&
	       (*rest == '\0' || rest[strspn(rest, G_CSET_DIGITS)] != '\0');
}

static gboolean is_local_socket(const char *text)
{
	return *text == '@' || *text == '/' || has_prefix(text, LOCAL_PREFIX);
}

gboolean address_text_is_tls(const char *text)
{
	return has_prefix(text, ADDRESS_TLS_PREFIX);
}

static Address *parse_local(const char *text, GError **error)
{
	const char *path =
		g_str_has_prefix(text, LOCAL_PREFIX) ? text + strlen(LOCAL_PREFIX) : text;
	g_autofree char *too_long = NULL;
	const char *fault = NULL;
	Address *self;

	if (*text == '/')
		return refuse_address(text, "HOST:PORT", "a path must follow " LOCAL_PREFIX, error);
	/* also accept unix:///run/ids */
	while (g_str_has_prefix(path, "//"))
		path++;
	if (*path != '/' && *path != '@') {
		fault = "the path is not absolute, as in unix:/run/ids; unix:@ids is an abstract "
			"socket without a file";
	} else if (g_str_has_suffix(path, "/") || path[1] == '\0') {
		fault = "the name is missing";
	} else if (strlen(path) > ADDRESS_MAX_PATH_BYTES) {
		too_long = g_strdup_printf("the path has %zu bytes; the limit is %d", strlen(path),
					   ADDRESS_MAX_PATH_BYTES);
		fault = too_long;
	}
	for (const char *at = path; *at != '\0' && fault == NULL; at = g_utf8_next_char(at))
		if (!g_unichar_isprint(g_utf8_get_char_validated(at, -1)))
			fault = "the path is not printable text";
	if (fault != NULL)
		return refuse_address(text, "unix:PATH", fault, error);
	self = g_new0(Address, 1);
	self->path = g_strdup(path);
	self->text = g_strconcat(LOCAL_PREFIX, path, NULL);
	return self;
}

/* @is_tls: @text begins with ADDRESS_TLS_PREFIX */
static Address *parse_address(const char *text, gboolean is_tls, guint16 default_port,
			      GError **error)
{
	const char *bare = is_tls ? text + strlen(ADDRESS_TLS_PREFIX) : text;
	g_autofree char *host = NULL;
	const char *port_text = NULL;
	guint64 port = default_port;
	const char *fault = is_local_socket(bare) ? "a local socket is not possible here"
						  : split_host_port(bare, &host, &port_text);
	gboolean bracketed;
	Address *self;

	if (strstr(text, "://") != NULL && !is_local_socket(bare))
		fault = "write the host without a scheme such as http://";
	if (fault == NULL && port_text != NULL &&
	    !text_parse_number(port_text, 10, 0, G_MAXUINT16, &port))
		fault = "the port is not a number from 0 to 65535";
	if (fault != NULL)
		return refuse_address(text, is_tls ? ADDRESS_TLS_PREFIX "HOST:PORT" : "HOST:PORT",
				      fault, error);
	bracketed = strchr(host, ':') != NULL;
	self = g_new0(Address, 1);
	self->text = g_strdup_printf(bracketed ? "%s[%s]:%u" : "%s%s:%u",
				     is_tls ? ADDRESS_TLS_PREFIX : "", host, (guint)port);
	self->is_tls = is_tls;
	self->host = g_steal_pointer(&host);
	self->port = (guint16)port;
	return self;
}

Address *address_parse(const char *text, GError **error)
{
	return parse_address(text, FALSE, ADDRESS_DEFAULT_PORT, error);
}

Address *address_parse_admin(const char *text, GError **error)
{
	return parse_address(text, FALSE, ADDRESS_ADMIN_PORT, error);
}

Address *address_parse_listen(const char *text, GError **error)
{
	return is_local_socket(text) ? parse_local(text, error)
				     : parse_address(text, address_text_is_tls(text),
						     ADDRESS_DEFAULT_PORT, error);
}

Address *address_parse_peer(const char *text, GError **error)
{
	g_autoptr(Address) self =
		parse_address(text, address_text_is_tls(text), ADDRESS_DEFAULT_PORT, error);

	if (self == NULL)
		return NULL;
	if (address_is_everywhere(self) || self->port == 0)
		return refuse_address(text, "HOST:PORT",
				      "other machines cannot connect to this address", error);
	return g_steal_pointer(&self);
}

Address *address_parse_server(const char *text, GError **error)
{
	return is_local_socket(text) ? parse_local(text, error) : address_parse_peer(text, error);
}

GPtrArray *address_parse_servers(const char *const *texts, GError **error)
{
	g_autoptr(GPtrArray) addresses =
		g_ptr_array_new_with_free_func((GDestroyNotify)address_free);

	for (; *texts != NULL; texts++) {
		gboolean is_one = **texts == '\0' || is_local_socket(*texts);
		char *const one[] = {(char *)*texts, NULL};
		g_auto(GStrv) parts =
			is_one ? g_strdupv((char **)one) : g_strsplit(*texts, ",", -1);

		for (guint i = 0; parts[i] != NULL; i++) {
			Address *address = address_parse_server(g_strstrip(parts[i]), error);

			if (address == NULL)
				return NULL;
			g_ptr_array_add(addresses, address);
		}
	}
	return g_steal_pointer(&addresses);
}

Address *address_copy(const Address *self)
{
	Address *copy = g_new(Address, 1);

	*copy = *self;
	copy->host = g_strdup(self->host);
	copy->path = g_strdup(self->path);
	copy->text = g_strdup(self->text);
	return copy;
}

void address_free(Address *self)
{
	if (self == NULL)
		return;
	g_free(self->host);
	g_free(self->path);
	g_free(self->text);
	g_free(self);
}

gboolean address_is_everywhere(const Address *self)
{
	g_autofree char *bare = NULL;
	struct in_addr v4;
	struct in6_addr v6;

	if (self->path != NULL)
		return FALSE;
	if (strcmp(self->host, "*") == 0)
		return TRUE;
	if (inet_pton(AF_INET, self->host, &v4) == 1)
		return v4.s_addr == INADDR_ANY;
	/* without the interface after %, if there is one */
	bare = g_strndup(self->host, strcspn(self->host, "%"));
	if (inet_pton(AF_INET6, bare, &v6) != 1)
		return FALSE;
	if (IN6_IS_ADDR_V4MAPPED(&v6))
		memset(&v6, 0, 12);
	return IN6_IS_ADDR_UNSPECIFIED(&v6);
}

gboolean address_host_is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
	if (inet_pton(AF_INET6, host, &v6) == 1)
		return IN6_IS_ADDR_LOOPBACK(&v6) ||
		       (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
	return g_ascii_strcasecmp(host, "localhost") == 0;
}

gboolean address_is_local(const Address *self)
{
	return self->path != NULL || address_host_is_loopback(self->host);
}

gboolean address_any_is_tls(const GPtrArray *addresses)
{
	for (guint i = 0; i < addresses->len; i++)
		if (((const Address *)addresses->pdata[i])->is_tls)
			return TRUE;
	return FALSE;
}
