/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#define CLIENT_ADDRESS_DEFAULT_PORT 7609

/* Where a server is. */
typedef struct {
	char *host; /* a name or an address, without brackets */
	guint16 port;
	char *text; /* host:port, with brackets where they are needed */
} ClientAddress;

/**
 * client_address_parse:
 * @text: "host", "host:port", "[::1]" or "[::1]:port"
 *
 * Returns: (transfer full): an address, or %NULL with INVALID_ARGUMENT set
 */
ClientAddress *client_address_parse(const char *text, GError **error);
void client_address_free(ClientAddress *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ClientAddress, client_address_free)
