/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/poller.h"

#include <errno.h>
#include <gio/gio.h>
#include <sys/timerfd.h>

static gboolean set_epoll_error(GError **error)
{
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno), "cannot set up an epoll: %s",
		    g_strerror(errno));
	return FALSE;
}

int poller_new(GError **error)
{
	int self = epoll_create1(EPOLL_CLOEXEC);

	if (self < 0)
		set_epoll_error(error);
	return self;
}

void poller_free(int self)
{
	if (self >= 0)
		close(self);
}

gboolean poller_add(int self, int fd, void *tag, GError **error)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(self, EPOLL_CTL_ADD, fd, &event) == 0 || set_epoll_error(error);
}

void poller_change(int self, int fd, void *tag, guint32 events)
{
	struct epoll_event event = {.events = events, .data.ptr = tag};

	if (epoll_ctl(self, EPOLL_CTL_MOD, fd, &event) != 0)
		g_error("epoll_ctl: %s", g_strerror(errno)); /* lint: allow fatal: our bug */
}

/* The timer */

#define US_PER_SECOND G_GINT64_CONSTANT(1000000)

gboolean retry_timer_init(RetryTimer *self, GError **error)
{
	*self = (RetryTimer){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
	if (self->fd >= 0)
		return TRUE;
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno), "cannot make a timer: %s",
		    g_strerror(errno));
	return FALSE;
}

void retry_timer_clear(RetryTimer *self)
{
	if (self->fd >= 0)
		close(self->fd);
}

void retry_timer_set(RetryTimer *self, gint64 at_us)
{
	struct itimerspec timer = {
		.it_value = {.tv_sec = at_us / US_PER_SECOND,
			     .tv_nsec = at_us % US_PER_SECOND * 1000},
	};

	if (at_us == self->at_us)
		return;
	self->at_us = at_us;
	if (timerfd_settime(self->fd, TFD_TIMER_ABSTIME, &timer, NULL) != 0)
		g_error("timerfd_settime: %s", g_strerror(errno)); /* lint: allow fatal: our bug */
}

void retry_timer_silence(RetryTimer *self)
{
	guint64 expirations;

	if (read(self->fd, &expirations, sizeof expirations) == sizeof expirations)
		self->at_us = 0;
}
