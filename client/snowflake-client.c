/* SPDX-License-Identifier: Apache-2.0 */

/* An attempt is a call at one address of a server. If an attempt fails, or does not succeed soon,
 * the next one begins: at the next address of the server, then at the other servers. A slow attempt
 * continues meanwhile, and the first reply ends the call. After a pass over all servers there is a
 * pause, and then the next pass, until the time of the call ends. client/call.h defines these
 * times.
 *
 * The connection of the last reply is kept, and the next call begins there. The other servers
 * follow in the order in which they failed: first those that have not failed since they last
 * answered. In a forked child, the connection is the parent's, and a call begins with a new
 * one.
 */
#include "client/snowflake-client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/batch.h"
#include "client/call.h"
#include "client/client-tls.h"
#include "client/connection.h"
#include "client/resolver.h"
#include "common/address.h"
#include "common/fork-guard.h"
#include "common/useragent.h"
#include "core/random.h"
#include "core/text.h"

/* pause before the next attempt to connect to a local socket whose queue is full */
#define FULL_QUEUE_US 10000

/* One server of the list. */
typedef struct {
	Address *address;
	/* (element-type SocketAddress): last resolved addresses; NULL if never resolved */
	GArray *found;
	ClientConnection *connection; /* idle; NULL if none */
	BatchLimits limits;           /* limits of the connected server */
	gint64 round_trip_us;         /* moving average, in microseconds; 0 if unknown */
	gint64 failed_at_us;          /* 0 if the server has answered since */
	GError *failure;              /* the last failure; NULL if the server has answered since */
	gint64 retry_after_ms;        /* from the last failure; 0 if unknown */
	gboolean is_tried;            /* in this call */
} Server;

typedef struct {
	Server *server;
	SocketAddress address;  /* its length is 0 if the server's name must be resolved first */
	Resolution *resolution; /* NULL if not resolving */
	int fd;                 /* eventfd of the resolution; -1 if none */
	/* the resolution is replaced by attempts at the last resolved addresses */
	gboolean has_queued_found;
	ClientConnection *connection;
	gboolean is_old; /* the connection existed before the call */
	gint32 seqid;
	gint64 called_at_us; /* 0 if not yet */
	gint64 slow_at_us;
	gboolean is_slow; /* it is slow, so the next attempt has been started */
} Attempt;

typedef enum {
	CALL_CONTINUES,
	CALL_ANSWERED,
	CALL_REFUSED, /* every server would refuse this call */
} CallState;

struct _SnowflakeClient {
	GPtrArray *servers; /* (element-type Server): one or more */
	/* the server that answered the last call. The next call begins there, unless another server
	 * is known to be better */
	Server *current;
	TlsClient *tls;  /* NULL if not needed yet */
	gint32 seqid;    /* sequence ID of the next call, 0 or more */
	gint64 pause_us; /* pause between the last two passes; 0 if a server has answered since */
	gint64 next_pass_at_us;
	ClientLimit limit; /* time limit of the current or next call */
	/* time after which an attempt is slow; if 0, the rule in client/call.h applies */
	gint64 patience_us;
	gboolean retries; /* makes more than one pass if necessary */
	gint64 retry_after_ms;
	/* the current call and its reply */
	const ClientCall *call;
	ClientReply *reply;
	CallState state;
	guint n_passes;
	GQueue queue;        /* (element-type Attempt): attempts of this pass that have not begun */
	GPtrArray *attempts; /* (element-type Attempt): attempts that have begun */
};

/* Closes the connection. In a forked child, its descriptor is -1, so nothing is sent. */
static void close_connection(ClientConnection *connection)
{
	if (connection == NULL)
		return;
	if (connection->fd >= 0 && connection->tls != NULL)
		tls_stream_close(connection->tls);
	fork_guard_lock();
	fork_guard_close_noted(&connection->fd);
	fork_guard_unlock();
	client_connection_free(connection);
}

static void disconnect_server(Server *server)
{
	g_clear_pointer(&server->connection, close_connection);
}

static void server_free(Server *server)
{
	disconnect_server(server);
	g_clear_pointer(&server->found, g_array_unref);
	g_clear_error(&server->failure);
	address_free(server->address);
	g_free(server);
}

/* @address: (nullable): if %NULL, resolve the name of the server first */
static Attempt *attempt_new(Server *server, const SocketAddress *address)
{
	Attempt *attempt = g_new0(Attempt, 1);

	attempt->server = server;
	attempt->fd = -1;
	if (address != NULL)
		attempt->address = *address;
	return attempt;
}

static void attempt_free(Attempt *attempt)
{
	if (attempt->resolution != NULL) {
		fork_guard_lock();
		resolution_free(attempt->resolution);
		fork_guard_unlock();
	}
	if (attempt->fd >= 0)
		close(attempt->fd);
	close_connection(attempt->connection);
	g_free(attempt);
}

SnowflakeClient *snowflake_client_new(const char *const *servers, GError **error)
{
	static const char *const default_servers[] = {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL};
	g_autoptr(GPtrArray) addresses = NULL;
	g_autoptr(GError) fault = NULL;
	SnowflakeClient *self;

	if (servers == NULL || servers[0] == NULL)
		servers = default_servers;
	addresses = address_parse_servers(servers, &fault);
	if (addresses == NULL) {
		client_call_refuse_argument(error, fault->message);
		return NULL;
	}
	fork_guard_install(NULL);
	self = g_new0(SnowflakeClient, 1);
	self->servers = g_ptr_array_new_with_free_func((GDestroyNotify)server_free);
	self->attempts = g_ptr_array_new_with_free_func((GDestroyNotify)attempt_free);
	/* random, so that a reply to a call of another client is not accepted */
	self->seqid = (gint32)(g_random_int() & G_MAXINT32);
	self->limit.ms = SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS;
	self->retries = TRUE;
	for (guint i = 0; i < addresses->len; i++) {
		Server *server = g_new0(Server, 1);

		server->address = address_copy(addresses->pdata[i]);
		server->limits = BATCH_LIMITS_INIT;
		g_ptr_array_add(self->servers, server);
	}
	self->current = self->servers->pdata[0];
	return self;
}

void snowflake_client_free(SnowflakeClient *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->attempts);
	g_ptr_array_unref(self->servers);
	tls_client_unref(self->tls);
	g_free(self);
}

void client_tls_share(SnowflakeClient *self, TlsClient *tls)
{
	TlsClient *before = self->tls;

	self->tls = tls_client_ref(tls);
	tls_client_unref(before);
}

gboolean snowflake_client_set_tls(SnowflakeClient *self, const SnowflakeClientTls *tls,
				  GError **error)
{
	g_autoptr(GError) fault = NULL;
	g_autoptr(TlsClient) next = NULL;

	g_return_val_if_fail(self != NULL && tls != NULL, FALSE);
	next = client_tls_new(tls, &fault);
	if (next == NULL)
		return client_call_refuse_argument(error, fault->message);
	client_tls_share(self, next);
	return TRUE;
}

void snowflake_client_set_timeout_ms(SnowflakeClient *self, guint timeout_ms)
{
	g_return_if_fail(self != NULL && timeout_ms > 0);
	self->limit.ms = timeout_ms;
}

void snowflake_client_set_attempt_timeout_ms(SnowflakeClient *self, guint attempt_timeout_ms)
{
	g_return_if_fail(self != NULL);
	self->patience_us = attempt_timeout_ms * G_TIME_SPAN_MILLISECOND;
}

void snowflake_client_set_retry(SnowflakeClient *self, gboolean retry)
{
	g_return_if_fail(self != NULL);
	self->retries = retry;
}

void snowflake_client_shuffle_servers(SnowflakeClient *self)
{
	g_return_if_fail(self != NULL);
	for (guint left = self->servers->len; left > 0; left--) {
		gpointer *last = &self->servers->pdata[left - 1];
		gpointer *drawn = &self->servers->pdata[random_u64() % left];
		Server *server = *drawn;

		*drawn = *last;
		*last = server;
		disconnect_server(server);
		server->failed_at_us = 0;
	}
	self->current = self->servers->pdata[0];
}

const char *snowflake_client_get_server(const SnowflakeClient *self)
{
	g_return_val_if_fail(self != NULL, NULL);
	return self->current->address->text;
}

gint64 snowflake_client_get_retry_after_ms(const SnowflakeClient *self)
{
	g_return_val_if_fail(self != NULL, 0);
	return self->retry_after_ms;
}

/* Failures */

/* @failure: (transfer full) */
static void set_failure(Server *server, GError *failure, gint64 now_us)
{
	g_clear_error(&server->failure);
	server->failure = failure;
	server->failed_at_us = now_us;
	server->retry_after_ms = 0;
}

/* Handles the end of the call's time limit. If a server has failed before, the earlier error is
 * kept, because it is more informative than an attempt that has just begun. */
static void fail_unfinished_attempts(SnowflakeClient *self, gint64 now_us)
{
	for (guint i = 0; i < self->attempts->len; i++) {
		const Attempt *attempt = self->attempts->pdata[i];
		gboolean is_calling = attempt->called_at_us != 0;

		if (attempt->is_slow || attempt->server->failure == NULL)
			set_failure(
				attempt->server,
				g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
					    "no %s within %u ms",
					    is_calling ? "answer" : "connection", self->limit.ms),
				now_us);
	}
}

static gint compare_failures(gconstpointer one, gconstpointer other)
{
	gint64 a = (*(Server *const *)one)->failed_at_us;
	gint64 b = (*(Server *const *)other)->failed_at_us;

	return (a > b) - (a < b);
}

/* Returns: (transfer container): the servers: first those that have not failed since they last
 * answered, then the others, beginning with the one that failed longest ago; equal servers keep the
 * order of the list */
static GPtrArray *order_by_failure(const SnowflakeClient *self)
{
	GPtrArray *ordered = g_ptr_array_sized_new(self->servers->len);

	g_ptr_array_extend(ordered, self->servers, NULL, NULL);
	g_ptr_array_sort(ordered, compare_failures);
	return ordered;
}

static void set_error_of_servers(SnowflakeClient *self, GError **error)
{
	static const guint specificity[] = {
		[SNOWFLAKE_CLIENT_ERROR_PROTOCOL] = 1,
		[SNOWFLAKE_CLIENT_ERROR_TIMEOUT] = 2,
		[SNOWFLAKE_CLIENT_ERROR_CLOCK] = 3,
		[SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE] = 4,
		[SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT] = 5,
		[SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED] = 5,
	};
	g_autoptr(GPtrArray) ordered = order_by_failure(self);
	g_autoptr(GString) messages = g_string_new(NULL);
	int code = SNOWFLAKE_CLIENT_ERROR_UNREACHABLE;
	gint64 retry_after_ms = 0;

	for (guint i = 0; i < ordered->len; i++) {
		const Server *server = ordered->pdata[i];

		if (server->failure == NULL)
			continue;
		if (specificity[server->failure->code] > specificity[code])
			code = server->failure->code;
		if (server->retry_after_ms > 0 &&
		    (retry_after_ms == 0 || server->retry_after_ms < retry_after_ms))
			retry_after_ms = server->retry_after_ms;
		g_string_append_printf(messages, "%s%s: %s", messages->len > 0 ? "; " : "",
				       server->address->text, server->failure->message);
	}
	self->reply->retry_after_ms = retry_after_ms;
	if (messages->len > 0)
		g_set_error_literal(error, SNOWFLAKE_CLIENT_ERROR, code, messages->str);
	else /* the process was stopped or the machine suspended */
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
			    "no server could be tried within %u ms", self->limit.ms);
}

/* Attempts */

static gboolean has_attempt(const SnowflakeClient *self, const Server *server,
			    gboolean on_new_connection)
{
	for (guint i = 0; i < self->attempts->len; i++) {
		const Attempt *attempt = self->attempts->pdata[i];

		if (attempt->server == server && !(on_new_connection && attempt->is_old))
			return TRUE;
	}
	return FALSE;
}

/* Queues the addresses of a server that are not being tried, before the other servers. */
static void queue_addresses(SnowflakeClient *self, Server *server)
{
	for (guint i = server->found != NULL ? server->found->len : 0; i > 0; i--) {
		const SocketAddress *address = &g_array_index(server->found, SocketAddress, i - 1);
		gboolean is_tried = FALSE;

		for (guint j = 0; j < self->attempts->len; j++) {
			const Attempt *attempt = self->attempts->pdata[j];

			is_tried |= attempt->server == server &&
				    attempt->address.length == address->length &&
				    memcmp(&attempt->address.bytes, &address->bytes,
					   address->length) == 0;
		}
		if (!is_tried)
			g_queue_push_head(&self->queue, attempt_new(server, address));
	}
}

/* Reconnects: since the last call, an old connection can have been closed at any time, which is not
 * a failure of the server. @failure: (transfer full) */
static void fail_attempt(SnowflakeClient *self, Attempt *attempt, GError *failure, gint64 now_us)
{
	Server *server = attempt->server;

	if (attempt->is_old &&
	    g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE)) {
		g_error_free(failure);
		g_queue_push_head(&self->queue, attempt_new(server, NULL));
	} else {
		set_failure(server, failure, now_us);
		if (attempt->resolution != NULL && !attempt->has_queued_found)
			queue_addresses(self, server);
	}
	g_ptr_array_remove(self->attempts, attempt);
}

static void send_call(SnowflakeClient *self, Attempt *attempt, gint64 now_us)
{
	g_autoptr(GByteArray) request = g_byte_array_new();

	attempt->seqid = self->seqid;
	attempt->called_at_us = now_us;
	self->seqid = self->seqid == G_MAXINT32 ? 0 : self->seqid + 1;
	client_call_write(self->call, attempt->seqid, request);
	client_connection_call(attempt->connection, request,
			       client_call_max_reply_bytes(self->call));
}

/* Returns: %FALSE if the queue of a local socket is full; the attempt then has no connection yet */
static gboolean connect_attempt(SnowflakeClient *self, Attempt *attempt, gint64 now_us)
{
	const TlsNames nothing = {0};
	GError *failure = NULL;

	/* reading the system trust store takes some milliseconds, so it is read only when it is
	 * needed */
	if (*attempt->address.tls_host != '\0' && self->tls == NULL)
		self->tls = tls_client_new(&nothing, &failure);
	if (failure == NULL) {
		attempt->server->limits = BATCH_LIMITS_INIT;
		fork_guard_lock();
		attempt->connection =
			client_connection_begin(&attempt->address, self->tls, &failure);
		if (attempt->connection != NULL)
			fork_guard_note(&attempt->connection->fd);
		fork_guard_unlock();
	} else {
		failure->domain = SNOWFLAKE_CLIENT_ERROR;
		failure->code = SNOWFLAKE_CLIENT_ERROR_UNREACHABLE;
	}
	if (g_error_matches(failure, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_TIMEOUT)) {
		g_error_free(failure);
		return FALSE;
	}
	if (failure != NULL)
		fail_attempt(self, attempt, failure, now_us);
	return TRUE;
}

/* Returns: whether the resolution has ended. If it failed, the attempt has ended too */
static gboolean advance_resolution(SnowflakeClient *self, Attempt *attempt, gint64 now_us)
{
	Server *server = attempt->server;
	g_autofree char *failures = NULL;
	g_autoptr(GPtrArray) names = NULL;
	eventfd_t wakes;

	eventfd_read(attempt->fd, &wakes);
	fork_guard_lock();
	names = resolution_get(attempt->resolution, &failures);
	fork_guard_unlock();
	if (failures == NULL)
		return FALSE;
	if (names->len == 0) {
		const char *why = g_strrstr(failures, ": ");

		fail_attempt(self, attempt,
			     g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
					 "cannot connect: %s", why != NULL ? why + 2 : failures),
			     now_us);
		return TRUE;
	}
	g_clear_pointer(&server->found, g_array_unref);
	server->found = g_array_new(FALSE, FALSE, sizeof(SocketAddress));
	for (guint i = 0; i < names->len; i++)
		g_array_append_val(server->found, ((ResolvedName *)names->pdata[i])->address);
	g_ptr_array_remove(self->attempts, attempt);
	queue_addresses(self, server);
	return TRUE;
}

/* @attempt: (transfer full) */
static void begin_attempt(SnowflakeClient *self, Attempt *attempt, gint64 now_us)
{
	gint64 left_us = client_limit_end_us(self->limit) - now_us;
	g_autoptr(GPtrArray) addresses = NULL;
	Server *server = attempt->server;

	server->is_tried = TRUE;
	attempt->slow_at_us =
		now_us + client_call_patience_us(self->patience_us, server->round_trip_us, left_us);
	g_ptr_array_add(self->attempts, attempt);
	if (attempt->address.length == 0)
		attempt->connection = g_steal_pointer(&server->connection);
	/* in a forked child, the connection belongs to the parent */
	if (attempt->connection != NULL &&
	    (attempt->connection->fd < 0 || client_connection_is_stale(attempt->connection)))
		g_clear_pointer(&attempt->connection, close_connection);
	attempt->is_old = attempt->connection != NULL;
	if (attempt->is_old) {
		send_call(self, attempt, now_us);
		return;
	}
	if (attempt->address.length > 0) {
		connect_attempt(self, attempt, now_us);
		return;
	}
	attempt->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (attempt->fd < 0) {
		fail_attempt(self, attempt,
			     g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
					 "cannot connect: %s", g_strerror(errno)),
			     now_us);
		return;
	}
	addresses = g_ptr_array_new();
	g_ptr_array_add(addresses, server->address);
	fork_guard_lock();
	attempt->resolution = resolution_new(addresses, attempt->fd);
	fork_guard_unlock();
	advance_resolution(self, attempt, now_us); /* an IP address needs no lookup */
}

/* Keeps the connection for the next call to this server, unless the reply is invalid. */
static void handle_reply(SnowflakeClient *self, Attempt *attempt, gint64 now_us)
{
	Server *server = attempt->server;
	gint64 sample_us = MAX(now_us - attempt->called_at_us, 1);
	GError *failure = NULL;
	gsize length;
	const guint8 *bytes = client_connection_get_reply(attempt->connection, &length);

	self->reply->retry_after_ms = 0;
	self->reply->count_refused = FALSE;
	if (client_call_read(self->call, attempt->seqid, bytes, length, self->reply, &failure)) {
		self->state = CALL_ANSWERED;
		server->round_trip_us = server->round_trip_us > 0
						? (3 * server->round_trip_us + sample_us) / 4
						: sample_us;
		server->failed_at_us = 0;
		for (guint i = 0; i < self->servers->len; i++) {
			disconnect_server(self->servers->pdata[i]);
			g_clear_error(&((Server *)self->servers->pdata[i])->failure);
		}
	} else if (failure->code == SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT ||
		   failure->code == SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED) {
		self->state = CALL_REFUSED;
	}
	if (self->state != CALL_CONTINUES) {
		self->current = server;
		self->pause_us = self->next_pass_at_us = 0;
	}
	if (failure == NULL || failure->code != SNOWFLAKE_CLIENT_ERROR_PROTOCOL) {
		disconnect_server(server);
		server->connection = g_steal_pointer(&attempt->connection);
	}
	if (failure == NULL)
		return;
	fail_attempt(self, attempt, failure, now_us);
	server->retry_after_ms = self->reply->retry_after_ms;
}

/* Returns: %FALSE if the attempt waits for an event */
static gboolean advance_attempt(SnowflakeClient *self, Attempt *attempt, gint64 now_us)
{
	GError *failure = NULL;

	if (attempt->resolution != NULL)
		return advance_resolution(self, attempt, now_us);
	if (attempt->connection == NULL)
		return connect_attempt(self, attempt, now_us);
	switch (client_connection_advance(attempt->connection, &failure)) {
	case CLIENT_CONNECTION_NOTHING:
		return FALSE;
	case CLIENT_CONNECTION_READY:
		send_call(self, attempt, now_us);
		break;
	case CLIENT_CONNECTION_REPLIED:
		handle_reply(self, attempt, now_us);
		break;
	case CLIENT_CONNECTION_FAILED:
		fail_attempt(self, attempt, failure, now_us);
		break;
	}
	return TRUE;
}

/* One call */

/* Queues the attempts of a pass. Without retries, each server is tried once. With retries, a slow
 * attempt on an old connection is repeated on a new one, because the old one can have broken
 * unnoticed. */
static void begin_pass(SnowflakeClient *self, gint64 now_us)
{
	g_autoptr(GPtrArray) ordered = order_by_failure(self);

	self->n_passes++;
	self->pause_us = client_call_pause_us(self->pause_us);
	self->next_pass_at_us = now_us + self->pause_us * 3 / 4 +
				(gint64)(random_u64() % (guint64)(self->pause_us / 2));
	if (self->current->failed_at_us == 0) {
		g_ptr_array_remove(ordered, self->current);
		g_ptr_array_insert(ordered, 0, self->current);
	}
	for (guint i = 0; i < ordered->len; i++) {
		Server *server = ordered->pdata[i];
		gboolean is_ended = server->is_tried && !has_attempt(self, server, FALSE);

		if (!has_attempt(self, server, self->retries) && !(is_ended && self->n_passes == 1))
			g_queue_push_tail(&self->queue, attempt_new(server, NULL));
	}
}

/* Starts attempts until one of them neither is slow nor has ended. */
static void begin_attempts(SnowflakeClient *self, gint64 now_us)
{
	for (;;) {
		gboolean is_waiting = FALSE;
		Attempt *next;

		for (guint i = 0; i < self->attempts->len; i++) {
			Attempt *attempt = self->attempts->pdata[i];

			if (!attempt->is_slow && now_us >= attempt->slow_at_us) {
				attempt->is_slow = TRUE;
				attempt->server->failed_at_us = now_us;
				attempt->has_queued_found = attempt->resolution != NULL;
				if (attempt->has_queued_found)
					queue_addresses(self, attempt->server);
			}
			is_waiting |= !attempt->is_slow;
		}
		if (is_waiting)
			return;
		next = g_queue_pop_head(&self->queue);
		if (next != NULL)
			begin_attempt(self, next, now_us);
		else if (self->retries ? now_us >= self->next_pass_at_us : self->n_passes == 0)
			begin_pass(self, now_us);
		else
			return;
	}
}

/* Waits for an event of an attempt, or until the next one is due. */
static void wait_for_attempts(const SnowflakeClient *self, gint64 now_us)
{
	g_autofree struct pollfd *fds = g_new(struct pollfd, self->attempts->len);
	gint64 until_us = client_limit_end_us(self->limit);
	gboolean is_waiting = FALSE;
	guint count = 0;
	gint64 left_us;

	for (guint i = 0; i < self->attempts->len; i++) {
		const Attempt *attempt = self->attempts->pdata[i];

		if (!attempt->is_slow)
			until_us = MIN(until_us, attempt->slow_at_us);
		is_waiting |= !attempt->is_slow;
		if (attempt->resolution != NULL)
			fds[count++] = (struct pollfd){.fd = attempt->fd, .events = POLLIN};
		else if (attempt->connection != NULL)
			fds[count++] = (struct pollfd){
				.fd = attempt->connection->fd,
				.events = client_connection_events(attempt->connection)};
		else
			until_us = MIN(until_us, now_us + FULL_QUEUE_US);
	}
	if (!is_waiting && self->retries)
		until_us = MIN(until_us, self->next_pass_at_us);
	left_us = MAX(until_us - now_us, 0);
	/* round up, so that poll() does not return too early */
	poll(fds, count,
	     (int)MIN((left_us + G_TIME_SPAN_MILLISECOND - 1) / G_TIME_SPAN_MILLISECOND, G_MAXINT));
}

/* Makes a call. The call can be repeated, because it changes nothing but the next ID. If a server
 * refuses the call in the same way as all servers would (INVALID_ARGUMENT, UNSUPPORTED), the call
 * fails.
 *
 * @reply: (inout): as for client_call_read(). After a failure, retry_after_ms is the shortest time
 * that a server named; the results of partly read replies remain */
static gboolean perform_call(SnowflakeClient *self, const ClientCall *call, ClientReply *reply,
			     GError **error)
{
	gint64 now_us = g_get_monotonic_time();

	self->call = call;
	self->reply = reply;
	self->state = CALL_CONTINUES;
	self->n_passes = 0;
	for (guint i = 0; i < self->servers->len; i++) {
		Server *server = self->servers->pdata[i];

		server->is_tried = FALSE;
		if (!self->retries || now_us >= self->next_pass_at_us)
			g_clear_error(&server->failure);
	}
	/* a call on the existing connection does not wait for the next pass */
	if (self->current->connection != NULL)
		g_queue_push_head(&self->queue, attempt_new(self->current, NULL));
	for (;;) {
		gboolean is_overdue = now_us >= client_limit_end_us(self->limit);
		gboolean is_changed = FALSE;

		if (!is_overdue)
			begin_attempts(self, now_us);
		/* iterate backwards, because an attempt that ends is removed */
		for (guint i = self->attempts->len; i > 0 && self->state == CALL_CONTINUES; i--)
			is_changed |= advance_attempt(self, self->attempts->pdata[i - 1], now_us);
		if (self->state != CALL_CONTINUES ||
		    (!self->retries && self->attempts->len == 0 && g_queue_is_empty(&self->queue) &&
		     self->n_passes > 0))
			break;
		if (is_overdue) {
			fail_unfinished_attempts(self, now_us);
			break;
		}
		if (!is_changed)
			wait_for_attempts(self, now_us);
		now_us = g_get_monotonic_time();
	}
	g_ptr_array_set_size(self->attempts, 0);
	g_queue_clear_full(&self->queue, (GDestroyNotify)attempt_free);
	if (self->state != CALL_ANSWERED)
		set_error_of_servers(self, error);
	if (self->state == CALL_REFUSED)
		self->current->failed_at_us = 0;
	self->retry_after_ms = reply->retry_after_ms;
	return self->state == CALL_ANSWERED;
}

/* Calls */

/* Prepares a call, and starts its time limit. */
static gboolean begin_call(SnowflakeClient *self, gboolean has_out, GError **error)
{
	if (self == NULL)
		return client_call_refuse_argument(error, "no client");
	if (!has_out)
		return client_call_refuse_argument(error, "the pointer for the result is NULL");
	self->limit.start_us = g_get_monotonic_time();
	self->retry_after_ms = 0;
	return TRUE;
}

static gboolean get_number(SnowflakeClient *self, const char *method, gint64 *out_number,
			   GError **error)
{
	const ClientCall call = {.method = method, .result = CLIENT_RESULT_NUMBER};
	ClientReply reply = {0};

	if (!begin_call(self, out_number != NULL, error) ||
	    !perform_call(self, &call, &reply, error))
		return FALSE;
	*out_number = reply.number;
	return TRUE;
}

gboolean snowflake_client_get_timestamp(SnowflakeClient *self, gint64 *out_timestamp_ms,
					GError **error)
{
	return get_number(self, "get_timestamp", out_timestamp_ms, error);
}

gboolean snowflake_client_get_worker_id(SnowflakeClient *self, gint64 *out_worker_id,
					GError **error)
{
	return get_number(self, "get_worker_id", out_worker_id, error);
}

gboolean snowflake_client_get_datacenter_id(SnowflakeClient *self, gint64 *out_datacenter_id,
					    GError **error)
{
	return get_number(self, "get_datacenter_id", out_datacenter_id, error);
}

SnowflakeClientWorker *snowflake_client_get_worker(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_worker", .result = CLIENT_RESULT_WORKER};
	ClientReply reply = {0};

	if (begin_call(self, TRUE, error) && perform_call(self, &call, &reply, error))
		return reply.worker;
	snowflake_client_worker_free(reply.worker);
	return NULL;
}

GPtrArray *snowflake_client_get_workers(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_workers", .result = CLIENT_RESULT_WORKERS};
	ClientReply reply = {0};

	if (begin_call(self, TRUE, error) && perform_call(self, &call, &reply, error))
		return reply.workers;
	g_clear_pointer(&reply.workers, g_ptr_array_unref);
	return NULL;
}

static gint compare_names(gconstpointer a, gconstpointer b)
{
	const SnowflakeClientCounter *left = *(SnowflakeClientCounter *const *)a;
	const SnowflakeClientCounter *right = *(SnowflakeClientCounter *const *)b;

	return strcmp(left->name, right->name);
}

GPtrArray *snowflake_client_get_counters(SnowflakeClient *self, GError **error)
{
	const ClientCall call = {.method = "get_counters", .result = CLIENT_RESULT_COUNTERS};
	ClientReply reply = {0};

	if (begin_call(self, TRUE, error) && perform_call(self, &call, &reply, error)) {
		g_ptr_array_sort(reply.counters, compare_names);
		return reply.counters;
	}
	g_clear_pointer(&reply.counters, g_ptr_array_unref);
	return NULL;
}

/* Checks only the length of @agent: the server checks the characters, but could not read a request
 * that is too long, and so could not answer it. */
static gboolean begin_draw(SnowflakeClient *self, const char *agent, guint count, const void *out,
			   GError **error)
{
	gsize length = agent != NULL ? strlen(agent) : 0;

	if (!begin_call(self, out != NULL, error))
		return FALSE;
	if (agent == NULL)
		return client_call_refuse_argument(error, "no useragent");
	if (length > USERAGENT_MAX_BYTES)
		return text_set_error(error, SNOWFLAKE_CLIENT_ERROR,
				      SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT,
				      "the useragent has %zu bytes; the limit is %d", length,
				      USERAGENT_MAX_BYTES);
	return count > 0 ||
	       client_call_refuse_argument(error, "the count is 0; it must be at least 1");
}

gboolean snowflake_client_get_id(SnowflakeClient *self, const char *agent, gint64 *out_id,
				 GError **error)
{
	const ClientCall call = batch_call(CLIENT_RESULT_ID, agent, 1);
	ClientReply reply = {0};

	if (!begin_draw(self, agent, 1, out_id, error) || !perform_call(self, &call, &reply, error))
		return FALSE;
	*out_id = reply.number;
	return TRUE;
}

/* Batches */

static void prefix_progress(GError **error, guint done, guint count)
{
	if (done > 0)
		g_prefix_error(error, "after %u of %u IDs: ", done, count);
}

/* Requests up to @count IDs with the best call that the server supports.
 * @wanted: RUNS, IDS or UUIDS
 * @method: (nullable): for UUIDS, the method, because several have this result
 * @out_call: (out): the call that was answered
 * @reply: (inout): with room for the IDs of any of these calls */
static gboolean request_batch(SnowflakeClient *self, ClientResult wanted, const char *method,
			      const char *agent, guint count, ClientCall *out_call,
			      ClientReply *reply, GError **error)
{
	for (;;) {
		g_autoptr(GError) failure = NULL;
		BatchOffer offer = batch_limits_offer(&self->current->limits, wanted);

		*out_call = batch_call(offer.result, agent, MIN(count, offer.max_count));
		if (method != NULL)
			out_call->method = method;
		if (perform_call(self, out_call, reply, &failure))
			return TRUE;
		if (!batch_limits_step_down(&self->current->limits, out_call, reply, failure)) {
			g_propagate_error(error, g_steal_pointer(&failure));
			return FALSE;
		}
	}
}

/* Checks that an ID from a server that does not support batches is above @last, its previous ID, as
 * it would be in a batch. If not, the client stops using the server. */
static gboolean check_order(SnowflakeClient *self, gint64 last, gint64 id, GError **error)
{
	if (id > last)
		return TRUE;
	g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
		    "%s: not a reply from a Snowflake server: ID %" G_GINT64_FORMAT
		    " after ID %" G_GINT64_FORMAT,
		    self->current->address->text, id, last);
	disconnect_server(self->current);
	self->current->failed_at_us = g_get_monotonic_time();
	return FALSE;
}

/* Requests @count values in batches.
 * @wanted: IDS or UUIDS
 * @method: (nullable): as in request_batch()
 * @out: room for the values, of @size bytes each; unchanged on failure */
static gboolean get_values(SnowflakeClient *self, ClientResult wanted, const char *method,
			   const char *agent, guint count, void *out, gsize size, GError **error)
{
	g_autofree guint8 *values = NULL;

	if (!begin_draw(self, agent, count, out, error))
		return FALSE;
	values = g_malloc_n(count, size);
	for (guint done = 0, got; done < count; done += got) {
		gpointer next = values + done * size;
		gint64 *ids = next;
		const Server *server = self->current;
		ClientReply reply = {.ids = next, .uuids = next};
		ClientCall call;

		if (!request_batch(self, wanted, method, agent, count - done, &call, &reply,
				   error)) {
			prefix_progress(error, done, count);
			return FALSE;
		}
		got = MAX(call.count, 1);
		if (call.result != CLIENT_RESULT_ID)
			continue;
		*ids = reply.number;
		if (done > 0 && self->current == server &&
		    !check_order(self, ids[-1], ids[0], error))
			return FALSE;
	}
	memcpy(out, values, count * size);
	return TRUE;
}

gboolean snowflake_client_get_ids(SnowflakeClient *self, const char *agent, guint count,
				  gint64 *out_ids, GError **error)
{
	return get_values(self, CLIENT_RESULT_IDS, NULL, agent, count, out_ids, sizeof(*out_ids),
			  error);
}

GArray *snowflake_client_get_id_runs(SnowflakeClient *self, const char *agent, guint count,
				     GError **error)
{
	g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	g_autoptr(GArray) batch = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun));
	gint64 ids[CLIENT_CALL_MAX_COUNT];
	gint64 last_id = 0;

	if (!begin_draw(self, agent, count, runs, error))
		return NULL;
	for (guint done = 0, got; done < count; done += got) {
		ClientReply reply = {.runs = batch, .ids = ids};
		const Server *server = self->current;
		const SnowflakeClientIdRun *last;
		ClientCall call;

		if (!request_batch(self, CLIENT_RESULT_RUNS, NULL, agent, count - done, &call,
				   &reply, error) ||
		    (call.result == CLIENT_RESULT_ID && self->current == server && done > 0 &&
		     !check_order(self, last_id, reply.number, error))) {
			prefix_progress(error, done, count);
			return NULL;
		}
		got = MAX(call.count, 1);
		if (call.result == CLIENT_RESULT_RUNS)
			g_array_append_vals(runs, batch->data, batch->len);
		else
			batch_append_runs(&call, &reply, runs);
		last = &g_array_index(runs, SnowflakeClientIdRun, runs->len - 1);
		last_id = last->first + (last->count - 1);
	}
	return g_steal_pointer(&runs);
}

gboolean snowflake_client_get_ulids(SnowflakeClient *self, const char *agent, guint count,
				    guint8 (*out_ulids)[SNOWFLAKE_CLIENT_UUID_BYTES],
				    GError **error)
{
	return get_values(self, CLIENT_RESULT_UUIDS, "get_ulids", agent, count, out_ulids,
			  sizeof(*out_ulids), error);
}

gboolean snowflake_client_get_uuids(SnowflakeClient *self, const char *agent, guint count,
				    guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES],
				    GError **error)
{
	return get_values(self, CLIENT_RESULT_UUIDS, "get_uuids", agent, count, out_uuids,
			  sizeof(*out_uuids), error);
}
