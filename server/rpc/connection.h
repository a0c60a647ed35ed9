/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "server/rpc/stream.h"

/*
 * One client's socket. It reads what is there, has every complete call in it
 * answered, and writes the replies at once. Between two calls it holds no
 * buffers: those that a pass needs belong to the loop.
 *
 * Its loop's thread only.
 */
typedef enum {
	CONNECTION_READING, /* waits for the client */
	CONNECTION_WRITING, /* replies wait for the client to take them */
	CONNECTION_PARKED,  /* a call waits: RpcTurn says for what */
	CONNECTION_ENDED,   /* nothing more to come: free it */
} ConnectionState;

/* What the connections of one loop share. */
typedef struct {
	StreamShared stream;
	guint8 *in; /* what was read just now */
	gsize in_bytes;
	GByteArray *out;         /* replies of the pass in hand */
	gsize max_pending_bytes; /* of replies that a client does not take: then it is not read from
				  */
} ConnectionShared;

/* Which of the loop's queues it stands in; each has one time limit. */
typedef enum {
	QUEUE_NONE,
	QUEUE_IDLE,   /* between two messages */
	QUEUE_FRAME,  /* a message has begun */
	QUEUE_WRITE,  /* replies wait for the client */
	QUEUE_PARKED, /* a call waits for IDs */
	QUEUE_ASIDE,  /* a call waits for something else */
	N_QUEUES
} ConnectionQueue;

typedef struct {
	int fd;
	Stream stream;
	GByteArray *in;  /* bytes that are not consumed yet; NULL: none */
	GByteArray *out; /* replies that are not sent yet; NULL: none */
	guint out_sent;  /* of @out */
	gboolean more;   /* the last read filled the buffer */
	gboolean full;   /* complete calls may be left in @in: it is not read on before they are
			    answered */
	gboolean eof;    /* the client sends no more */
	gboolean ending; /* close when the replies are sent */
	/* in the last pass: */
	gboolean sent;     /* the client took bytes of replies */
	gboolean consumed; /* a message was finished, or what is left of one begins */
	const char *bad;   /* what was wrong with its bytes; NULL: nothing */
	/* the loop's */
	GList all_link;
	GList queue_link;
	ConnectionQueue queue;
	guint32 events;     /* what epoll watches for */
	gint64 deadline_us; /* in its queue, monotonic */
	gint64 retry_us; /* parked: when the clock may allow it; G_MAXINT64: not by the clock alone
			  */
} Connection;

/* Takes @fd, a connected non-blocking socket. */
Connection *connection_new(int fd);

/* Closes the socket. */
void connection_free(Connection *self);

/* Sends what waits to be sent, and no more. %FALSE: the connection is broken. */
gboolean connection_send(Connection *self) G_GNUC_WARN_UNUSED_RESULT;

/* Whether there is room for what the client may say next. */
gboolean connection_may_read(const Connection *self, const ConnectionShared *shared);

/**
 * connection_run:
 * @read: whether to read from the socket first
 *
 * Sends what waits to be sent, answers what can be answered.
 */
ConnectionState connection_run(Connection *self, ConnectionShared *shared, gboolean read);

/* The bytes of replies that wait. */
gsize connection_pending_bytes(const Connection *self);
