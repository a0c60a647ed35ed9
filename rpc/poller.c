/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/poller.h"

#include <errno.h>
#include <gio/gio.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "core/text.h"

#define set_errno_error(error, what)                                                               \
	text_set_error((error), G_IO_ERROR, g_io_error_from_errno(errno), "cannot create %s: %s",  \
		       (what), g_strerror(errno))
#define EPOLL "an epoll instance"

int poller_new(GError **error)
{
	int self = epoll_create1(EPOLL_CLOEXEC);

	if (self < 0)
		set_errno_error(error, EPOLL);
	return self;
}

gboolean poller_add(int self, int fd, void *tag, GError **error)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = tag};

	return epoll_ctl(self, EPOLL_CTL_ADD, fd, &event) == 0 || set_errno_error(error, EPOLL);
}

void poller_change(int self, int fd, void *tag, guint32 events)
{
	struct epoll_event event = {.events = events, .data.ptr = tag};

	if (epoll_ctl(self, EPOLL_CTL_MOD, fd, &event) != 0)
		g_error("epoll_ctl: %s", g_strerror(errno)); /* lint: allow fatal: our bug */
}

/* The inbox */

struct _Inbox {
	int fd;
	pthread_mutex_t lock;
	InboxMail mail; /* protected by the lock */
};

void inbox_connection_close(InboxConnection *self)
{
	tls_stream_free(self->tls);
	connection_limits_remove(self->entry);
	close(self->fd);
}

void inbox_mail_clear(InboxMail *self)
{
	g_clear_pointer(&self->connections, g_array_unref);
}

Inbox *inbox_new(int poller, GError **error)
{
	g_autoptr(Inbox) self = NULL;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0) {
		set_errno_error(error, "an eventfd");
		return NULL;
	}
	self = g_new0(Inbox, 1);
	self->fd = fd;
	pthread_mutex_init(&self->lock, NULL);
	self->mail.connections = g_array_new(FALSE, FALSE, sizeof(InboxConnection));
	return poller_add(poller, fd, self, error) ? g_steal_pointer(&self) : NULL;
}

void inbox_free(Inbox *self)
{
	if (self == NULL)
		return;
	for (guint i = 0; i < self->mail.connections->len; i++)
		inbox_connection_close(&g_array_index(self->mail.connections, InboxConnection, i));
	inbox_mail_clear(&self->mail);
	pthread_mutex_destroy(&self->lock);
	close(self->fd);
	g_free(self);
}

void inbox_post(Inbox *self, const InboxConnection *connection, InboxOrders orders)
{
	guint64 one = 1;

	pthread_mutex_lock(&self->lock);
	if (connection != NULL)
		g_array_append_vals(self->mail.connections, connection, 1);
	self->mail.orders.wake |= orders.wake;
	if (orders.drain) {
		self->mail.orders.drain = TRUE;
		self->mail.orders.drain_timeout_ms = orders.drain_timeout_ms;
	}
	pthread_mutex_unlock(&self->lock);
	if (write(self->fd, &one, sizeof one) < 0 && errno != EAGAIN)
		g_critical("cannot wake a loop: %s", g_strerror(errno));
}

void inbox_take(Inbox *self, InboxMail *out_mail)
{
	InboxMail empty = {
		.connections = g_array_new(FALSE, FALSE, sizeof(InboxConnection)),
	};
	guint64 count;

	/* read the descriptor first, so that later mail makes it readable again */
	if (read(self->fd, &count, sizeof count) < 0 && errno != EAGAIN)
		g_critical("cannot read a loop's eventfd: %s", g_strerror(errno));
	pthread_mutex_lock(&self->lock);
	*out_mail = self->mail;
	self->mail = empty;
	pthread_mutex_unlock(&self->lock);
}
