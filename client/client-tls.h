/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"
#include "common/tls/stream.h"

/* What a client brings to connections with TLS. Never changed, so any thread may use it. */
typedef struct _ClientTls ClientTls;

/* @told: (nullable): as snowflake_client_set_tls() has it. Returns: (transfer full): or %NULL with
 * INVALID_ARGUMENT set */
ClientTls *client_tls_new(const SnowflakeClientTls *told, GError **error);
void client_tls_free(ClientTls *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ClientTls, client_tls_free)

/* (transfer full): with copies of the names, and the end of those. */
SnowflakeClientTls client_tls_names_copy(const SnowflakeClientTls *told);
void client_tls_names_clear(SnowflakeClientTls *self);

/* On @fd, a connected socket that does not block. Returns: (transfer full): or %NULL with errno set
 * @host: that was connected to */
TlsStream *client_tls_stream_new(const ClientTls *self, int fd, const char *host);

/* After one of a stream's functions has failed: what to tell of it. (transfer full) */
char *client_tls_describe(const TlsStream *stream, int number);
