/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "rpc/rpc-service.h"

/* Handles the bytes of one connection, but not its socket: finds messages, and answers them one by
 * one while there is time and room.
 *
 * The first bytes show which of six wire forms the client uses. Let b0 be the first byte, L the
 * first four bytes as a number, and b4 the fifth byte:
 *
 *   b0 = 80: unframed strict binary    b0 = 82: unframed compact    b0 not 00: close
 *   L = 0 or above the limit: close
 *   b4 = 80: framed strict   82: framed compact   00: framed unversioned binary
 *   b4 a letter or _: unframed unversioned (L is the length of the method's name), unless a frame
 *                     of another protocol begins with the same bytes       else: close
 *
 * The first message determines the framing for the whole connection, but each message can use a
 * different protocol. The connection is closed at the first byte that cannot be Thrift. If the
 * client speaks another known protocol, the reason names it, so that the log distinguishes a wrong
 * port from an attack. HTTP requests get an HTTP reply. */
typedef enum { FRAMING_UNKNOWN, FRAMING_FRAMED, FRAMING_UNFRAMED } Framing;

typedef struct {
	Framing framing;
	Scanner *scanner;   /* scanner of an incomplete unframed message; NULL if none */
	ParkedCall *parked; /* the first call, decoded, if it is waiting; otherwise NULL */
} Stream;

/* The data that the connections of one loop share. */
typedef struct {
	const RpcService *service;
	gpointer handler;
	gsize max_message_bytes;
	guint max_depth;
	Scanner *spare; /* unused scanner for the next message, freed by the loop; NULL if none */
	/* Monotonic clock for measuring turns. A pass with only one answer does not read it. */
	gint64 (*now_us)(void);
} StreamShared;

/* The size of the length field of a frame. */
#define STREAM_FRAME_HEADER_BYTES 4

typedef enum {
	STREAM_MORE,   /* every complete message has been answered */
	STREAM_FULL,   /* the turn's time or room is used up; complete messages may be left */
	STREAM_PARKED, /* the next call waits for RpcPass.wait */
	/* send the replies, and then close the connection; RpcPass.bad is the reason */
	STREAM_CLOSE,
} StreamStatus;

/* Answers the calls in the bytes of @pass, and sets the framing members of @pass. */
StreamStatus stream_answer(Stream *self, StreamShared *shared, RpcPass *pass);

/* Frees the state of an incomplete message and of a waiting call. */
void stream_clear(Stream *self);

/* Returns the counter for connections that were closed for @reason, an RpcPass.bad. */
Counter stream_bad_counter(const char *reason);

/* Sets the framing if there are enough bytes.
 * @bytes: the first bytes of the connection
 * @out: receives the reply to a client of another protocol, if there is one. Returns: %FALSE with
 * @out_bad set if the bytes are not Thrift */
gboolean stream_detect_framing(Stream *self, const StreamShared *shared, const guint8 *bytes,
			       gsize length, GByteArray *out, const char **out_bad);

typedef enum {
	STREAM_NEXT_MORE, /* no message is complete */
	STREAM_NEXT_CALL,
	/* the message is invalid: Message.bad is the reason; the other members are undefined */
	STREAM_NEXT_BAD,
} StreamNext;

/* Finds the call at @bytes. After MORE, pass the same bytes again, followed by more bytes. */
StreamNext stream_next(Stream *self, StreamShared *shared, const guint8 *bytes, gsize length,
		       Message *out_message);
