/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/address.h"

/* A TCP connection to one server, which carries frames: four bytes of length, then a message. */
typedef struct _ClientConnection ClientConnection;

/**
 * client_connection_new:
 * @timeout_ms: how long it may take, the look-up of the name included
 *
 * Tries every address that the name has.
 *
 * Returns: (transfer full): a connection, or %NULL with UNREACHABLE or TIMEOUT set, which names
 *   the server
 */
ClientConnection *client_connection_new(const Address *address, guint timeout_ms, GError **error);
void client_connection_free(ClientConnection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ClientConnection, client_connection_free)

/* Whether it is of no use any more: the server has closed it, or has sent what nobody asked for.
 * Asks the kernel, not the server. */
gboolean client_connection_is_stale(ClientConnection *self);

/**
 * client_connection_exchange:
 * @request: a message
 * @max_reply_bytes: of the message that answers it
 * @timeout_ms: how long it may take
 * @out_reply: (out): set to the message that answers it; undefined on failure
 *
 * After a failure the connection is of no use any more.
 *
 * Returns: %TRUE, or %FALSE with UNREACHABLE, TIMEOUT or PROTOCOL set
 */
gboolean client_connection_exchange(ClientConnection *self, const GByteArray *request,
				    guint max_reply_bytes, guint timeout_ms, GByteArray *out_reply,
				    GError **error) G_GNUC_WARN_UNUSED_RESULT;
