/* SPDX-License-Identifier: Apache-2.0 */

/* An event loop, whose connections take turns.
 *
 * A turn is short. A connection with more calls than fit into its turn is cut off, and waits for
 * another turn. In each round, connections that have just become readable have their turns first,
 * and then one cut-off connection has a turn. So clients with few calls wait only briefly, and
 * every connection gets turns. parking.h describes calls that wait for IDs.
 *
 * A costly call, such as a batch of 128-bit IDs, takes many times as long as a turn. It is
 * deferred: its connection enters a queue, and the queue gets a short slice of time in each round.
 * So a cheap call waits for at most one costly call from this queue and one from each queue of
 * parked calls, regardless of the number of connections that make costly calls. */
#include "rpc/loop.h"

#include <errno.h>
#include <gio/gio.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "common/log.h"
#include "common/socket.h"
#include "common/thread.h"
#include "core/text.h"
#include "rpc/connection.h"
#include "rpc/parking.h"
#include "rpc/poller.h"

#define MAX_EVENTS 256
#define READ_BYTES (64 * 1024)

/* The length of a turn after its first answer. It is enough for about ten of the slower calls, or
 * many hundreds of the fast ones. */
#define TURN_US 50

/* If many connections have become readable at the same time, the total length of their turns, and
 * the minimum length of a turn. The last connection waits for all others. */
#define ROUND_US    1000
#define MIN_TURN_US 10

/* The time for costly calls between two polls of the sockets. The last call can exceed it. While
 * costly calls wait, cut-off connections get the same time instead of one turn. */
#define SLICE_US 500

/* The time for the last answers after the time limit of a drain has ended. */
#define LAST_ANSWERS_US 1000000

#define FRAME_TOO_LONG "incomplete message for too long"

/* A connection, and the loop's state for it. The members that every pass needs are together in 64
 * bytes, because with thousands of connections, they are not in the caches when a pass begins. */
typedef struct {
	Connection connection;
	guint32 events; /* events that epoll watches for */
	/* whether it waits for the server, as last reported to connection-limits.c */
	guint waits : 1;
	guint is_local : 1; /* connection-limits.c needs to know the time of each pass */
	QueuePlace place;
	ConnectionEntry *entry; /* NULL if not counted by connection-limits.c */
	GList all_link;         /* link in the loop's queue of all connections */
	gint64 frame_until_us;  /* deadline of a message that takes several turns; 0 if none */
} LoopConnection;

G_STATIC_ASSERT(offsetof(LoopConnection, place.queue) + sizeof(Queue) -
			offsetof(LoopConnection, connection.fd) <=
		64);

/* Returns: (nullable): the connection at @place. */
static LoopConnection *loop_connection_at(QueuePlace *place)
{
	return place == NULL ? NULL
			     : G_STRUCT_MEMBER_P(place, -(glong)offsetof(LoopConnection, place));
}

/* Returns whether the connection takes no further calls, because a call is waiting or the last
 * reply was sent. */
static gboolean loop_connection_takes_no_calls(const LoopConnection *self)
{
	return parking_holds(&self->place) || self->place.queue == QUEUE_LINGER;
}

static void loop_connection_watch(LoopConnection *self, int poller, guint32 events)
{
	if (self->events == events)
		return;
	self->events = events;
	poller_change(poller, self->connection.fd, self, events);
}

/* Records whether the connection waits for the server. If it does, it is silent, but not idle. */
static void loop_connection_set_waits(LoopConnection *self, gboolean waits)
{
	if (self->waits == (guint)waits)
		return;
	self->waits = (guint)waits;
	if (self->entry != NULL)
		atomic_store(&self->entry->waits, waits);
}

struct _Loop {
	RpcService service;
	pthread_t thread;
	int poller;
	/* a timer that is more precise than epoll_wait()'s milliseconds; it fires when the clock
	 * can allow the IDs for the first parked call */
	int timer_fd;
	gint64 timer_at_us; /* monotonic; 0: off */
	Inbox *inbox;
	_Atomic guint n_connections;
	_Atomic guint64 rounds;
	_Atomic int failure; /* errno with which the thread failed; 0 if it has not */
	_Atomic guint n_parked;
	LoopFailed failed;
	gpointer user_data;
	/* used only by the thread */
	Counters *counters;
	ConnectionShared shared;
	Queues queues;
	Parking parking;
	GQueue all;
	gboolean has_mail;
	gboolean draining;
	gint64 drain_deadline_at_us;
	gint64 round_at_us; /* time of the last poll; monotonic */
	gint64 turn_us;     /* maximum length of each turn in this round */
};

/* Reads the clock. g_get_monotonic_time() takes twice as many instructions, and each pass reads the
 * clock twice. */
static inline gint64 now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now); /* fails only if its arguments are invalid */
	return now.tv_sec * G_TIME_SPAN_SECOND + now.tv_nsec / 1000;
}

typedef void (*LeaveFunc)(Loop *self, LoopConnection *client);

Loop *loop_new(const RpcService *service, const RpcLimits *limits, Counters *counters,
	       LoopFailed failed, gpointer user_data, GError **error)
{
	g_autoptr(Loop) self = g_new0(Loop, 1);

	self->service = *service;
	self->turn_us = TURN_US;
	self->failed = failed;
	self->user_data = user_data;
	self->counters = counters;
	queues_init(&self->queues, limits, now_us);
	self->parking = (Parking){.queues = &self->queues,
				  .turn_ids = limits->turn_ids,
				  .batches_apart = limits->batches_apart};
	self->shared = (ConnectionShared){
		.stream =
			{
				.service = &self->service,
				.handler = service->new_handler(service->user_data, counters),
				.max_message_bytes = limits->max_frame_bytes,
				.max_depth = limits->max_depth,
				.now_us = now_us,
			},
		.counters = counters,
		.in = g_malloc(READ_BYTES),
		.in_bytes = READ_BYTES,
		.out = g_byte_array_new(),
		.max_pending_bytes = limits->max_pending_bytes,
	};
	self->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (self->timer_fd < 0)
		g_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno),
			    "cannot make a timer: %s", g_strerror(errno));
	self->poller = self->timer_fd >= 0 ? poller_new(error) : -1;
	if (self->poller < 0 || !poller_add(self->poller, self->timer_fd, &self->timer_fd, error))
		return NULL;
	self->inbox = inbox_new(self->poller, error);
	return self->inbox != NULL ? g_steal_pointer(&self) : NULL;
}

void loop_free(Loop *self)
{
	if (self == NULL)
		return;
	inbox_free(self->inbox);
	g_free(self->shared.stream.spare);
	self->service.free_handler(self->shared.stream.handler);
	g_byte_array_unref(self->shared.out);
	g_free(self->shared.in);
	if (self->timer_fd >= 0)
		close(self->timer_fd);
	if (self->poller >= 0)
		close(self->poller);
	g_free(self);
}

/* For other threads */

void loop_add(Loop *self, const InboxConnection *connection)
{
	atomic_fetch_add(&self->n_connections, 1);
	inbox_post(self->inbox, connection, (InboxOrders){0});
}

LoopStatus loop_status(const Loop *self)
{
	return (LoopStatus){
		.n_connections = atomic_load(&self->n_connections),
		.n_parked = atomic_load_explicit(&self->n_parked, memory_order_relaxed),
		.rounds = atomic_load(&self->rounds),
		.failure = atomic_load(&self->failure),
	};
}

void loop_wake(Loop *self)
{
	inbox_post(self->inbox, NULL, (InboxOrders){.wake = TRUE});
}

void loop_drain(Loop *self, gint64 timeout_ms)
{
	inbox_post(self->inbox, NULL, (InboxOrders){.drain = TRUE, .drain_timeout_ms = timeout_ms});
}

/* Connections */

static LoopConnection *head_of(const Loop *self, Queue queue)
{
	return loop_connection_at(queues_head(&self->queues, queue));
}

static void end_connection(Loop *self, LoopConnection *client)
{
	int fd = client->connection.fd;

	if (log_shows(LOG_CONNECTION_ENDED)) {
		g_autofree char *peer = socket_name_peer(fd);
		struct tcp_info info = {0};

		/* the kernel does not count the bytes of local sockets */
		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info}) != 0)
			log_event(LOG_CONNECTION_ENDED, log_text("peer", peer));
		else
			log_event(LOG_CONNECTION_ENDED, log_text("peer", peer),
				  log_number("received_bytes", (gint64)info.tcpi_bytes_received),
				  log_number("sent_bytes", (gint64)info.tcpi_bytes_acked));
	}
	counters_add(self->counters, COUNTER_CONNECTIONS_ENDED, 1);
	queues_leave(&self->queues, &client->place);
	g_queue_unlink(&self->all, &client->all_link);
	connection_limits_remove(client->entry);
	connection_clear(&client->connection); /* closing also removes it from epoll */
	g_free(client);
	atomic_fetch_sub(&self->n_connections, 1);
}

/* Shuts down the sending side of a connection after its last reply. The connection is closed when
 * the client closes it, or after QUEUES_LINGER_MS. */
static void start_lingering(Loop *self, LoopConnection *client)
{
	if (client->place.queue == QUEUE_LINGER)
		return;
	connection_half_close(&client->connection);
	loop_connection_set_waits(client, FALSE);
	loop_connection_watch(client, self->poller, EPOLLIN);
	queues_set_time(&self->queues, 0); /* the time limit starts now */
	queues_enter(&self->queues, &client->place, QUEUE_LINGER);
}

/* Counts and logs why the server closes a connection. */
static void note_closed(Loop *self, LoopConnection *client, Counter counter, const char *reason)
{
	g_autofree char *peer = socket_name_peer(client->connection.fd);

	counters_add(self->counters, counter, 1);
	log_event(LOG_CONNECTION_CLOSED, log_text("reason", reason), log_text("peer", peer));
}

/* Puts a connection into the queue for the event that it waits for, or closes it. @pass:
 * (nullable): NULL if only replies were sent, so that no call was parked */
static void queue_connection(Loop *self, LoopConnection *client, ConnectionState state,
			     const RpcPass *pass)
{
	Connection *connection = &client->connection;
	Queue queue;
	guint32 events;

	if (state == CONNECTION_READING && self->draining) {
		if (!connection->more) {
			start_lingering(self, client);
			return;
		}
		state = CONNECTION_CUT_OFF; /* answer the calls that have arrived, turn by turn */
	}
	if (state == CONNECTION_ENDED && connection->bad != NULL) {
		counters_add(self->counters, stream_bad_counter(connection->bad), 1);
		note_closed(self, client, COUNTER_CLOSED_BAD_BYTES, connection->bad);
		start_lingering(self, client);
		return;
	}
	if (state == CONNECTION_ENDED) {
		end_connection(self, client);
		return;
	}
	loop_connection_set_waits(client, state != CONNECTION_READING);
	events = connection_events(connection, &self->shared, state);
	/* keep EPOLLIN until the client sends: most clients send nothing while they wait, and a
	 * change costs a system call */
	if (state == CONNECTION_PARKED || state == CONNECTION_CUT_OFF)
		events |= client->events & EPOLLIN;
	loop_connection_watch(client, self->poller, events);
	if (state == CONNECTION_PARKED) {
		if (parking_park(&self->parking, &client->place, pass))
			counters_add(self->counters, COUNTER_WAITS, 1);
		return;
	}

	if (state == CONNECTION_WRITING)
		queue = QUEUE_WRITE;
	else if (state == CONNECTION_CUT_OFF)
		queue = QUEUE_CUT_OFF;
	else
		queue = connection->in != NULL || connection->in_record ? QUEUE_FRAME : QUEUE_IDLE;
	/* with TLS, a connection can be cut off within a message; the message then keeps its
	 * deadline */
	if (connection->is_tls) {
		if (connection->consumed || queue == QUEUE_IDLE)
			client->frame_until_us = 0;
		else if (client->place.queue == QUEUE_FRAME && client->frame_until_us == 0)
			client->frame_until_us = client->place.deadline_at_us;
		if (client->frame_until_us != 0 &&
		    queues_now_us(&self->queues) >= client->frame_until_us) {
			note_closed(self, client, COUNTER_CLOSED_FRAME_TIMEOUT, FRAME_TOO_LONG);
			start_lingering(self, client);
			return;
		}
	}
	if (client->place.queue == QUEUE_NONE && !queues_has(&self->queues, queue))
		return; /* the usual case: idle without a time limit */
	if (queue != client->place.queue || queue == QUEUE_CUT_OFF ||
	    (queue == QUEUE_WRITE ? connection->sent : connection->consumed))
		queues_enter(&self->queues, &client->place, queue);
}

/* Runs a pass, and counts the durations of its calls. A duration begins at @since_us, when the
 * call was polled, cut off or parked. It ends when the reply was sent, or was kept for a client
 * that does not read. */
static ConnectionState run_pass(Loop *self, LoopConnection *client, RpcPass *pass, gboolean read,
				gint64 since_us)
{
	ConnectionState state;

	pass->turn_us = self->turn_us;
	state = connection_run(&client->connection, &self->shared, pass, read);
	if (pass->n_answered > 0) {
		gint64 sent_us = now_us();

		counters_add_durations(self->counters, sent_us - since_us, pass->n_answered);
		queues_set_time(&self->queues, sent_us);
	}
	if (client->is_local)
		atomic_store_explicit(&client->entry->active_at_us, self->round_at_us,
				      memory_order_relaxed);
	return state;
}

static void serve_connection(Loop *self, LoopConnection *client, gboolean read, gint64 since_us)
{
	RpcPass pass = {.allowance = parking_allowance(&self->parking, QUEUE_NONE)};
	ConnectionState state = run_pass(self, client, &pass, read, since_us);

	queue_connection(self, client, state, &pass);
}

/* A ParkingRun */
static void serve_parked(gpointer user_data, QueuePlace *place, RpcPass *pass)
{
	LoopConnection *client = loop_connection_at(place);

	queue_connection(user_data, client,
			 run_pass(user_data, client, pass, FALSE, place->entered_at_us), pass);
}

static void end_expired(Loop *self, Queue queue, Counter counter, const char *reason,
			LeaveFunc leave)
{
	LoopConnection *head;

	while ((head = loop_connection_at(queues_expired(&self->queues, queue))) != NULL) {
		note_closed(self, head, counter, reason);
		leave(self, head);
	}
}

/* The inbox */

static G_NO_INLINE void empty_inbox(Loop *self)
{
	g_auto(InboxMail) mail = {0};

	self->has_mail = FALSE;
	inbox_take(self->inbox, &mail);
	for (guint i = 0; i < mail.connections->len; i++) {
		const InboxConnection *added = &g_array_index(mail.connections, InboxConnection, i);
		LoopConnection *client = g_new0(LoopConnection, 1);
		g_autoptr(GError) error = NULL;

		client->connection = (Connection){
			.fd = added->fd, .tls = added->tls, .is_tls = added->tls != NULL};
		client->entry = added->entry;
		client->is_local = added->entry != NULL && added->entry->is_local;
		client->all_link.data = client;
		g_queue_push_tail_link(&self->all, &client->all_link);
		client->events = EPOLLIN;
		if (!poller_add(self->poller, client->connection.fd, client, &error)) {
			log_event(LOG_ACCEPT_FAILED, log_text("error", error->message));
			end_connection(self, client);
			continue;
		}
		queues_enter(&self->queues, &client->place, QUEUE_IDLE);
		/* calls may have been read together with the end of the handshake, so epoll does
		 * not report them */
		if (self->draining || added->tls != NULL)
			serve_connection(self, client, TRUE, self->round_at_us);
	}
	if (mail.orders.wake)
		parking_wake(&self->parking);
	if (!mail.orders.drain)
		return;
	self->draining = TRUE;
	self->drain_deadline_at_us =
		queues_now_us(&self->queues) + mail.orders.drain_timeout_ms * 1000;
	for (GList *link = self->all.head, *next; link != NULL; link = next) {
		LoopConnection *client = link->data;

		next = link->next; /* the pass may free the connection */
		if (!loop_connection_takes_no_calls(client))
			serve_connection(self, client, TRUE, self->round_at_us);
	}
}

/* The thread */

/* Returns the timeout for epoll_wait(): until the first time limit, rounded up; -1 if none. */
static int wait_ms(Loop *self)
{
	gint64 began_us, first_us;

	if (self->queues.length == 0 && !self->draining)
		return -1;
	began_us = queues_begin_poll(&self->queues, self->all.length / MAX_EVENTS + 1);
	first_us = queues_first_deadline_at_us(&self->queues);
	if (parking_is_behind(&self->parking) || head_of(self, QUEUE_CUT_OFF) != NULL ||
	    head_of(self, QUEUE_COSTLY) != NULL)
		return 0;
	if (self->draining)
		first_us = MIN(first_us, self->drain_deadline_at_us);
	if (first_us == G_MAXINT64)
		return -1;
	return (int)CLAMP((first_us - began_us + 999) / 1000, 0, G_MAXINT);
}

/* Serves the inbox and the queues, after the connections. */
static void handle_event(Loop *self, const struct epoll_event *event)
{
	LoopConnection *client = event->data.ptr;
	guint64 expirations;

	if (event->data.ptr == self->inbox) {
		self->has_mail = TRUE;
	} else if (event->data.ptr == &self->timer_fd) {
		if (read(self->timer_fd, &expirations, sizeof expirations) == sizeof expirations)
			self->timer_at_us = 0;
	} else if (!loop_connection_takes_no_calls(client) && !client->connection.full) {
		serve_connection(self, client, (event->events & ~(guint32)EPOLLOUT) != 0,
				 self->round_at_us);
	} else if (client->place.queue == QUEUE_LINGER) {
		if (!connection_discard(&client->connection, &self->shared))
			end_connection(self, client);
		/* Handles an event of a connection that is not read, because a call is parked or
		 * waits for a turn. The socket accepts replies to earlier calls, or was reset. If
		 * the client has closed its side, the call stays in its queue. */
	} else if ((event->events & (EPOLLERR | EPOLLHUP)) != 0) {
		end_connection(self, client);
	} else if (client->place.queue == QUEUE_WRITE) {
		queue_connection(self, client, connection_flush(&client->connection, &self->shared),
				 NULL);
	} else if (!connection_send(&client->connection, &self->shared)) {
		end_connection(self, client);
	} else {
		loop_connection_watch(
			client, self->poller,
			connection_events(&client->connection, &self->shared, CONNECTION_PARKED));
	}
}

/* Answers waiting calls with the IDs that are available, and then calls @leave for all
 * connections. */
static void leave_all(Loop *self, LeaveFunc leave)
{
	gint64 until_us = g_get_monotonic_time() + LAST_ANSWERS_US;
	LoopConnection *head;

	for (Queue queue = QUEUE_CUT_OFF; queue < QUEUE_LINGER; queue++)
		while ((head = head_of(self, queue)) != NULL) {
			ConnectionState state = CONNECTION_CUT_OFF;

			while (state == CONNECTION_CUT_OFF && g_get_monotonic_time() < until_us) {
				RpcPass pass = {.allowance.closing = TRUE};

				state = run_pass(self, head, &pass, FALSE,
						 head->place.entered_at_us);
			}
			leave(self, head);
		}
	for (GList *link = self->all.head, *next; link != NULL; link = next) {
		next = link->next;
		leave(self, link->data);
	}
}

static G_NO_INLINE void serve_queues(Loop *self)
{
	LoopConnection *head;
	gboolean is_costly;
	gint64 until_us, timer_at_us;

	parking_retry(&self->parking, serve_parked, self);

	/* Serve connections that wait only for their turn: one cut-off connection, or, while costly
	 * calls wait, cut-off connections for SLICE_US; then costly calls for SLICE_US, one for
	 * each connection. */
	is_costly = head_of(self, QUEUE_COSTLY) != NULL;
	until_us = is_costly ? now_us() + SLICE_US : 0;
	while ((head = head_of(self, QUEUE_CUT_OFF)) != NULL) {
		serve_connection(self, head, TRUE, head->place.entered_at_us);
		if (!is_costly || now_us() >= until_us)
			break;
	}
	until_us = is_costly ? now_us() + SLICE_US : 0;
	while (is_costly && (head = head_of(self, QUEUE_COSTLY)) != NULL) {
		RpcPass pass = {.allowance = parking_allowance(&self->parking, QUEUE_NONE)};
		ConnectionState state;

		pass.allowance.costly = RPC_COSTLY_ONE;
		state = run_pass(self, head, &pass, FALSE, head->place.entered_at_us);
		queue_connection(self, head, state, &pass);
		if (now_us() >= until_us)
			break;
	}

	end_expired(self, QUEUE_IDLE, COUNTER_CLOSED_IDLE_TIMEOUT, "idle for too long",
		    start_lingering);
	end_expired(self, QUEUE_FRAME, COUNTER_CLOSED_FRAME_TIMEOUT, FRAME_TOO_LONG,
		    start_lingering);
	/* do not just shut down the sending side, because a client that reads nothing would not
	 * notice it */
	end_expired(self, QUEUE_WRITE, COUNTER_CLOSED_WRITE_TIMEOUT, "takes no replies",
		    end_connection);
	while ((head = loop_connection_at(queues_expired(&self->queues, QUEUE_LINGER))) != NULL)
		end_connection(self, head);
	/* set the timer, unless parked calls are tried again at once; 0 turns it off */
	timer_at_us = parking_is_behind(&self->parking) ? self->timer_at_us
							: parking_retry_at_us(&self->parking);
	if (timer_at_us != self->timer_at_us) {
		const struct itimerspec timer = {
			.it_value = {.tv_sec = timer_at_us / G_USEC_PER_SEC,
				     .tv_nsec = timer_at_us % G_USEC_PER_SEC * 1000},
		};

		self->timer_at_us = timer_at_us;
		if (timerfd_settime(self->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL) != 0)
			g_error("timerfd_settime: %s", /* lint: allow fatal: our bug */
				g_strerror(errno));
	}
	atomic_store_explicit(&self->n_parked, parking_n(&self->parking), memory_order_relaxed);
}

/* Waits for events, and handles them. Returns %FALSE if waiting failed, see LoopStatus. */
static gboolean make_round(Loop *self)
{
	struct epoll_event events[MAX_EVENTS];
	int n = poller_wait(self->poller, events, MAX_EVENTS, wait_ms(self));

	if (n < 0 && errno != EINTR) {
		atomic_store(&self->failure, errno);
		return FALSE;
	}
	if (n >= 0)
		queues_end_poll(&self->queues, n < MAX_EVENTS);
	self->round_at_us = now_us();
	queues_set_time(&self->queues, self->round_at_us);
	if (n > ROUND_US / TURN_US)
		self->turn_us = MAX(ROUND_US / n, MIN_TURN_US);
	for (int i = 0; i < n; i++)
		handle_event(self, &events[i]);
	self->turn_us = TURN_US;
	if (self->has_mail)
		empty_inbox(self);
	/* also set n_parked after the last parked call has been answered */
	if (self->queues.length > 0 || self->timer_at_us != 0 ||
	    parking_is_behind(&self->parking) || self->n_parked > 0)
		serve_queues(self);
	atomic_fetch_add(&self->rounds, 1);
	return TRUE;
}

static void *loop_main(void *data)
{
	Loop *self = data;
	gboolean can_wait = TRUE;

	while (can_wait && (!self->draining || self->all.length > 0)) {
		if (self->draining && queues_now_us(&self->queues) >= self->drain_deadline_at_us) {
			self->drain_deadline_at_us = G_MAXINT64;
			leave_all(self, start_lingering);
		}
		can_wait = make_round(self);
	}
	if (!can_wait) {
		leave_all(self, end_connection);
		self->failed(self->user_data);
	}
	return NULL;
}

gboolean loop_start(Loop *self, GError **error)
{
	int failure = thread_start(&self->thread, "loop", loop_main, self);

	return failure == 0 || text_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure),
					      "cannot start a thread: %s", g_strerror(failure));
}

void loop_join(Loop *self)
{
	pthread_join(self->thread, NULL);
}
