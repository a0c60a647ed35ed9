/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/dispatcher.h"
#include "rpc/framing.h"

/*
 * What one connection says, without its socket: bytes in, replies out. Call by
 * call, for as long as there are calls, and time and room to answer them.
 */

/* What the connections of one loop share. */
typedef struct {
	Dispatcher *dispatcher;
	FramingShared framing;
	/* How long a connection may answer calls before it is the turn of others, from its first
	 * answer on; and the monotonic clock for it, which is not asked where one answer is all. */
	gint64 turn_us;
	gint64 (*now_us)(void);
} StreamShared;

/* What one pass has in hand. */
typedef struct {
	Framing *framing;    /* of the connection */
	const guint8 *bytes; /* what the client sent and was not consumed yet */
	gsize length;
	gsize room;      /* no further call is answered after as many bytes of replies */
	GByteArray *out; /* replies are appended */
	/* what came of it, 0 before */
	gsize consumed;     /* bytes done with; the rest comes again, with more after it */
	const char *reason; /* after STREAM_CLOSE: why, in a few words */
	/* private */
	gint64 ends_us; /* of the turn; 0: nobody has looked at the clock yet */
	guint quick;    /* answers since then that came by the short cut */
} StreamPass;

typedef enum {
	STREAM_MORE, /* every complete message is answered */
	STREAM_FULL, /* enough for one turn, of replies or of time; complete messages may be left */
	STREAM_PARKED, /* the next message waits, RpcVerdict says for what */
	STREAM_CLOSE,  /* send what is in @out, then close: the bytes made no sense */
} StreamStatus;

/* After dispatcher_begin(). */
StreamStatus stream_consume(StreamShared *shared, StreamPass *pass);
