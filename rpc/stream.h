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
	gsize room; /* of the pass: no further call is answered after as many bytes of replies */
} StreamShared;

typedef enum {
	STREAM_MORE, /* every complete message is answered */
	STREAM_FULL, /* enough for one turn, of replies or of time; complete messages may be left */
	STREAM_PARKED, /* the next message waits, RpcVerdict says for what */
	STREAM_CLOSE,  /* send what is in @out, then close: the bytes made no sense */
} StreamStatus;

/**
 * stream_consume: after dispatcher_begin()
 * @framing: of the connection
 * @bytes: what the client sent and was not consumed yet
 * @out_consumed: (out): how many bytes are done with; the rest is to be handed in again, with more
 *   after it
 * @out: replies are appended
 * @out_reason: (out): after STREAM_CLOSE: why, in a few words
 */
StreamStatus stream_consume(Framing *framing, StreamShared *shared, const guint8 *bytes,
			    gsize length, gsize *out_consumed, GByteArray *out,
			    const char **out_reason);
