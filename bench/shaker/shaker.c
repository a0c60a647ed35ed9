/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/shaker/shaker.h"

#include <errno.h>
#include <gio/gio.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_EVENTS 64
#define SILENCE_MS 10000

typedef struct {
	int fd;
	TlsStream *tls;
	gboolean said_all; /* the handshake is complete, and this side is closed */
	guint32 events;
} Visit;

typedef struct {
	const ShakerConfig *config;
	int epoll_fd;
	Visit *visits;
	gint64 done;
} Shaker;

static gboolean fail(const char *what, const TlsStream *tls, int number, GError **error)
{
	g_autofree char *why = tls_client_describe(tls, number);

	g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(number), "%s: %s", what, why);
	return FALSE;
}

static gboolean watch(Shaker *self, Visit *visit, guint32 events, GError **error)
{
	struct epoll_event event = {.events = events, .data.ptr = visit};
	int operation = visit->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

	if (visit->events == events)
		return TRUE;
	visit->events = events;
	return epoll_ctl(self->epoll_fd, operation, visit->fd, &event) == 0 ||
	       fail("cannot watch a socket", NULL, errno, error);
}

/* Resets the connection, so that its port is free at once. */
static void leave(Visit *visit)
{
	const struct linger at_once = {.l_onoff = 1};

	if (visit->fd < 0)
		return;
	tls_stream_free(visit->tls);
	setsockopt(visit->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	close(visit->fd);
	*visit = (Visit){.fd = -1};
}

static gboolean enter(Shaker *self, Visit *visit, GError **error)
{
	const ShakerConfig *config = self->config;
	const int on = 1;

	*visit = (Visit){.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
	if (visit->fd < 0)
		return fail("no socket", NULL, errno, error);
	setsockopt(visit->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (connect(visit->fd, (const struct sockaddr *)&config->place, sizeof config->place) !=
		    0 &&
	    errno != EINPROGRESS)
		return fail("cannot connect", NULL, errno, error);
	visit->tls = tls_client_connect(config->tls, visit->fd, config->host);
	if (visit->tls == NULL)
		return fail("no TLS", NULL, errno, error);
	return watch(self, visit, EPOLLOUT, error);
}

static gboolean shake(Visit *visit)
{
	if (tls_stream_shake_hands(visit->tls) != 0)
		return FALSE;
	tls_stream_close(visit->tls);
	visit->said_all = TRUE;
	return TRUE;
}

/* Continues a visit. Returns -1 with errno set, 0 if the visit is complete, or 1 if it
 * continues. */
static gssize go_on(Visit *visit)
{
	char byte;

	if (!visit->said_all && !shake(visit))
		return -1;
	return tls_stream_receive(visit->tls, &byte, sizeof byte);
}

static gboolean advance(Shaker *self, Visit *visit, GError **error)
{
	gssize left = go_on(visit);

	if (left < 0 && errno == EAGAIN)
		return watch(self, visit, visit->said_all ? EPOLLIN : (guint32)visit->tls->events,
			     error);
	if (left < 0)
		return fail(visit->said_all ? "after the handshake" : "in the handshake",
			    visit->tls, errno, error);
	if (left > 0)
		return fail("the server speaks first", NULL, EBADMSG, error);
	self->done++;
	leave(visit);
	return enter(self, visit, error);
}

static gboolean enter_all(Shaker *self, GError **error)
{
	for (guint i = 0; i < self->config->connections; i++) {
		if (!enter(self, &self->visits[i], error))
			return FALSE;
	}
	return TRUE;
}

static gboolean go_round(Shaker *self, GError **error)
{
	struct epoll_event events[MAX_EVENTS];
	int n = epoll_wait(self->epoll_fd, events, MAX_EVENTS, SILENCE_MS);

	if (n < 0 && errno != EINTR)
		return fail("epoll", NULL, errno, error);
	if (n == 0)
		return fail("nothing comes from the server", NULL, ETIMEDOUT, error);
	for (int i = 0; i < n; i++) {
		if (!advance(self, events[i].data.ptr, error))
			return FALSE;
	}
	return TRUE;
}

gint64 shaker_run(const ShakerConfig *config, GError **error)
{
	Shaker self = {.config = config, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
	gboolean good = self.epoll_fd >= 0 || fail("epoll", NULL, errno, error);

	self.visits = g_new(Visit, config->connections);
	for (guint i = 0; i < config->connections; i++)
		self.visits[i] = (Visit){.fd = -1};
	good = good && enter_all(&self, error);
	while (good && g_get_monotonic_time() < config->until_us)
		good = go_round(&self, error);
	for (guint i = 0; i < config->connections; i++)
		leave(&self.visits[i]);
	g_free(self.visits);
	if (self.epoll_fd >= 0)
		close(self.epoll_fd);
	return good ? self.done : -1;
}
