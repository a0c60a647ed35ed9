/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* HOST:PORT, as written in options. Text only: nothing is looked up. */

#define ADDRESS_DEFAULT_PORT 7609

typedef struct {
	char *host;   /* a name, an IPv4 address, an IPv6 address without brackets, or "*" */
	guint16 port; /* 0: any free port */
} Address;

/**
 * address_parse:
 * @text: HOST:PORT, or HOST alone for the default port. An IPv6 address stands in brackets, as in
 *   "[::1]:7609"; "*" is every address of the machine
 *
 * Returns: (transfer full) (nullable): the address, or %NULL with a GOptionError set, which quotes
 * @text and says what to write
 */
Address *address_parse(const char *text, GError **error);
void address_free(Address *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Address, address_free)

/* (transfer full): as address_parse() reads it, always with the port. */
char *address_to_string(const Address *self);
