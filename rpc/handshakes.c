/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/handshakes.h"

#include <errno.h>
#include <gio/gio.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/log.h"
#include "common/socket.h"
#include "common/thread.h"
#include "rpc/poller.h"

#define MAX_EVENTS 64

/* How long bytes on a failed connection are read and discarded. Without this, the kernel would
 * reset the connection, and the client would not receive the alert. */
#define LINGER_MS 250

typedef struct {
	InboxConnection connection;
	GQueue *queue; /* the queue that contains it */
	GList link;
	gint64 entered_at_us; /* time at which it entered the queue; monotonic */
	guint32 events;       /* events that epoll watches for */
} Handshake;

struct _Handshakes {
	gint64 timeout_ms;
	HandshakesDone done;
	gpointer user_data;
	Counters *counters;
	pthread_t thread;
	gboolean is_running;
	Inbox *inbox;
	int poller;
	/* used only by the thread; each queue is in order of arrival */
	GQueue waiting;
	GQueue under_way;
	GQueue lingering;
	gboolean is_ending;
};

static void enter_queue(Handshake *one, GQueue *queue)
{
	if (one->queue != NULL)
		g_queue_unlink(one->queue, &one->link);
	one->queue = queue;
	one->entered_at_us = g_get_monotonic_time();
	g_queue_push_tail_link(queue, &one->link);
}

static Handshake *head_of(const GQueue *queue)
{
	return queue->head != NULL ? queue->head->data : NULL;
}

static void close_handshake(Handshake *one)
{
	inbox_connection_close(&one->connection);
	g_queue_unlink(one->queue, &one->link);
	g_free(one);
}

static void watch_events(Handshakes *self, Handshake *one, guint32 events)
{
	if (one->events != events)
		poller_change(self->poller, one->connection.fd, one, events);
	one->events = events;
}

/* Shuts down the sending side of a connection after its alert, if any, was sent. */
static void start_lingering(Handshakes *self, Handshake *one)
{
	shutdown(one->connection.fd, SHUT_WR); /* fails if the client has already closed it */
	watch_events(self, one, EPOLLIN);
	enter_queue(one, &self->lingering);
}

static void fail_handshake(Handshakes *self, Handshake *one, const char *reason)
{
	g_autofree char *peer = socket_name_peer(one->connection.fd);

	counters_add(self->counters, COUNTER_CLOSED_HANDSHAKE, 1);
	log_event(LOG_HANDSHAKE_FAILED, log_text("reason", reason), log_text("peer", peer));
	start_lingering(self, one);
}

static void continue_handshake(Handshakes *self, Handshake *one)
{
	TlsStream *tls = one->connection.tls;
	int result = tls_stream_shake_hands(tls);

	if (result != 0 && errno == EAGAIN) {
		/* the flags of poll() and epoll have the same values */
		watch_events(self, one, (guint32)tls->events);
		return;
	}
	if (result != 0) {
		fail_handshake(self, one,
			       errno == EPROTO ? tls->failure
			       : errno == ECONNRESET
				       ? "the client closed the connection during the handshake"
				       : g_strerror(errno));
		return;
	}
	counters_add(self->counters, COUNTER_HANDSHAKES, 1);
	epoll_ctl(self->poller, EPOLL_CTL_DEL, one->connection.fd, NULL);
	if (self->done(self->user_data, &one->connection)) {
		g_queue_unlink(one->queue, &one->link);
		g_free(one);
		return;
	}
	tls_stream_close(tls);
	one->events = EPOLLIN;
	if (poller_add(self->poller, one->connection.fd, one, NULL))
		start_lingering(self, one);
	else
		close_handshake(one);
}

/* Returns when the time limit of the first connection in the queue ends. */
static gint64 first_end_us(const GQueue *queue, gint64 limit_ms)
{
	const Handshake *first = head_of(queue);

	return first != NULL ? first->entered_at_us + limit_ms * 1000 : G_MAXINT64;
}

/* Returns the time limit of a handshake, which is shorter while other connections wait. */
static gint64 find_limit_ms(const Handshakes *self)
{
	guint waiting = self->waiting.length;
	gint64 crowded_ms = HANDSHAKES_CROWDED_MS;

	if (waiting == 0)
		return self->timeout_ms;
	if (waiting > HANDSHAKES_MOST)
		crowded_ms = MAX(HANDSHAKES_CROWDED_MS * HANDSHAKES_MOST / waiting,
				 HANDSHAKES_CROWDED_LEAST_MS);
	return MIN(crowded_ms, self->timeout_ms);
}

static void handle_event(Handshakes *self, void *tag)
{
	g_auto(InboxMail) mail = {0};
	Handshake *one = tag;
	guint8 discarded[4096];
	gssize n;

	if (tag == self->inbox) {
		inbox_take(self->inbox, &mail);
		for (guint i = 0; i < mail.connections->len; i++) {
			one = g_new0(Handshake, 1);
			one->connection = g_array_index(mail.connections, InboxConnection, i);
			one->link.data = one;
			enter_queue(one, &self->waiting);
		}
		self->is_ending = self->is_ending || mail.orders.drain;
	} else if (one->queue == &self->lingering) {
		n = recv(one->connection.fd, discarded, sizeof discarded, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			close_handshake(one);
	} else {
		continue_handshake(self, one);
	}
}

static void *handshakes_main(void *user_data)
{
	Handshakes *self = user_data;
	struct epoll_event events[MAX_EVENTS];

	while (!self->is_ending) {
		gint64 end_us = MIN(first_end_us(&self->under_way, find_limit_ms(self)),
				    first_end_us(&self->lingering, LINGER_MS));
		gint64 now_us = g_get_monotonic_time();
		gint64 wait_ms = -1;
		Handshake *one;
		int n;

		if (end_us != G_MAXINT64) /* rounded up */
			wait_ms = CLAMP((end_us - now_us + 999) / 1000, 0, G_MAXINT);
		n = epoll_wait(self->poller, events, MAX_EVENTS, (int)wait_ms);
		if (n < 0 && errno != EINTR)
			g_error("epoll: %s", g_strerror(errno)); /* lint: allow fatal: our bug */
		for (int i = 0; i < n; i++)
			handle_event(self, events[i].data.ptr);

		now_us = g_get_monotonic_time();
		while (first_end_us(&self->under_way, find_limit_ms(self)) <= now_us) {
			one = head_of(&self->under_way);
			/* the client's bytes may have arrived in time if this thread is late */
			continue_handshake(self, one);
			if (head_of(&self->under_way) == one)
				fail_handshake(self, one, "it took too long");
		}
		while (first_end_us(&self->lingering, LINGER_MS) <= now_us)
			close_handshake(head_of(&self->lingering));

		while (self->waiting.length > 0 && self->under_way.length < HANDSHAKES_MOST) {
			g_autoptr(GError) error = NULL;

			one = head_of(&self->waiting);
			enter_queue(one, &self->under_way);
			one->events = EPOLLIN;
			if (poller_add(self->poller, one->connection.fd, one, &error)) {
				continue_handshake(self, one);
				continue;
			}
			log_event(LOG_ACCEPT_FAILED, log_text("error", error->message));
			close_handshake(one);
		}
	}
	return NULL;
}

Handshakes *handshakes_new(gint64 timeout_ms, HandshakesDone done, gpointer user_data,
			   Counters *counters, GError **error)
{
	g_autoptr(Handshakes) self = g_new0(Handshakes, 1);
	int code;

	self->timeout_ms = timeout_ms;
	self->done = done;
	self->user_data = user_data;
	self->counters = counters;
	self->poller = poller_new(error);
	if (self->poller >= 0)
		self->inbox = inbox_new(self->poller, error);
	if (self->inbox == NULL)
		return NULL;
	code = thread_start(&self->thread, "handshakes", handshakes_main, self);
	self->is_running = code == 0;
	if (self->is_running)
		return g_steal_pointer(&self);
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(code), "cannot start a thread: %s",
		    g_strerror(code));
	return NULL;
}

void handshakes_add(Handshakes *self, const InboxConnection *connection)
{
	inbox_post(self->inbox, connection, (InboxOrders){0});
}

void handshakes_free(Handshakes *self)
{
	if (self == NULL)
		return;
	if (self->is_running) {
		inbox_post(self->inbox, NULL, (InboxOrders){.drain = TRUE});
		pthread_join(self->thread, NULL);
	}

	GQueue *const queues[] = {&self->waiting, &self->under_way, &self->lingering};

	for (gsize i = 0; i < G_N_ELEMENTS(queues); i++)
		while (queues[i]->length > 0)
			close_handshake(head_of(queues[i]));
	if (self->poller >= 0)
		close(self->poller);
	inbox_free(self->inbox);
	g_free(self);
}
