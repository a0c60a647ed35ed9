/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each connection that waits for something with a time limit stands in the
 * queue of that thing. All who stand in one queue have the same limit, so the
 * first in it is the first to run out, and there is nothing to sort.
 *
 * Calls that wait for IDs are answered in the order in which they came: only
 * the head of the queue of the parked tries again, and a call for IDs on any
 * other connection goes behind.
 */
#include "server/rpc/loop.h"

#include <errno.h>
#include <gio/gio.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "server/log.h"
#include "server/rpc/connection.h"
#include "server/rpc/inbox.h"
#include "server/rpc/socket-name.h"

#define MAX_EVENTS    256
#define READ_BYTES    (64 * 1024)
#define US_PER_SECOND G_GINT64_CONSTANT(1000000)

struct _Loop {
	pthread_t thread;
	int epoll_fd;
	int retry_fd; /* a timerfd: the clock may allow what the first of the parked waits for */
	Inbox *inbox;
	_Atomic guint n_connections;
	_Atomic guint64 rounds;
	/* the thread's own */
	Counters *counters;
	ConnectionShared shared;
	RpcTurn *turn;
	guint turn_ids;
	gint64 limits_us[N_QUEUES]; /* G_MAXINT64: none */
	GQueue queues[N_QUEUES];
	GQueue all;
	gint64 now_us;      /* in this round; 0: nobody has asked yet */
	gboolean rung;      /* the inbox's bell is heard */
	gint64 retry_at_us; /* what the retry timer is set to; 0: off */
	gboolean draining;
	gint64 drain_deadline_us;
};

static gint64 limit_us(gint64 limit_ms)
{
	return limit_ms == 0 ? G_MAXINT64 : limit_ms * 1000;
}

static gboolean fail(GError **error)
{
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno),
		    "cannot set up an event loop: %s", g_strerror(errno));
	return FALSE;
}

static gboolean watch(Loop *self, int fd, void *tag, GError **error)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(self->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 || fail(error);
}

static gboolean open_descriptors(Loop *self, GError **error)
{
	self->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (self->epoll_fd < 0)
		return fail(error);
	self->retry_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (self->retry_fd < 0)
		return fail(error);
	return watch(self, inbox_bell(self->inbox), self->inbox, error) &&
	       watch(self, self->retry_fd, &self->retry_fd, error);
}

Loop *loop_new(const RpcService *service, const RpcLimits *limits, Counters *counters,
	       GError **error)
{
	g_autoptr(Loop) self = g_new0(Loop, 1);

	self->counters = counters;
	self->limits_us[QUEUE_NONE] = G_MAXINT64;
	self->limits_us[QUEUE_IDLE] = limit_us(limits->idle_timeout_ms);
	self->limits_us[QUEUE_FRAME] = limit_us(limits->frame_timeout_ms);
	self->limits_us[QUEUE_WRITE] = limit_us(limits->write_timeout_ms);
	self->limits_us[QUEUE_PARKED] = limits->max_wait_ms * 1000; /* here 0 is no wait at all */
	self->limits_us[QUEUE_ASIDE] = self->limits_us[QUEUE_PARKED];
	self->shared = (ConnectionShared){
		.stream =
			{
				.dispatcher = dispatcher_new(service, counters),
				.counters = counters,
				.max_message_bytes = limits->max_frame_bytes,
				.max_depth = limits->max_depth,
			},
		.in = g_malloc(READ_BYTES),
		.in_bytes = READ_BYTES,
		.out = g_byte_array_new(),
		.max_pending_bytes = limits->max_pending_bytes,
	};
	self->turn_ids = limits->turn_ids;
	self->turn = dispatcher_turn(self->shared.stream.dispatcher);
	self->epoll_fd = self->retry_fd = -1;
	self->inbox = inbox_new(error);
	return self->inbox != NULL && open_descriptors(self, error) ? g_steal_pointer(&self) : NULL;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

void loop_free(Loop *self)
{
	if (self == NULL)
		return;
	inbox_free(self->inbox);
	stream_shared_clear(&self->shared.stream);
	g_byte_array_unref(self->shared.out);
	g_free(self->shared.in);
	close_if_open(self->retry_fd);
	close_if_open(self->epoll_fd);
	g_free(self);
}

/* Other threads */

void loop_add(Loop *self, int fd)
{
	atomic_fetch_add(&self->n_connections, 1);
	inbox_add_connection(self->inbox, fd);
}

guint loop_n_connections(Loop *self)
{
	return atomic_load(&self->n_connections);
}

guint64 loop_rounds(Loop *self)
{
	return atomic_load(&self->rounds);
}

void loop_wake(Loop *self)
{
	inbox_wake(self->inbox);
}

void loop_drain(Loop *self, gint64 timeout_ms)
{
	inbox_drain(self->inbox, timeout_ms);
}

static gint64 now_us(Loop *self)
{
	if (self->now_us == 0)
		self->now_us = g_get_monotonic_time();
	return self->now_us;
}

/* The queues */

static void leave_queue(Loop *self, Connection *connection)
{
	if (connection->queue != QUEUE_NONE)
		g_queue_unlink(&self->queues[connection->queue], &connection->queue_link);
	connection->queue = QUEUE_NONE;
}

/* Puts it at the end of @queue, with the whole time limit before it. */
static void enter_queue(Loop *self, Connection *connection, ConnectionQueue queue)
{
	gint64 limit = self->limits_us[queue];

	leave_queue(self, connection);
	if (queue == QUEUE_NONE || limit == G_MAXINT64)
		return;
	connection->queue = queue;
	connection->deadline_us = now_us(self) + limit;
	g_queue_push_tail_link(&self->queues[queue], &connection->queue_link);
}

static Connection *queue_head(Loop *self, ConnectionQueue queue)
{
	return self->queues[queue].head == NULL ? NULL : self->queues[queue].head->data;
}

/* One pass of one connection */

static void end_connection(Loop *self, Connection *connection)
{
	counters_add(self->counters, COUNTER_CONNECTIONS_ENDED, 1);
	leave_queue(self, connection);
	g_queue_unlink(&self->all, &connection->all_link);
	connection_free(connection); /* closing takes it out of epoll */
	atomic_fetch_sub(&self->n_connections, 1);
}

/* Ends it because of what the client did, which is counted and logged. */
static void close_for(Loop *self, Connection *connection, Counter counter, const char *reason)
{
	g_autofree char *peer = socket_name_peer(connection->fd);

	counters_add(self->counters, counter, 1);
	log_event(LOG_CONNECTION_CLOSED, "reason=\"%s\" peer=%s", reason, peer);
	end_connection(self, connection);
}

static void watch_for(Loop *self, Connection *connection, guint32 events)
{
	struct epoll_event event = {.events = events, .data.ptr = connection};

	if (connection->events == events)
		return;
	connection->events = events;
	if (epoll_ctl(self->epoll_fd, EPOLL_CTL_MOD, connection->fd, &event) != 0)
		g_error("epoll_ctl: %s", g_strerror(errno)); /* lint: allow fatal: our bug */
}

static guint32 events_for(Loop *self, const Connection *connection, ConnectionState state)
{
	guint32 events = 0;

	/* a parked one is not read from: its turn comes by the queue */
	if (state == CONNECTION_WRITING || connection_pending_bytes(connection) > 0)
		events |= EPOLLOUT;
	if (state != CONNECTION_PARKED && connection_may_read(connection, &self->shared))
		events |= EPOLLIN;
	return events;
}

static ConnectionQueue queue_for(const Connection *connection, ConnectionState state)
{
	if (state == CONNECTION_WRITING)
		return QUEUE_WRITE;
	return connection->in != NULL ? QUEUE_FRAME : QUEUE_IDLE;
}

static void park(Loop *self, Connection *connection)
{
	ConnectionQueue queue = self->turn->aside ? QUEUE_ASIDE : QUEUE_PARKED;
	gint64 wait_ns = self->turn->wait_ns;

	/* the time it begins to wait, not that of the last look at the clock: the process may have
	 * been stopped in between */
	self->now_us = g_get_monotonic_time();
	connection->retry_us = wait_ns == 0 ? G_MAXINT64 : now_us(self) + wait_ns / 1000 + 1;
	if (connection->queue != queue) {
		counters_add(self->counters, COUNTER_WAITS, 1);
		enter_queue(self, connection, queue);
	}
}

/* Decides what the connection waits for after a pass, or ends it. */
static void settle(Loop *self, Connection *connection, ConnectionState state)
{
	ConnectionQueue queue;
	guint32 events;

	if (state == CONNECTION_READING && self->draining)
		state = CONNECTION_ENDED;
	if (state == CONNECTION_ENDED && connection->bad != NULL) {
		close_for(self, connection, COUNTER_CLOSED_BAD_BYTES, connection->bad);
		return;
	}
	if (state == CONNECTION_ENDED) {
		end_connection(self, connection);
		return;
	}
	events = events_for(self, connection, state);
	/* EPOLLIN is left on until the client does send: most send nothing while they wait, and a
	 * change is a system call */
	if (state == CONNECTION_PARKED)
		events |= connection->events & EPOLLIN;
	watch_for(self, connection, events);
	if (state == CONNECTION_PARKED) {
		park(self, connection);
		return;
	}
	queue = queue_for(connection, state);
	if (queue != connection->queue ||
	    (queue == QUEUE_WRITE ? connection->sent : connection->consumed))
		enter_queue(self, connection, queue);
}

static void run(Loop *self, Connection *connection, gboolean read)
{
	ConnectionState state;

	self->turn->others_wait = self->queues[QUEUE_PARKED].length > 0;
	do /* once; at the end until all that has arrived is answered */
		state = connection_run(connection, &self->shared, read);
	while (self->draining && state == CONNECTION_READING && connection->more &&
	       g_get_monotonic_time() < self->drain_deadline_us);
	settle(self, connection, state);
}

/* Tries the call again that waits on it. %FALSE: it must go on waiting, where it stands. */
static gboolean retry(Loop *self, Connection *connection, guint quota, gboolean others_wait)
{
	ConnectionState state;

	self->turn->quota = quota;
	self->turn->answered = FALSE;
	self->turn->last_chance = now_us(self) >= connection->deadline_us;
	self->turn->others_wait = others_wait;
	state = connection_run(connection, &self->shared, FALSE);
	self->turn->quota = 0;
	self->turn->last_chance = FALSE;
	if (state == CONNECTION_PARKED && !self->turn->answered) {
		settle(self, connection, state);
		return FALSE;
	}
	leave_queue(self, connection);
	if (self->draining && state == CONNECTION_READING)
		run(self, connection, TRUE); /* what came behind it while it was parked */
	else
		settle(self, connection, state);
	return TRUE;
}

/* The first of those who wait for IDs tries again, then the next, until one must go on waiting. */
static void retry_parked(Loop *self, gboolean woken)
{
	Connection *head;

	while ((head = queue_head(self, QUEUE_PARKED)) != NULL) {
		if (!woken && now_us(self) < MIN(head->retry_us, head->deadline_us))
			return;
		if (!retry(self, head, self->turn_ids, self->queues[QUEUE_PARKED].length > 1))
			return;
	}
}

/* Those who wait for something else try again, each for itself. */
static void retry_aside(Loop *self, gboolean woken)
{
	for (GList *link = self->queues[QUEUE_ASIDE].head, *next; link != NULL; link = next) {
		Connection *connection = link->data;

		next = link->next; /* the pass may end the connection */
		if (!woken && now_us(self) < connection->deadline_us)
			return;
		retry(self, connection, 0, self->queues[QUEUE_PARKED].length > 0);
	}
}

static gboolean is_parked(const Connection *connection)
{
	return connection->queue == QUEUE_PARKED || connection->queue == QUEUE_ASIDE;
}

static void set_retry_timer(Loop *self)
{
	Connection *head = queue_head(self, QUEUE_PARKED);
	gint64 at_us = head == NULL || head->retry_us == G_MAXINT64 ? 0 : head->retry_us;
	struct itimerspec timer = {
		.it_value = {.tv_sec = at_us / US_PER_SECOND,
			     .tv_nsec = at_us % US_PER_SECOND * 1000},
	};

	if (at_us == self->retry_at_us)
		return;
	self->retry_at_us = at_us;
	if (timerfd_settime(self->retry_fd, TFD_TIMER_ABSTIME, &timer, NULL) != 0)
		g_error("timerfd_settime: %s", g_strerror(errno)); /* lint: allow fatal: our bug */
}

static void expire(Loop *self, ConnectionQueue queue, Counter counter, const char *reason)
{
	Connection *head;

	while ((head = queue_head(self, queue)) != NULL && head->deadline_us <= now_us(self))
		close_for(self, head, counter, reason);
}

static void expire_all(Loop *self)
{
	expire(self, QUEUE_IDLE, COUNTER_CLOSED_IDLE_TIMEOUT, "idle for too long");
	expire(self, QUEUE_FRAME, COUNTER_CLOSED_FRAME_TIMEOUT, "half a message for too long");
	expire(self, QUEUE_WRITE, COUNTER_CLOSED_WRITE_TIMEOUT, "takes no replies");
}

/* The inbox */

static void adopt(Loop *self, int fd)
{
	Connection *connection = connection_new(fd);
	g_autoptr(GError) error = NULL;

	g_queue_push_tail_link(&self->all, &connection->all_link);
	connection->events = EPOLLIN;
	if (!watch(self, fd, connection, &error)) {
		g_autofree char *quoted = log_quote(error->message);

		log_event(LOG_ACCEPT_FAILED, "error=%s", quoted);
		end_connection(self, connection);
		return;
	}
	enter_queue(self, connection, QUEUE_IDLE);
	if (self->draining)
		run(self, connection, TRUE);
}

static void start_draining(Loop *self, gint64 timeout_ms)
{
	self->draining = TRUE;
	self->drain_deadline_us = now_us(self) + timeout_ms * 1000;
	for (GList *link = self->all.head, *next; link != NULL; link = next) {
		Connection *connection = link->data;

		next = link->next; /* the pass may end the connection */
		if (!is_parked(connection))
			run(self, connection, TRUE);
	}
}

static void empty_inbox(Loop *self)
{
	g_auto(InboxMail) mail = {0};

	if (!self->rung)
		return;
	self->rung = FALSE;
	inbox_take(self->inbox, &mail);
	for (guint i = 0; i < mail.fds->len; i++)
		adopt(self, g_array_index(mail.fds, int, i));
	if (mail.wake) {
		retry_aside(self, TRUE);
		retry_parked(self, TRUE);
	}
	if (mail.drain)
		start_draining(self, mail.drain_timeout_ms);
}

/* The thread */

/* For epoll_wait(): until the first time limit runs out, rounded up; -1: for ever. */
static int timeout_ms(Loop *self)
{
	gint64 first_us = self->draining ? self->drain_deadline_us : G_MAXINT64;

	for (guint queue = QUEUE_NONE + 1; queue < N_QUEUES; queue++) {
		Connection *head = queue_head(self, queue);

		if (head != NULL)
			first_us = MIN(first_us, head->deadline_us);
	}
	if (first_us == G_MAXINT64)
		return -1;
	return (int)CLAMP((first_us - g_get_monotonic_time() + 999) / 1000, 0, G_MAXINT);
}

static void silence_retry_timer(Loop *self)
{
	guint64 expirations;

	if (read(self->retry_fd, &expirations, sizeof expirations) == sizeof expirations)
		self->retry_at_us = 0;
}

/* It takes replies to earlier calls, or was reset. That a client has closed in order is not heard
 * of: its call keeps its place. */
static void handle_parked(Loop *self, Connection *connection, guint32 events)
{
	if ((events & (EPOLLERR | EPOLLHUP)) != 0 || !connection_send(connection))
		end_connection(self, connection);
	else
		watch_for(self, connection, events_for(self, connection, CONNECTION_PARKED));
}

/* The inbox and the queue of the parked are looked at after the connections. */
static void handle(Loop *self, const struct epoll_event *event)
{
	Connection *connection = event->data.ptr;

	if (event->data.ptr == self->inbox) {
		self->rung = TRUE;
		return;
	}
	if (event->data.ptr == &self->retry_fd) {
		silence_retry_timer(self);
		return;
	}
	if (is_parked(connection)) {
		handle_parked(self, connection, event->events);
		return;
	}
	run(self, connection, (event->events & ~(guint32)EPOLLOUT) != 0);
}

/* At the end of a drain: calls that still wait get their answer now, and every socket is closed. */
static void close_all(Loop *self)
{
	for (GList *link = self->all.head; link != NULL; link = link->next)
		((Connection *)link->data)->deadline_us = now_us(self);
	retry_aside(self, TRUE);
	retry_parked(self, TRUE);
	while (self->all.head != NULL)
		end_connection(self, self->all.head->data);
}

static void *loop_main(void *data)
{
	Loop *self = data;
	struct epoll_event events[MAX_EVENTS];

	while (!self->draining || self->all.length > 0) {
		int n = epoll_wait(self->epoll_fd, events, MAX_EVENTS, timeout_ms(self));

		self->now_us = 0;
		for (int i = 0; i < n; i++)
			handle(self, &events[i]);
		empty_inbox(self);
		retry_aside(self, FALSE);
		retry_parked(self, FALSE);
		expire_all(self);
		set_retry_timer(self);
		atomic_fetch_add(&self->rounds, 1);
		if (self->draining && now_us(self) >= self->drain_deadline_us)
			break;
	}
	close_all(self);
	return NULL;
}

gboolean loop_start(Loop *self, GError **error)
{
	int failure = pthread_create(&self->thread, NULL, loop_main, self);

	if (failure == 0)
		return TRUE;
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure), "cannot start a thread: %s",
		    g_strerror(failure));
	return FALSE;
}

void loop_join(Loop *self)
{
	pthread_join(self->thread, NULL);
}
