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
#include "rpc/poller.h"

#define MAX_EVENTS 64

/* How long one that has failed is read from, so that the kernel does not reset the connection and
 * take with it what it was told. */
#define LINGER_MS 250

typedef struct {
	InboxConnection newcomer;
	GQueue *queue; /* that it stands in */
	GList link;
	gint64 since_us; /* when it came there; monotonic */
	guint32 events;  /* what epoll watches for */
} Handshake;

struct _Handshakes {
	HandshakesConfig config;
	Counters *counters;
	pthread_t thread;
	gboolean runs;
	Inbox *inbox;
	int poller;
	/* the thread's own; in each the first is the one that has been there for longest */
	GQueue waiting;
	GQueue under_way;
	GQueue lingering;
	gboolean ends;
};

static void enter(Handshake *one, GQueue *queue)
{
	if (one->queue != NULL)
		g_queue_unlink(one->queue, &one->link);
	one->queue = queue;
	one->since_us = g_get_monotonic_time();
	g_queue_push_tail_link(queue, &one->link);
}

static Handshake *head_of(const GQueue *queue)
{
	return queue->head != NULL ? queue->head->data : NULL;
}

/* It is somebody else's from now on, or closed. */
static void forget(Handshake *one)
{
	g_queue_unlink(one->queue, &one->link);
	g_free(one);
}

static void end(Handshake *one)
{
	inbox_connection_close(&one->newcomer);
	forget(one);
}

static void watch(Handshakes *self, Handshake *one, guint32 events)
{
	if (one->events != events)
		poller_change(self->poller, one->newcomer.fd, one, events);
	one->events = events;
}

/* It has been told, if there was anything to tell. */
static void linger(Handshakes *self, Handshake *one)
{
	shutdown(one->newcomer.fd, SHUT_WR); /* fails if the other end was faster */
	watch(self, one, EPOLLIN);
	enter(one, &self->lingering);
}

static void refuse(Handshakes *self, Handshake *one, const char *reason)
{
	g_autofree char *peer = socket_name_peer(one->newcomer.fd);

	counters_add(self->counters, COUNTER_CLOSED_HANDSHAKE, 1);
	log_event(LOG_HANDSHAKE_FAILED, log_text("reason", reason), log_text("peer", peer));
	linger(self, one);
}

static void hand_over(Handshakes *self, Handshake *one)
{
	counters_add(self->counters, COUNTER_HANDSHAKES, 1);
	epoll_ctl(self->poller, EPOLL_CTL_DEL, one->newcomer.fd, NULL);
	if (self->config.done(self->config.user_data, &one->newcomer)) {
		forget(one);
		return;
	}
	tls_stream_close(one->newcomer.tls);
	one->events = EPOLLIN;
	if (poller_add(self->poller, one->newcomer.fd, one, NULL))
		linger(self, one);
	else
		end(one);
}

static void advance(Handshakes *self, Handshake *one)
{
	TlsStream *tls = one->newcomer.tls;

	if (tls_stream_shake_hands(tls) == 0)
		hand_over(self, one);
	else if (errno == EAGAIN)
		watch(self, one, (guint32)tls_stream_events(tls)); /* poll's are epoll's */
	else
		refuse(self, one,
		       errno == EPROTO ? tls_stream_failure(tls)
		       : errno == ECONNRESET
			       ? "the client closed the connection in the middle of it"
			       : g_strerror(errno));
}

/* Reads away what still comes. */
static void discard(Handshake *one)
{
	guint8 bytes[4096];
	gssize n = recv(one->newcomer.fd, bytes, sizeof bytes, 0);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		end(one);
}

static void begin(Handshakes *self, Handshake *one)
{
	g_autoptr(GError) error = NULL;

	enter(one, &self->under_way);
	one->events = EPOLLIN;
	if (poller_add(self->poller, one->newcomer.fd, one, &error)) {
		advance(self, one);
		return;
	}
	log_event(LOG_ACCEPT_FAILED, log_text("error", error->message));
	end(one);
}

static void begin_some(Handshakes *self)
{
	while (self->waiting.length > 0 && self->under_way.length < HANDSHAKES_MOST)
		begin(self, head_of(&self->waiting));
}

static void take_newcomers(Handshakes *self)
{
	g_auto(InboxMail) mail = {0};

	inbox_take(self->inbox, &mail);
	for (guint i = 0; i < mail.connections->len; i++) {
		Handshake *one = g_new0(Handshake, 1);

		one->newcomer = g_array_index(mail.connections, InboxConnection, i);
		one->link.data = one;
		enter(one, &self->waiting);
	}
	self->ends = self->ends || mail.drain;
}

/* When the first in the queue is out of time. */
static gint64 first_end_us(const GQueue *queue, gint64 limit_ms)
{
	const Handshake *first = head_of(queue);

	return first != NULL ? first->since_us + limit_ms * 1000 : G_MAXINT64;
}

static gint64 limit_ms(const Handshakes *self)
{
	guint waiting = self->waiting.length;
	gint64 crowded_ms = HANDSHAKES_CROWDED_MS;

	if (waiting == 0)
		return self->config.timeout_ms;
	if (waiting > HANDSHAKES_MOST)
		crowded_ms = MAX(HANDSHAKES_CROWDED_MS * HANDSHAKES_MOST / waiting,
				 HANDSHAKES_CROWDED_LEAST_MS);
	return MIN(crowded_ms, self->config.timeout_ms);
}

static void expire(Handshakes *self)
{
	gint64 now_us = g_get_monotonic_time();

	while (first_end_us(&self->under_way, limit_ms(self)) <= now_us) {
		Handshake *one = head_of(&self->under_way);

		/* where this thread is behind, what the client has said may lie there yet */
		advance(self, one);
		if (head_of(&self->under_way) == one)
			refuse(self, one, "it took too long");
	}
	while (first_end_us(&self->lingering, LINGER_MS) <= now_us)
		end(head_of(&self->lingering));
}

/* For epoll_wait(): until somebody is out of time, rounded up; -1: for ever. */
static int patience_ms(const Handshakes *self)
{
	gint64 end_us = MIN(first_end_us(&self->under_way, limit_ms(self)),
			    first_end_us(&self->lingering, LINGER_MS));

	if (end_us == G_MAXINT64)
		return -1;
	return (int)CLAMP((end_us - g_get_monotonic_time() + 999) / 1000, 0, G_MAXINT);
}

static void handle(Handshakes *self, const struct epoll_event *event)
{
	Handshake *one = event->data.ptr;

	if (event->data.ptr == self->inbox)
		take_newcomers(self);
	else if (one->queue == &self->lingering)
		discard(one);
	else
		advance(self, one);
}

static void *run(void *user_data)
{
	Handshakes *self = user_data;
	struct epoll_event events[MAX_EVENTS];

	while (!self->ends) {
		int n = epoll_wait(self->poller, events, MAX_EVENTS, patience_ms(self));

		if (n < 0 && errno != EINTR)
			g_error("epoll: %s", g_strerror(errno)); /* lint: allow fatal: our bug */
		for (int i = 0; i < n; i++)
			handle(self, &events[i]);
		expire(self);
		begin_some(self);
	}
	return NULL;
}

static gboolean start(Handshakes *self, GError **error)
{
	int code;

	self->poller = poller_new(error);
	if (self->poller < 0 ||
	    !poller_add(self->poller, inbox_bell(self->inbox), self->inbox, error))
		return FALSE;
	code = pthread_create(&self->thread, NULL, run, self);
	self->runs = code == 0;
	if (!self->runs)
		g_set_error(error, G_IO_ERROR, g_io_error_from_errno(code),
			    "cannot start a thread: %s", g_strerror(code));
	else
		pthread_setname_np(self->thread, "handshakes");
	return self->runs;
}

Handshakes *handshakes_new(const HandshakesConfig *config, Counters *counters, GError **error)
{
	g_autoptr(Handshakes) self = g_new0(Handshakes, 1);

	self->config = *config;
	self->counters = counters;
	self->poller = -1;
	self->inbox = inbox_new(error);
	return self->inbox != NULL && start(self, error) ? g_steal_pointer(&self) : NULL;
}

void handshakes_add(Handshakes *self, const InboxConnection *newcomer)
{
	inbox_add_connection(self->inbox, newcomer);
}

static void end_all(GQueue *queue)
{
	while (queue->length > 0)
		end(head_of(queue));
}

void handshakes_free(Handshakes *self)
{
	if (self == NULL)
		return;
	if (self->runs) {
		inbox_drain(self->inbox, 0);
		pthread_join(self->thread, NULL);
	}
	end_all(&self->waiting);
	end_all(&self->under_way);
	end_all(&self->lingering);
	poller_free(self->poller);
	inbox_free(self->inbox);
	g_free(self);
}
