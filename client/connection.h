/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/address.h"
#include "common/tls/client.h"

/* A connection to one server, by TCP, with TLS or without, or a local socket, which carries frames:
 * four bytes of length, then a message. */
typedef struct _ClientConnection ClientConnection;

/* How long something may take, and since when: what comes after it has what is left of it. */
typedef struct {
	gint64 start_us; /* g_get_monotonic_time() */
	guint ms;
} ClientLimit;

/**
 * client_connection_new:
 * @tls: (nullable): to speak TLS with; borrowed; %NULL: plain
 *
 * Tries every address that the name has. A look-up that the limit cuts short goes on in a thread of
 * GLib's, until the resolver gives up; nobody waits for it.
 *
 * Returns: (transfer full): a connection, or %NULL with UNREACHABLE or TIMEOUT set
 */
ClientConnection *client_connection_new(const Address *address, TlsClient *tls, ClientLimit limit,
					GError **error);
void client_connection_free(ClientConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ClientConnection, client_connection_free)

/* Whether it is of no use any more: the server has closed it, or has sent what nobody asked for.
 * Asks nobody but the kernel. */
gboolean client_connection_is_stale(ClientConnection *self);

/**
 * client_connection_exchange:
 * @request: a message
 * @max_reply_bytes: of the message that answers it
 * @out_reply: (out): set to the message that answers it; undefined on failure
 *
 * After a failure the connection is of no use any more.
 *
 * Returns: %TRUE, or %FALSE with UNREACHABLE, TIMEOUT or PROTOCOL set
 */
gboolean client_connection_exchange(ClientConnection *self, const GByteArray *request,
				    guint max_reply_bytes, ClientLimit limit, GByteArray *out_reply,
				    GError **error) G_GNUC_WARN_UNUSED_RESULT;
