/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An event loop, which gives its connections turns.
 *
 * A turn is short. A connection that has more calls than fit into its turn is
 * cut off, and waits for another turn. In each round, connections that have
 * just become readable have their turns first, then one that was cut off. So a
 * client with few calls has a short wait, and every connection gets turns.
 * parking.h describes calls that wait for IDs.
 *
 * A costly call, such as a batch of 128-bit IDs, takes many times as long as a
 * turn. It is deferred: its connection enters a queue, and the costly calls of
 * that queue have a short slice of time in each round. So a cheap call waits
 * for at most one costly call of this queue and one of each queue of parked
 * calls, however many connections make costly calls.
 */
#include "rpc/loop.h"

#include <errno.h>
#include <gio/gio.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#include "common/log.h"
#include "common/socket.h"
#include "rpc/foreign.h"
#include "rpc/loop-connection.h"
#include "rpc/poller.h"
#include "rpc/retry-timer.h"
#include "rpc/system-calls.h"

#define MAX_EVENTS 256
#define READ_BYTES (64 * 1024)

/* A turn, beyond its first answer. Some ten of the dearer calls; many hundreds of the cheap. */
#define TURN_US 50

/* What is shared out if many have become readable at once, and the shortest share: whoever is last
 * waits for all of them. */
#define ROUND_US    1000
#define MIN_TURN_US 10

/* Time for costly calls between two looks at the sockets. The last call can exceed it. While costly
 * calls wait, cut-off connections get the same time instead of one turn. */
#define SLICE_US 500

/* For the last answers, when a drain has run out of time. */
#define LAST_ANSWERS_US 1000000

#define FRAME_TOO_LONG "half a message for too long"

struct _Loop {
	pthread_t thread;
	int poller;
	RetryTimer retry_timer;
	Inbox *inbox;
	_Atomic guint n_connections;
	_Atomic guint64 rounds;
	_Atomic int failure; /* an errno: the thread could not go on */
	_Atomic guint n_parked;
	LoopFailed failed;
	gpointer user_data;
	/* the thread's own */
	Counters *counters;
	ConnectionShared shared;
	Queues queues;
	Parking parking;
	GQueue all;
	gboolean rung; /* the inbox's bell is heard */
	gboolean draining;
	gint64 drain_deadline_us;
	gint64 round_us; /* when the sockets told of something last; monotonic */
};

/* As g_get_monotonic_time(), for half the instructions: each pass has two. */
static inline gint64 now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now); /* fails for a wrong argument only */
	return now.tv_sec * G_TIME_SPAN_SECOND + now.tv_nsec / 1000;
}

/* How a client is done with. */
typedef void (*LeaveFunc)(Loop *self, LoopConnection *client);

static gboolean open_descriptors(Loop *self, GError **error)
{
	self->poller = poller_new(error);
	return self->poller >= 0 && retry_timer_init(&self->retry_timer, error) &&
	       poller_add(self->poller, inbox_bell(self->inbox), self->inbox, error) &&
	       poller_add(self->poller, self->retry_timer.fd, &self->retry_timer, error);
}

Loop *loop_new(const RpcService *service, const RpcLimits *limits, Counters *counters,
	       LoopFailed failed, gpointer user_data, GError **error)
{
	g_autoptr(Loop) self = g_new0(Loop, 1);

	self->failed = failed;
	self->user_data = user_data;
	self->counters = counters;
	queues_init(&self->queues, limits, now_us);
	parking_init(&self->parking, &self->queues, limits->turn_ids, limits->batches_apart);
	self->shared = (ConnectionShared){
		.stream =
			{
				.dispatcher = dispatcher_new(service, counters),
				.framing = {limits->max_frame_bytes, limits->max_depth, NULL},
				.turn_us = TURN_US,
				.now_us = now_us,
			},
		.counters = counters,
		.in = g_malloc(READ_BYTES),
		.in_bytes = READ_BYTES,
		.out = g_byte_array_new(),
		.max_pending_bytes = limits->max_pending_bytes,
	};
	self->poller = self->retry_timer.fd = -1;
	self->inbox = inbox_new(error);
	return self->inbox != NULL && open_descriptors(self, error) ? g_steal_pointer(&self) : NULL;
}

void loop_free(Loop *self)
{
	if (self == NULL)
		return;
	inbox_free(self->inbox);
	scanner_free(self->shared.stream.framing.spare);
	dispatcher_free(self->shared.stream.dispatcher);
	g_byte_array_unref(self->shared.out);
	g_free(self->shared.in);
	retry_timer_clear(&self->retry_timer);
	poller_free(self->poller);
	g_free(self);
}

/* Other threads */

void loop_add(Loop *self, const InboxConnection *connection)
{
	atomic_fetch_add(&self->n_connections, 1);
	inbox_add_connection(self->inbox, connection);
}

guint loop_n_connections(Loop *self)
{
	return atomic_load(&self->n_connections);
}

guint loop_n_parked(Loop *self)
{
	return atomic_load_explicit(&self->n_parked, memory_order_relaxed);
}

guint64 loop_rounds(Loop *self)
{
	return atomic_load(&self->rounds);
}

int loop_failure(Loop *self)
{
	return atomic_load(&self->failure);
}

void loop_wake(Loop *self)
{
	inbox_wake(self->inbox);
}

void loop_drain(Loop *self, gint64 timeout_ms)
{
	inbox_drain(self->inbox, timeout_ms);
}

/* One pass of one connection */

static LoopConnection *head_of(const Loop *self, Queue queue)
{
	return loop_connection_at(queues_head(&self->queues, queue));
}

static void log_ended(int fd)
{
	struct tcp_info info = {0};
	g_autofree char *peer = NULL;

	if (!log_shows(LOG_CONNECTION_ENDED))
		return;
	peer = socket_name_peer(fd);
	/* of a local socket the kernel does not count bytes */
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info}) != 0) {
		log_event(LOG_CONNECTION_ENDED, log_text("peer", peer));
		return;
	}
	log_event(LOG_CONNECTION_ENDED, log_text("peer", peer),
		  log_number("received_bytes", (gint64)info.tcpi_bytes_received),
		  log_number("sent_bytes", (gint64)info.tcpi_bytes_acked));
}

static void end_connection(Loop *self, LoopConnection *client)
{
	log_ended(client->connection.fd);
	counters_add(self->counters, COUNTER_CONNECTIONS_ENDED, 1);
	queues_leave(&self->queues, &client->place);
	g_queue_unlink(&self->all, &client->all_link);
	roster_remove(client->entry);
	connection_clear(&client->connection); /* closing takes it out of epoll */
	g_free(client);
	atomic_fetch_sub(&self->n_connections, 1);
}

/* It has had its last reply. It is closed when the client has heard so, or after a moment. */
static void hang_up(Loop *self, LoopConnection *client)
{
	if (client->place.queue == QUEUE_LINGER)
		return;
	connection_half_close(&client->connection);
	loop_connection_set_waits(client, FALSE);
	loop_connection_watch(client, self->poller, EPOLLIN);
	queues_forget_time(&self->queues); /* all of them have the whole moment */
	queues_enter(&self->queues, &client->place, QUEUE_LINGER);
}

/* What the client did, and is closed for. */
static void note_offence(Loop *self, LoopConnection *client, Counter counter, const char *reason)
{
	g_autofree char *peer = socket_name_peer(client->connection.fd);

	counters_add(self->counters, counter, 1);
	log_event(LOG_CONNECTION_CLOSED, log_text("reason", reason), log_text("peer", peer));
}

/* Decides what the client waits for after a pass, or ends it. */
/* With TLS a turn may be cut off in the middle of a message, which has no new time after it. */
static gboolean frame_has_run_out(Loop *self, LoopConnection *client, Queue queue)
{
	if (client->connection.consumed || queue == QUEUE_IDLE)
		client->frame_until_us = 0;
	else if (client->place.queue == QUEUE_FRAME && client->frame_until_us == 0)
		client->frame_until_us = client->place.deadline_us;
	return client->frame_until_us != 0 &&
	       queues_now_us(&self->queues) >= client->frame_until_us;
}

static void settle(Loop *self, LoopConnection *client, ConnectionState state)
{
	Queue queue;
	guint32 events;

	if (state == CONNECTION_READING && self->draining) {
		if (!client->connection.more) {
			hang_up(self, client);
			return;
		}
		state = CONNECTION_CUT_OFF; /* all that has arrived is answered, turn by turn */
	}
	if (state == CONNECTION_ENDED && client->connection.bad != NULL) {
		counters_add(self->counters, foreign_counter(client->connection.bad), 1);
		note_offence(self, client, COUNTER_CLOSED_BAD_BYTES, client->connection.bad);
		hang_up(self, client);
		return;
	}
	if (state == CONNECTION_ENDED) {
		end_connection(self, client);
		return;
	}
	loop_connection_set_waits(client, state != CONNECTION_READING);
	events = connection_events(&client->connection, &self->shared, state);
	/* EPOLLIN is left on until the client does send: most send nothing while they wait, and a
	 * change is a system call */
	if (state == CONNECTION_PARKED || state == CONNECTION_CUT_OFF)
		events |= client->events & EPOLLIN;
	loop_connection_watch(client, self->poller, events);
	if (state == CONNECTION_PARKED) {
		if (parking_park(&self->parking, &client->place,
				 dispatcher_verdict(self->shared.stream.dispatcher)))
			counters_add(self->counters, COUNTER_WAITS, 1);
		return;
	}
	queue = loop_connection_queue(client, state);
	if (client->connection.is_tls && frame_has_run_out(self, client, queue)) {
		note_offence(self, client, COUNTER_CLOSED_FRAME_TIMEOUT, FRAME_TOO_LONG);
		hang_up(self, client);
		return;
	}
	if (queue != client->place.queue || queue == QUEUE_CUT_OFF ||
	    (queue == QUEUE_WRITE ? client->connection.sent : client->connection.consumed))
		queues_enter(&self->queues, &client->place, queue);
}

/* A pass, and how long its calls took: since the sockets told of them, or since they were cut off
 * or parked, which is @since_us; until their replies were sent, or kept for a client that does not
 * read. */
static ConnectionState pass(Loop *self, LoopConnection *client, const RpcAllowance *allowance,
			    gboolean read, gint64 since_us)
{
	ConnectionState state = connection_run(&client->connection, &self->shared, allowance, read);
	guint calls = dispatcher_verdict(self->shared.stream.dispatcher)->answered;

	if (calls > 0) {
		gint64 sent_us = now_us();

		counters_add_durations(self->counters, sent_us - since_us, calls);
		queues_set_time(&self->queues, sent_us);
	}
	if (client->is_local)
		roster_note_active(client->entry, self->round_us);
	return state;
}

static void run(Loop *self, LoopConnection *client, gboolean read, gint64 since_us)
{
	const RpcAllowance allowance = parking_allowance(&self->parking);

	settle(self, client, pass(self, client, &allowance, read, since_us));
}

static const RpcVerdict *retry(gpointer user_data, QueuePlace *place, const RpcAllowance *allowance)
{
	Loop *self = user_data;
	LoopConnection *client = loop_connection_at(place);

	settle(self, client, pass(self, client, allowance, FALSE, place->since_us));
	return dispatcher_verdict(self->shared.stream.dispatcher);
}

/* Serves connections that were cut off: one, or as many as fit into @slice_us. */
static void run_cut_off(Loop *self, gint64 slice_us)
{
	gint64 until_us = slice_us > 0 ? now_us() + slice_us : 0;
	LoopConnection *head;

	while ((head = head_of(self, QUEUE_CUT_OFF)) != NULL) {
		run(self, head, TRUE, head->place.since_us);
		if (slice_us == 0 || now_us() >= until_us)
			break;
	}
}

/* Serves costly calls, one for each connection, until SLICE_US is over. */
static void run_costly(Loop *self)
{
	gint64 until_us = now_us() + SLICE_US;
	LoopConnection *head;

	while ((head = head_of(self, QUEUE_COSTLY)) != NULL) {
		RpcAllowance allowance = parking_allowance(&self->parking);

		allowance.costly = RPC_COSTLY_ONE;
		settle(self, head, pass(self, head, &allowance, FALSE, head->place.since_us));
		if (now_us() >= until_us)
			break;
	}
}

/* Serves connections that wait only for their turn. */
static void serve_turns(Loop *self)
{
	gboolean is_costly = head_of(self, QUEUE_COSTLY) != NULL;

	run_cut_off(self, is_costly ? SLICE_US : 0);
	if (is_costly)
		run_costly(self);
}

static void expire(Loop *self, Queue queue, Counter counter, const char *reason, LeaveFunc leave)
{
	LoopConnection *head;

	while ((head = loop_connection_at(queues_expired(&self->queues, queue))) != NULL) {
		note_offence(self, head, counter, reason);
		leave(self, head);
	}
}

static void expire_all(Loop *self)
{
	LoopConnection *head;

	expire(self, QUEUE_IDLE, COUNTER_CLOSED_IDLE_TIMEOUT, "idle for too long", hang_up);
	expire(self, QUEUE_FRAME, COUNTER_CLOSED_FRAME_TIMEOUT, FRAME_TOO_LONG, hang_up);
	/* whoever reads nothing would not see the end either */
	expire(self, QUEUE_WRITE, COUNTER_CLOSED_WRITE_TIMEOUT, "takes no replies", end_connection);
	while ((head = loop_connection_at(queues_expired(&self->queues, QUEUE_LINGER))) != NULL)
		end_connection(self, head);
}

/* The inbox */

static void adopt(Loop *self, const InboxConnection *newcomer)
{
	LoopConnection *client = g_new0(LoopConnection, 1);
	g_autoptr(GError) error = NULL;

	connection_init(&client->connection, newcomer->fd, newcomer->tls);
	client->entry = newcomer->entry;
	client->is_local = (guint)roster_is_local(newcomer->entry);
	client->all_link.data = client;
	g_queue_push_tail_link(&self->all, &client->all_link);
	client->events = EPOLLIN;
	if (!poller_add(self->poller, client->connection.fd, client, &error)) {
		log_event(LOG_ACCEPT_FAILED, log_text("error", error->message));
		end_connection(self, client);
		return;
	}
	queues_enter(&self->queues, &client->place, QUEUE_IDLE);
	/* what came right after the handshake was read with it, and the socket does not tell */
	if (self->draining || newcomer->tls != NULL)
		run(self, client, TRUE, self->round_us);
}

static void start_draining(Loop *self, gint64 timeout_ms)
{
	self->draining = TRUE;
	self->drain_deadline_us = queues_now_us(&self->queues) + timeout_ms * 1000;
	for (GList *link = self->all.head, *next; link != NULL; link = next) {
		LoopConnection *client = link->data;

		next = link->next; /* the pass may end the connection */
		if (!loop_connection_takes_no_calls(client))
			run(self, client, TRUE, self->round_us);
	}
}

static void empty_inbox(Loop *self)
{
	g_auto(InboxMail) mail = {0};

	if (!self->rung)
		return;
	self->rung = FALSE;
	inbox_take(self->inbox, &mail);
	for (guint i = 0; i < mail.connections->len; i++)
		adopt(self, &g_array_index(mail.connections, InboxConnection, i));
	if (mail.wake)
		parking_wake(&self->parking);
	if (mail.drain)
		start_draining(self, mail.drain_timeout_ms);
}

/* The thread */

/* For epoll_wait(): until the first time limit runs out, rounded up; -1: for ever. */
static int timeout_ms(Loop *self)
{
	gint64 began_us, first_us;

	if (queues_are_empty(&self->queues) && !self->draining)
		return -1;
	began_us = queues_begin_look(&self->queues, self->all.length / MAX_EVENTS + 1);
	first_us = queues_first_deadline_us(&self->queues);
	if (parking_is_behind(&self->parking) || head_of(self, QUEUE_CUT_OFF) != NULL ||
	    head_of(self, QUEUE_COSTLY) != NULL)
		return 0;
	if (self->draining)
		first_us = MIN(first_us, self->drain_deadline_us);
	if (first_us == G_MAXINT64)
		return -1;
	return (int)CLAMP((first_us - began_us + 999) / 1000, 0, G_MAXINT);
}

/* Calls of it wait, parked or for its turn, and it is not read. It takes replies to earlier calls,
 * or was reset. That a client has closed in order is not heard of: its call keeps its place. */
static void handle_waiting(Loop *self, LoopConnection *client, guint32 events)
{
	if (client->place.queue == QUEUE_LINGER) {
		if (!connection_discard(&client->connection, &self->shared))
			end_connection(self, client);
	} else if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
		end_connection(self, client);
	} else if (client->place.queue == QUEUE_WRITE) {
		settle(self, client, connection_flush(&client->connection, &self->shared));
	} else if (!connection_send(&client->connection, &self->shared)) {
		end_connection(self, client);
	} else {
		loop_connection_watch(
			client, self->poller,
			connection_events(&client->connection, &self->shared, CONNECTION_PARKED));
	}
}

/* The inbox and the queues are looked at after the connections. */
static void handle(Loop *self, const struct epoll_event *event)
{
	LoopConnection *client = event->data.ptr;

	if (event->data.ptr == self->inbox) {
		self->rung = TRUE;
		return;
	}
	if (event->data.ptr == &self->retry_timer) {
		retry_timer_silence(&self->retry_timer);
		return;
	}
	if (loop_connection_takes_no_calls(client) || client->connection.full) {
		handle_waiting(self, client, event->events);
		return;
	}
	run(self, client, (event->events & ~(guint32)EPOLLOUT) != 0, self->round_us);
}

/* Answers, with what there is, all that was read from the connections of a queue, which leave it
 * by @leave. */
static void answer_queue(Loop *self, Queue queue, gint64 until_us, LeaveFunc leave)
{
	const RpcAllowance allowance = {.closing = TRUE};
	LoopConnection *head;

	while ((head = head_of(self, queue)) != NULL) {
		while (g_get_monotonic_time() < until_us &&
		       pass(self, head, &allowance, FALSE, head->place.since_us) ==
			       CONNECTION_CUT_OFF)
			;
		leave(self, head);
	}
}

/* There is no more time: calls that still wait get their answer now, and all leave. */
static void leave_all(Loop *self, LeaveFunc leave)
{
	gint64 until_us = g_get_monotonic_time() + LAST_ANSWERS_US;

	for (Queue queue = QUEUE_CUT_OFF; queue < QUEUE_LINGER; queue++)
		answer_queue(self, queue, until_us, leave);
	for (GList *link = self->all.head, *next; link != NULL; link = next) {
		next = link->next;
		leave(self, link->data);
	}
}

/* Nor is anything left of those that did. */
static gboolean nobody_waits(const Loop *self)
{
	return queues_are_empty(&self->queues) && !retry_timer_is_set(&self->retry_timer) &&
	       !parking_is_behind(&self->parking);
}

static void serve_queues(Loop *self)
{
	parking_retry(&self->parking, retry, self);
	serve_turns(self);
	expire_all(self);
	if (!parking_is_behind(&self->parking)) /* else they try again at once */
		retry_timer_set(&self->retry_timer, parking_retry_us(&self->parking));
	atomic_store_explicit(&self->n_parked, parking_n(&self->parking), memory_order_relaxed);
}

/* For each of @n that have become readable. */
static gint64 turn_us(int n)
{
	return n <= ROUND_US / TURN_US ? TURN_US : MAX(ROUND_US / n, MIN_TURN_US);
}

/* Waits for what there is to do, and does it. %FALSE: it cannot, see loop_failure(). */
static gboolean go_round(Loop *self)
{
	struct epoll_event events[MAX_EVENTS];
	int n = system_call_epoll_wait(self->poller, events, MAX_EVENTS, timeout_ms(self));

	if (n < 0 && errno != EINTR) {
		atomic_store(&self->failure, errno);
		return FALSE;
	}
	if (n >= 0)
		queues_end_look(&self->queues, n < MAX_EVENTS);
	self->round_us = now_us();
	queues_set_time(&self->queues, self->round_us);
	self->shared.stream.turn_us = turn_us(n);
	for (int i = 0; i < n; i++)
		handle(self, &events[i]);
	self->shared.stream.turn_us = TURN_US;
	empty_inbox(self);
	if (!nobody_waits(self) || self->n_parked > 0)
		serve_queues(self);
	atomic_fetch_add(&self->rounds, 1);
	return TRUE;
}

static void *loop_main(void *data)
{
	Loop *self = data;
	gboolean well = TRUE;

	while (well && (!self->draining || self->all.length > 0)) {
		if (self->draining && queues_now_us(&self->queues) >= self->drain_deadline_us) {
			self->drain_deadline_us = G_MAXINT64;
			leave_all(self, hang_up);
		}
		well = go_round(self);
	}
	if (!well) {
		leave_all(self, end_connection);
		self->failed(self->user_data);
	}
	return NULL;
}

gboolean loop_start(Loop *self, GError **error)
{
	int failure = pthread_create(&self->thread, NULL, loop_main, self);

	if (failure == 0) {
		pthread_setname_np(self->thread, "loop");
		return TRUE;
	}
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure), "cannot start a thread: %s",
		    g_strerror(failure));
	return FALSE;
}

void loop_join(Loop *self)
{
	pthread_join(self->thread, NULL);
}
