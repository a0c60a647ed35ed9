/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/tls/stream.h"
#include "rpc/connection-limits.h"

/* An epoll instance, the system calls of a pass, and an inbox for messages from other threads. */

/* Returns the descriptor of an epoll instance, or -1 with a GIOError set. */
int poller_new(GError **error);

/* Watches @fd until it is closed, initially for EPOLLIN. Its events carry @tag. Returns %FALSE with
 * a GIOError set on failure. */
gboolean poller_add(int self, int fd, void *tag, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Changes the events to watch for. @tag: as in poller_add() */
void poller_change(int self, int fd, void *tag, guint32 events);

/* The three system calls of each pass, which set errno. The C library's wrappers are cancellation
 * points, which cost 45 instructions each in a process with threads. These are not, because no
 * thread is cancelled here. */

static inline gssize poller_recv(int fd, void *bytes, gsize length, int flags)
{
	return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}

static inline gssize poller_send(int fd, const void *bytes, gsize length, int flags)
{
	return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

static inline int poller_wait(int self, struct epoll_event *events, int most, int timeout_ms)
{
	return (int)syscall(SYS_epoll_pwait, self, events, most, timeout_ms, NULL, 0);
}

/* Messages from other threads to a loop or to the handshake thread. They wake the receiving thread.
 */
typedef struct _Inbox Inbox;

typedef struct {
	int fd;
	TlsStream *tls;         /* NULL for no TLS */
	ConnectionEntry *entry; /* NULL if not counted by connection-limits.c */
} InboxConnection;

/* Closes the socket, after removing it from its connection limits. */
void inbox_connection_close(InboxConnection *self);

typedef struct {
	gboolean wake; /* parked calls may be answerable */
	gboolean drain;
	gint64 drain_timeout_ms;
} InboxOrders;

typedef struct {
	GArray *connections; /* (element-type InboxConnection) */
	InboxOrders orders;
} InboxMail;

void inbox_mail_clear(InboxMail *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(InboxMail, inbox_mail_clear)

/* @poller: reports an event with the inbox as its tag while there is mail. Returns: (transfer
 * full): an inbox, or %NULL with a GIOError set. */
Inbox *inbox_new(int poller, GError **error);

/* Frees the inbox. Closes the sockets that are still in it, and removes them from their connection
 * limits. */
void inbox_free(Inbox *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Inbox, inbox_free)

/* Thread-safe. Adds to the mail, and wakes the receiving thread. @connection: (nullable): taken
 * over */
void inbox_post(Inbox *self, const InboxConnection *connection, InboxOrders orders);

/* Takes all mail. Must be called by the receiving thread. @out_mail: (out): free it with
 * inbox_mail_clear() */
void inbox_take(Inbox *self, InboxMail *out_mail);
