/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/stream.h"
#include "rpc/connection-table.h"

/* Messages from other threads to a loop or to the thread of the handshakes. They wake it. */
typedef struct _Inbox Inbox;

typedef struct {
	int fd;
	TlsStream *tls;         /* NULL: plain */
	ConnectionEntry *entry; /* NULL: not in the connection table */
} InboxConnection;

/* Closes the socket, after removing it from the connection table. */
void inbox_connection_close(InboxConnection *self);

typedef struct {
	GArray *connections; /* of InboxConnection */
	gboolean wake;       /* parked calls can be answered */
	gboolean drain;
	gint64 drain_timeout_ms;
} InboxMail;

void inbox_mail_clear(InboxMail *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(InboxMail, inbox_mail_clear)

/* (transfer full), or %NULL with a GIOError set. */
Inbox *inbox_new(GError **error);

/* Closes the sockets that were not taken, and removes them from the connection table. */
void inbox_free(Inbox *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Inbox, inbox_free)

/* Any thread: takes the connection. */
void inbox_add_connection(Inbox *self, const InboxConnection *connection);
void inbox_wake(Inbox *self);
void inbox_drain(Inbox *self, gint64 timeout_ms);

/* An eventfd, readable while there is mail. */
int inbox_fd(const Inbox *self);

/* The receiving thread. @out_mail: (out): inbox_mail_clear() frees it */
void inbox_take(Inbox *self, InboxMail *out_mail);
