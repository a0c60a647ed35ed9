/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/rpc-service.h"

/*
 * The bytes of one connection, without its socket: where its messages begin and end, and their
 * answers, call by call, while there is time and room for them.
 *
 * The first bytes tell which of six wire forms the client speaks. Let b0 be the first byte, L the
 * first four as a number, b4 the fifth:
 *
 *   b0 = 80: unframed strict binary    b0 = 82: unframed compact    b0 not 00: close
 *   L = 0 or above the limit: close
 *   b4 = 80: framed strict   82: framed compact   00: framed unversioned binary
 *   b4 a letter or _: unframed unversioned (L is the length of the method's name), unless another
 *                     protocol's frame begins so       else: close
 *
 * The first message fixes the framing; each message has its own protocol. The connection is closed
 * at the first byte that cannot be Thrift. If the client speaks another protocol that is known, the
 * reason names it, so that the log tells a wrong port from an attack; HTTP gets an answer in HTTP.
 */
typedef enum { FRAMING_UNKNOWN, FRAMING_FRAMED, FRAMING_UNFRAMED } Framing;

typedef struct {
	Framing framing;
	Scanner *scanner;   /* of an unframed message that has begun; NULL: none */
	ParkedCall *parked; /* decoded form of the first call, which waits; NULL: none waits */
} Stream;

/* What the connections of one loop share. */
typedef struct {
	const RpcService *service;
	gpointer handler;
	gsize max_message_bytes;
	guint max_depth;
	Scanner *spare; /* for the next message, freed by the loop; NULL: none was needed yet */
	/* Monotonic clock for turns. It is not read if a pass has one answer only. */
	gint64 (*now_us)(void);
} StreamShared;

/* The length before a frame. */
#define STREAM_FRAME_HEADER_BYTES 4

typedef enum {
	STREAM_MORE,   /* every complete message is answered */
	STREAM_FULL,   /* the turn's time or room is over; complete messages can be left */
	STREAM_PARKED, /* the next call waits, RpcPass.wait tells for what */
	STREAM_CLOSE,  /* send the replies, then close; RpcPass.bad tells why */
} StreamStatus;

/* Answers the calls in the bytes of @pass, whose framing fields it sets. */
StreamStatus stream_answer(Stream *self, StreamShared *shared, RpcPass *pass);

/* Frees the state of a message that has begun and of a call that waits. */
void stream_clear(Stream *self);

/* The counter of connections that were closed for @reason, an RpcPass.bad. */
Counter stream_bad_counter(const char *reason);

/* Sets the framing if there are enough bytes.
 * @bytes: the first of the connection
 * @out: a client of another protocol can get an answer
 * Returns: %FALSE with @out_bad set if the bytes are not Thrift */
gboolean stream_detect_framing(Stream *self, const StreamShared *shared, const guint8 *bytes,
			       gsize length, GByteArray *out, const char **out_bad);

typedef enum {
	STREAM_NEXT_MORE, /* no message is complete */
	STREAM_NEXT_CALL,
	STREAM_NEXT_BAD, /* Message.bad tells why; the other fields are undefined */
} StreamNext;

/* Finds the call at @bytes. After MORE the same bytes must be passed again, with more after them.
 */
StreamNext stream_next(Stream *self, StreamShared *shared, const guint8 *bytes, gsize length,
		       Message *out_message);
