/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* The address of a server, as in options of servers and clients: HOST:PORT, tls:HOST:PORT, or a
 * local socket, which is unix:PATH or unix:@NAME. The latter is an abstract socket, which has no
 * file. Names are not resolved here. */

#define ADDRESS_DEFAULT_PORT 7609
#define ADDRESS_ADMIN_PORT   9990 /* the admin port */

#define ADDRESS_TLS_PREFIX "tls:"

#define ADDRESS_MAX_HOST_BYTES 253 /* maximum length of a DNS name */

/* The maximum length of a local socket's path, including its "@": the kernel's limit minus the
 * NUL. */
#define ADDRESS_MAX_PATH_BYTES 107

typedef struct {
	char *host;   /* a name, an IPv4 address, an IPv6 address without brackets, or "*"; NULL
			 for a local socket */
	guint16 port; /* 0 for any free port, and for a local socket */
	char *path;   /* path of a local socket: "/run/ids", or "@ids"; NULL if there is a host */
	/* HOST:PORT, with brackets if necessary, and with the prefix tls: if is_tls; or
	 * unix:PATH */
	char *text;
	gboolean is_tls;
} Address;

/* Parses HOST:PORT, or HOST alone for the default port. An IPv6 address needs brackets:
 * "[::1]:7609".
 * "*" means every address of the machine. Returns: (transfer full) (nullable): the address, or
 * %NULL with a GOptionError set. Its message quotes @text, shortened if it is long, and gives the
 * expected form */
Address *address_parse(const char *text, GError **error);

/* Parses an address like address_parse(), with ADDRESS_ADMIN_PORT as the default port. */
Address *address_parse_admin(const char *text, GError **error);

/* Returns whether @text begins with ADDRESS_TLS_PREFIX. "tls:7609" does not: it means port 7609 on
 * a host named tls. */
gboolean address_text_is_tls(const char *text);

/* Parses an address to connect to, like address_parse(). The address can begin with tls:. "*" and
 * port 0 are not allowed. */
Address *address_parse_peer(const char *text, GError **error);

/* Parses an address like address_parse(), with or without tls:, or a local socket: unix:PATH with
 * an absolute path, unix:@NAME, or @NAME alone. Paths and names are printable UTF-8 of at most
 * ADDRESS_MAX_PATH_BYTES. */
Address *address_parse_listen(const char *text, GError **error);

/* Parses an address like address_parse_peer(), or a local socket, for clients on this machine. */
Address *address_parse_server(const char *text, GError **error);

/* Returns: (transfer full) (element-type Address): all addresses, or %NULL with an error set
 * @texts: NULL-terminated: each is one address as for address_parse_server(), or several of them
 * separated by commas. A string that begins with a local socket is one address, because its path
 * can contain commas */
GPtrArray *address_parse_servers(const char *const *texts, GError **error);

/* Returns: (transfer full): a copy. */
Address *address_copy(const Address *self);
void address_free(Address *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Address, address_free)

/* Returns whether one of the addresses has TLS. @addresses: (element-type Address) */
gboolean address_any_is_tls(const GPtrArray *addresses);

/* Returns whether @self means every address of the machine: "*", or the unspecified address in any
 * spelling. */
gboolean address_is_everywhere(const Address *self);

/* Returns whether @host, a name or an address without brackets, can be reached from this machine
 * only: localhost, 127.0.0.0/8 and ::1. Other names are not resolved. */
gboolean address_host_is_loopback(const char *host);

/* Returns whether only this machine can reach @self: a local socket, or a loopback address. */
gboolean address_is_local(const Address *self);
