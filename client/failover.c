/* SPDX-License-Identifier: Apache-2.0 */
#include "client/failover.h"

const Address *client_failover_server(const SnowflakeClient *self)
{
	return self->servers->pdata[self->current];
}

static void disconnect(SnowflakeClient *self)
{
	g_clear_pointer(&self->connection, client_connection_free);
	self->lacks_get_ids = FALSE;
	self->lacks_get_id_runs = FALSE;
	self->max_count = G_MAXUINT;
}

void client_failover_set_tls(SnowflakeClient *self, TlsClient *tls)
{
	TlsClient *before = self->tls;

	self->tls = tls_client_ref(tls);
	tls_client_unref(before);
}

void client_failover_leave(SnowflakeClient *self)
{
	disconnect(self);
	self->current = (self->current + 1) % self->servers->len;
}

/* Not g_random_...(), whose state a process shares with those that it forks. */
void snowflake_client_shuffle_servers(SnowflakeClient *self)
{
	g_return_if_fail(self != NULL);

	g_autoptr(GRand) random = g_rand_new();
	gpointer *servers = self->servers->pdata;

	disconnect(self);
	self->current = 0;
	for (guint left = self->servers->len; left > 1; left--) {
		gint32 drawn = g_rand_int_range(random, 0, (gint32)left);
		gpointer server = servers[drawn];

		servers[drawn] = servers[left - 1];
		servers[left - 1] = server;
	}
}

static gboolean exchange(SnowflakeClient *self, const ClientCall *call, ClientLimit limit,
			 ClientReply *reply, GError **error)
{
	g_autoptr(GByteArray) request = g_byte_array_new();
	g_autoptr(GByteArray) bytes = g_byte_array_new();
	gint32 seqid = self->seqid;

	self->seqid = seqid == G_MAXINT32 ? 0 : seqid + 1;
	client_call_write(call, seqid, request);
	return client_connection_exchange(self->connection, request,
					  client_call_max_reply_bytes(call), limit, bytes, error) &&
	       client_call_read(call, seqid, bytes->data, bytes->len, reply, error);
}

/* What this machine believes is read when it is needed, which takes some milliseconds. */
static gboolean has_tls(SnowflakeClient *self, GError **error)
{
	const TlsNames nothing = {0};
	g_autoptr(GError) fault = NULL;

	if (self->tls == NULL)
		self->tls = tls_client_new(&nothing, &fault);
	if (self->tls == NULL)
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR,
				    SNOWFLAKE_CLIENT_ERROR_UNREACHABLE, fault->message);
	return self->tls != NULL;
}

static gboolean connect_to(SnowflakeClient *self, const Address *address, ClientLimit limit,
			   GError **error)
{
	if (address->is_tls && !has_tls(self, error))
		return FALSE;
	self->connection =
		client_connection_new(address, address->is_tls ? self->tls : NULL, limit, error);
	return self->connection != NULL;
}

/* Makes the call at the current server. A connection that stood and breaks may have done so at any
 * time since the call before: that says nothing of the server, which is connected to again. */
static gboolean attempt(SnowflakeClient *self, const ClientCall *call, ClientLimit limit,
			ClientReply *reply, GError **error)
{
	g_autoptr(GError) failure = NULL;

	if (self->connection != NULL && !client_connection_is_stale(self->connection)) {
		if (exchange(self, call, limit, reply, &failure))
			return TRUE;
		if (!g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR,
				     SNOWFLAKE_CLIENT_ERROR_UNREACHABLE)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return FALSE;
		}
	}
	disconnect(self);
	return connect_to(self, client_failover_server(self), limit, error) &&
	       exchange(self, call, limit, reply, error);
}

/* Of the time that is left, half at each server, and all of it at the last one. */
static ClientLimit limit_of_attempt(const SnowflakeClient *self, gboolean is_last)
{
	gint64 now_us = g_get_monotonic_time();
	gint64 half_us = MAX(self->deadline_us - now_us, 0) / 2;

	if (is_last) /* what it is told of in the end is the limit that was set */
		return (ClientLimit){
			.start_us = self->deadline_us - self->timeout_ms * G_TIME_SPAN_MILLISECOND,
			.ms = self->timeout_ms,
		};
	return (ClientLimit){
		.start_us = now_us,
		.ms = (guint)((half_us + G_TIME_SPAN_MILLISECOND - 1) / G_TIME_SPAN_MILLISECOND),
	};
}

/* After a call that failed: leaves the server where another may do better. */
static gboolean move_on(SnowflakeClient *self, const GError *error)
{
	switch ((SnowflakeClientError)error->code) {
	case SNOWFLAKE_CLIENT_ERROR_CLOCK:
	case SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE:
		if (self->servers->len > 1)
			client_failover_leave(self);
		return TRUE;
	case SNOWFLAKE_CLIENT_ERROR_UNREACHABLE:
	case SNOWFLAKE_CLIENT_ERROR_TIMEOUT:
	case SNOWFLAKE_CLIENT_ERROR_PROTOCOL:
		client_failover_leave(self);
		return TRUE;
	case SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT:
	case SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED:
	default:
		return FALSE;
	}
}

static void append_message(GString *messages, const char *server, const GError *error)
{
	g_string_append_printf(messages, "%s%s: %s", messages->len > 0 ? "; " : "", server,
			       error->message);
}

gboolean client_failover_perform(SnowflakeClient *self, const ClientCall *call, ClientReply *reply,
				 GError **error)
{
	g_autoptr(GString) messages = g_string_new(NULL);
	g_autoptr(GError) failure = NULL;
	guint left = self->servers->len;
	gboolean done, moved;

	do {
		const char *server = client_failover_server(self)->text;

		g_clear_error(&failure);
		reply->retry_after_ms = 0;
		reply->count_refused = FALSE;
		done = attempt(self, call, limit_of_attempt(self, left == 1), reply, &failure);
		moved = !done && move_on(self, failure);
		if (!done)
			append_message(messages, server, failure);
	} while (moved && --left > 0 && g_get_monotonic_time() < self->deadline_us);
	self->retry_after_ms = reply->retry_after_ms;
	if (done)
		return TRUE;
	g_set_error_literal(error, failure->domain, failure->code, messages->str);
	return FALSE;
}
