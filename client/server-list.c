/* SPDX-License-Identifier: Apache-2.0 */
#include "client/server-list.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/resolver.h"
#include "common/fork-guard.h"
#include "core/random.h"

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

struct _ServerList {
	GPtrArray *servers; /* (element-type Server): one or more */
	Server *current;
	TlsClient *tls;  /* NULL if not needed yet */
	gint32 seqid;    /* sequence ID of the next call, 0 or more */
	gint64 pause_us; /* pause between the last two passes; 0 if a server has answered since */
	gint64 next_pass_at_us;
	/* the current call, its time limits and its reply */
	const ClientCall *call;
	ServerListTerms terms;
	ClientReply *reply;
	CallState state;
	guint n_passes;
	GQueue queue;        /* (element-type Attempt): attempts of this pass that have not begun */
	GPtrArray *attempts; /* (element-type Attempt): attempts that have begun */
};

/* Closes the connection. In the child of a fork, its descriptor is -1, so nothing is sent. */
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

ServerList *server_list_new(GPtrArray *addresses)
{
	ServerList *self = g_new0(ServerList, 1);

	fork_guard_install(NULL);
	self->servers = g_ptr_array_new_with_free_func((GDestroyNotify)server_free);
	self->attempts = g_ptr_array_new_with_free_func((GDestroyNotify)attempt_free);
	/* random, so that a reply to a call of another client is not accepted */
	self->seqid = (gint32)(g_random_int() & G_MAXINT32);
	for (guint i = 0; i < addresses->len; i++) {
		Server *server = g_new0(Server, 1);

		server->address = address_copy(addresses->pdata[i]);
		server->limits = BATCH_LIMITS_INIT;
		g_ptr_array_add(self->servers, server);
	}
	g_ptr_array_unref(addresses);
	self->current = self->servers->pdata[0];
	return self;
}

void server_list_free(ServerList *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->attempts);
	g_ptr_array_unref(self->servers);
	tls_client_unref(self->tls);
	g_free(self);
}

void server_list_share_tls(ServerList *self, TlsClient *tls)
{
	TlsClient *before = self->tls;

	self->tls = tls_client_ref(tls);
	tls_client_unref(before);
}

void server_list_shuffle(ServerList *self)
{
	gpointer *servers = self->servers->pdata;

	for (guint left = self->servers->len; left > 0; left--) {
		guint drawn = (guint)(random_u64() % left);
		Server *server = servers[drawn];

		servers[drawn] = servers[left - 1];
		servers[left - 1] = server;
		disconnect_server(server);
		server->failed_at_us = 0;
	}
	self->current = servers[0];
}

const Address *server_list_get_current(const ServerList *self)
{
	return self->current->address;
}

BatchLimits *server_list_get_limits(ServerList *self)
{
	return &self->current->limits;
}

void server_list_avoid_current(ServerList *self)
{
	disconnect_server(self->current);
	self->current->failed_at_us = g_get_monotonic_time();
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
static void fail_unfinished_attempts(ServerList *self, gint64 now_us)
{
	for (guint i = 0; i < self->attempts->len; i++) {
		const Attempt *attempt = self->attempts->pdata[i];
		gboolean is_calling = attempt->called_at_us != 0;

		if (attempt->is_slow || attempt->server->failure == NULL)
			set_failure(attempt->server,
				    g_error_new(SNOWFLAKE_CLIENT_ERROR,
						SNOWFLAKE_CLIENT_ERROR_TIMEOUT,
						"no %s within %u ms",
						is_calling ? "answer" : "connection",
						self->terms.limit.ms),
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
static GPtrArray *order_by_failure(const ServerList *self)
{
	GPtrArray *ordered = g_ptr_array_sized_new(self->servers->len);

	g_ptr_array_extend(ordered, self->servers, NULL, NULL);
	g_ptr_array_sort(ordered, compare_failures);
	return ordered;
}

static void set_error_of_servers(ServerList *self, GError **error)
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
			    "no server could be tried within %u ms", self->terms.limit.ms);
}

/* Attempts */

static gboolean has_attempt(const ServerList *self, const Server *server,
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
static void queue_addresses(ServerList *self, Server *server)
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

/* Reconnects: since the last call, an old connection may have been closed at any time, which is not
 * a failure of the server. @failure: (transfer full) */
static void fail_attempt(ServerList *self, Attempt *attempt, GError *failure, gint64 now_us)
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

static void send_call(ServerList *self, Attempt *attempt, gint64 now_us)
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
static gboolean connect_attempt(ServerList *self, Attempt *attempt, gint64 now_us)
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
static gboolean advance_resolution(ServerList *self, Attempt *attempt, gint64 now_us)
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

static void begin_resolution(ServerList *self, Attempt *attempt, gint64 now_us)
{
	g_autoptr(GPtrArray) addresses = g_ptr_array_new();

	attempt->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (attempt->fd < 0) {
		fail_attempt(self, attempt,
			     g_error_new(SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNREACHABLE,
					 "cannot connect: %s", g_strerror(errno)),
			     now_us);
		return;
	}
	g_ptr_array_add(addresses, attempt->server->address);
	fork_guard_lock();
	attempt->resolution = resolution_new(addresses, attempt->fd);
	fork_guard_unlock();
	advance_resolution(self, attempt, now_us); /* an IP address needs no lookup */
}

/* @attempt: (transfer full) */
static void begin_attempt(ServerList *self, Attempt *attempt, gint64 now_us)
{
	gint64 left_us = client_limit_end_us(self->terms.limit) - now_us;
	Server *server = attempt->server;

	server->is_tried = TRUE;
	attempt->slow_at_us = now_us + client_call_patience_us(self->terms.patience_us,
							       server->round_trip_us, left_us);
	g_ptr_array_add(self->attempts, attempt);
	if (attempt->address.length == 0)
		attempt->connection = g_steal_pointer(&server->connection);
	/* in the child of a fork, the connection belongs to the parent */
	if (attempt->connection != NULL &&
	    (attempt->connection->fd < 0 || client_connection_is_stale(attempt->connection)))
		g_clear_pointer(&attempt->connection, close_connection);
	attempt->is_old = attempt->connection != NULL;
	if (attempt->is_old)
		send_call(self, attempt, now_us);
	else if (attempt->address.length == 0)
		begin_resolution(self, attempt, now_us);
	else
		connect_attempt(self, attempt, now_us);
}

/* Keeps the connection for the next call to this server. */
static void keep_connection(Attempt *attempt)
{
	disconnect_server(attempt->server);
	attempt->server->connection = g_steal_pointer(&attempt->connection);
}

static void succeed(ServerList *self, Attempt *attempt, gint64 now_us)
{
	Server *server = attempt->server;
	gint64 sample_us = MAX(now_us - attempt->called_at_us, 1);

	self->state = CALL_ANSWERED;
	self->current = server;
	self->pause_us = self->next_pass_at_us = 0;
	server->round_trip_us =
		server->round_trip_us > 0 ? (3 * server->round_trip_us + sample_us) / 4 : sample_us;
	server->failed_at_us = 0;
	for (guint i = 0; i < self->servers->len; i++) {
		disconnect_server(self->servers->pdata[i]);
		g_clear_error(&((Server *)self->servers->pdata[i])->failure);
	}
	keep_connection(attempt);
}

static void handle_reply(ServerList *self, Attempt *attempt, gint64 now_us)
{
	Server *server = attempt->server;
	GError *failure = NULL;
	gsize length;
	const guint8 *bytes = client_connection_get_reply(attempt->connection, &length);

	self->reply->retry_after_ms = 0;
	self->reply->count_refused = FALSE;
	if (client_call_read(self->call, attempt->seqid, bytes, length, self->reply, &failure)) {
		succeed(self, attempt, now_us);
		return;
	}
	if (failure->code == SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT ||
	    failure->code == SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED) {
		self->state = CALL_REFUSED;
		self->current = server;
		self->pause_us = self->next_pass_at_us = 0;
	}
	if (failure->code != SNOWFLAKE_CLIENT_ERROR_PROTOCOL)
		keep_connection(attempt);
	fail_attempt(self, attempt, failure, now_us);
	server->retry_after_ms = self->reply->retry_after_ms;
}

/* Returns: %FALSE if the attempt waits for an event */
static gboolean advance_attempt(ServerList *self, Attempt *attempt, gint64 now_us)
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

/* Calls */

/* Queues the attempts of a pass. Without retries, each server is tried once. With retries, a slow
 * attempt on an old connection is repeated on a new one, because the old one may have broken
 * unnoticed. */
static void begin_pass(ServerList *self, gint64 now_us)
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

		if (!has_attempt(self, server, self->terms.retries) &&
		    !(is_ended && self->n_passes == 1))
			g_queue_push_tail(&self->queue, attempt_new(server, NULL));
	}
}

/* Starts attempts until one of them neither is slow nor has ended. */
static void begin_attempts(ServerList *self, gint64 now_us)
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
		else if (self->terms.retries ? now_us >= self->next_pass_at_us
					     : self->n_passes == 0)
			begin_pass(self, now_us);
		else
			return;
	}
}

/* Waits for an event of an attempt, or until the next one is due. */
static void wait_for_attempts(const ServerList *self, gint64 now_us)
{
	g_autofree struct pollfd *fds = g_new(struct pollfd, self->attempts->len);
	gint64 until_us = client_limit_end_us(self->terms.limit);
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
	if (!is_waiting && self->terms.retries)
		until_us = MIN(until_us, self->next_pass_at_us);
	left_us = MAX(until_us - now_us, 0);
	/* round up, so that poll() does not return too early */
	poll(fds, count,
	     (int)MIN((left_us + G_TIME_SPAN_MILLISECOND - 1) / G_TIME_SPAN_MILLISECOND, G_MAXINT));
}

gboolean server_list_call(ServerList *self, const ClientCall *call, const ServerListTerms *terms,
			  ClientReply *reply, GError **error)
{
	gint64 now_us = g_get_monotonic_time();

	self->call = call;
	self->terms = *terms;
	self->reply = reply;
	self->state = CALL_CONTINUES;
	self->n_passes = 0;
	for (guint i = 0; i < self->servers->len; i++) {
		Server *server = self->servers->pdata[i];

		server->is_tried = FALSE;
		if (!terms->retries || now_us >= self->next_pass_at_us)
			g_clear_error(&server->failure);
	}
	/* a call on the existing connection does not wait for the next pass */
	if (self->current->connection != NULL)
		g_queue_push_head(&self->queue, attempt_new(self->current, NULL));
	for (;;) {
		gboolean is_overdue = now_us >= client_limit_end_us(terms->limit);
		gboolean is_changed = FALSE;

		if (!is_overdue)
			begin_attempts(self, now_us);
		/* iterate backwards, because an attempt that ends is removed */
		for (guint i = self->attempts->len; i > 0 && self->state == CALL_CONTINUES; i--)
			is_changed |= advance_attempt(self, self->attempts->pdata[i - 1], now_us);
		if (self->state != CALL_CONTINUES ||
		    (!terms->retries && self->attempts->len == 0 &&
		     g_queue_is_empty(&self->queue) && self->n_passes > 0))
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
	if (self->state == CALL_ANSWERED)
		return TRUE;
	set_error_of_servers(self, error);
	if (self->state == CALL_REFUSED)
		self->current->failed_at_us = 0;
	return FALSE;
}
