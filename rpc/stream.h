/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/scanner.h"
#include "rpc/dispatcher.h"

/*
 * What one connection says, without its socket: bytes in, replies out. It finds
 * out which of the six wire forms the client speaks, cuts the bytes into
 * messages, and has each answered.
 *
 * Let b0 be the first byte, L the first four as a number, b4 the fifth:
 *
 *   b0 = 80: unframed strict binary    b0 = 82: unframed compact    b0 not 00: close
 *   L = 0 or above the limit: close
 *   b4 = 80: framed strict   82: framed compact   00: framed unversioned binary
 *   b4 a letter or _: unframed unversioned (L is the length of the method's name), unless another
 *                     protocol's frame begins so (foreign.h)   else: close
 *
 * The framing is fixed by the first message; the protocol is each message's own. What is no Thrift
 * is closed as soon as it shows, and named if it can be (foreign.h); HTTP is told so in HTTP.
 */
typedef enum { FRAMING_UNKNOWN, FRAMING_FRAMED, FRAMING_UNFRAMED } Framing;

typedef struct {
	Framing framing;
	Scanner *scanner; /* of an unframed message that has begun; NULL: none */
	gsize room;       /* by the caller: answer no further call once there are as many bytes of
			     replies */
} Stream;

/* What the streams of one loop share. */
typedef struct {
	Dispatcher *dispatcher;
	gsize max_message_bytes;
	guint max_depth;
	/* How long a connection may answer calls before it is the turn of others, from its first
	 * answer on; and the monotonic clock for it, which is not asked where one answer is all. */
	gint64 turn_us;
	gint64 (*now_us)(void);
	Scanner *spare; /* for the next message; NULL: to be made */
} StreamShared;

typedef enum {
	STREAM_MORE, /* every complete message is answered */
	STREAM_FULL, /* enough for one turn, of replies or of time; complete messages may be left */
	STREAM_PARKED, /* the next message waits, RpcVerdict says for what */
	STREAM_CLOSE,  /* send what is in @out, then close: the bytes made no sense */
} StreamStatus;

/**
 * stream_consume: after dispatcher_begin()
 * @bytes: what the client sent and was not consumed yet
 * @out_consumed: (out): how many bytes are done with; the rest is to be handed in again, with more
 *   behind it
 * @out: replies are appended
 * @out_reason: (out): after STREAM_CLOSE: why, in a few words
 */
StreamStatus stream_consume(Stream *self, StreamShared *shared, const guint8 *bytes, gsize length,
			    gsize *out_consumed, GByteArray *out, const char **out_reason);

/* Frees what it holds of a message that has begun. */
void stream_clear(Stream *self);

void stream_shared_clear(StreamShared *self);
