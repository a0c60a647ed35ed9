/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/call.h"
#include "client/connection.h"
#include "client/snowflake-client.h"
#include "common/address.h"
#include "common/tls/client.h"

/* A client as it goes from one of its servers to another; snowflake-client.c has its calls. */
struct _SnowflakeClient {
	GPtrArray *servers; /* Address, one at least */
	guint current;      /* the server that the connection is to, or that is tried first */
	ClientConnection *connection; /* NULL: not now */
	TlsClient *tls;               /* NULL: it was not needed yet */
	gboolean lacks_get_ids;       /* the server at the other end of the connection */
	gboolean lacks_get_id_runs;   /* likewise */
	guint max_count;              /* for one batch; lowered when that server refuses it */
	gint32 seqid;                 /* of the next call; 0 or above */
	guint timeout_ms;
	gint64 deadline_us; /* of the call under way, by g_get_monotonic_time() */
	gint64 retry_after_ms;
};

/* As the libraries below have it; the names are borrowed. */
static inline TlsNames client_failover_tls_names(const SnowflakeClientTls *told)
{
	return (TlsNames){told->ca, told->certificate, told->key, told->any_name};
}

/* What it speaks TLS with, which may be that of others, too. @tls: kept as long as it is needed;
 * NULL: it has none */
void client_failover_set_tls(SnowflakeClient *self, TlsClient *tls);

/* Borrowed: the current one. */
const Address *client_failover_server(const SnowflakeClient *self);

/* The next call begins with the server after it in the list. */
void client_failover_leave(SnowflakeClient *self);

/**
 * client_failover_perform:
 * @reply: (inout): as client_call_read() has it
 *
 * Makes the call at each server once, from the current one on, while there is time, until one
 * serves it, or says what the others would say too. Any call may be repeated: it changes nothing
 * but the ID that comes next.
 *
 * Returns: %TRUE, or %FALSE with the last one's error set, and in its message what each of them
 * said
 */
gboolean client_failover_perform(SnowflakeClient *self, const ClientCall *call, ClientReply *reply,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;
