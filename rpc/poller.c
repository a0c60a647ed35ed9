/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/poller.h"

#include <errno.h>
#include <gio/gio.h>
#include <sys/epoll.h>
#include <unistd.h>

static gboolean fail(GError **error)
{
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno), "cannot set up an epoll: %s",
		    g_strerror(errno));
	return FALSE;
}

int poller_new(GError **error)
{
	int self = epoll_create1(EPOLL_CLOEXEC);

	if (self < 0)
		fail(error);
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

	return epoll_ctl(self, EPOLL_CTL_ADD, fd, &event) == 0 || fail(error);
}

void poller_change(int self, int fd, void *tag, guint32 events)
{
	struct epoll_event event = {.events = events, .data.ptr = tag};

	if (epoll_ctl(self, EPOLL_CTL_MOD, fd, &event) != 0)
		g_error("epoll_ctl: %s", g_strerror(errno)); /* lint: allow fatal: our bug */
}
