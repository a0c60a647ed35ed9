/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/scanner.h"

/*
 * Where the messages of a connection begin and end: which of the six wire forms
 * the client speaks, frames and how long they may be, messages that are not
 * there to their end. Those that are, it has scanned.
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
typedef enum { FRAMING_UNKNOWN, FRAMING_FRAMED, FRAMING_UNFRAMED } FramingKind;

typedef struct {
	FramingKind kind;
	Scanner *scanner; /* of an unframed message that has begun; NULL: none */
} Framing;

/* What those of one loop share. */
typedef struct {
	gsize max_message_bytes;
	guint max_depth;
	Scanner *spare; /* for the next message, to be freed by the loop; NULL: to be made */
} FramingShared;

/* The length in front of a frame. */
#define FRAMING_HEADER_BYTES 4

/* A call that is there to its end. */
typedef struct {
	const guint8 *bytes; /* without its frame */
	MessageHeader header;
	gboolean framed;
	gsize taken;     /* of the connection's bytes, with its frame; 0: only a frame would tell */
	const char *bad; /* what is wrong with its arguments; NULL: nothing */
} Message;

typedef enum {
	FRAMING_MORE, /* no call is there to its end */
	FRAMING_CALL,
	FRAMING_BAD, /* Message.bad says why the bytes make no sense; nothing else is valid */
} FramingStatus;

/**
 * framing_detect:
 * @bytes: the first of the connection
 * @out: a client that speaks something else is told so, if that can be done
 *
 * Finds out what kind it is, if there are bytes enough.
 *
 * Returns: %FALSE with @out_reason set if the bytes make no sense
 */
gboolean framing_detect(Framing *self, const FramingShared *shared, const guint8 *bytes,
			gsize length, GByteArray *out, const char **out_reason);

/* The call at @bytes, once the kind is known. After FRAMING_MORE the same bytes are to be handed in
 * again, with more after them. */
FramingStatus framing_next(Framing *self, FramingShared *shared, const guint8 *bytes, gsize length,
			   Message *out_message);

/* Frees what it holds of a message that has begun. */
void framing_clear(Framing *self);
