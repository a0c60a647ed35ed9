/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/stream.h"

#include <string.h>

/* Number of usual calls to answer before the clock is read again. */
#define QUICK_ANSWERS 8

/* Protocols other than Thrift */

typedef struct {
	Counter counter;
	const char *reason; /* name in the log */
	const char *reply;  /* reply sent before the connection is closed; NULL if none */
} OtherProtocol;

typedef enum {
	OTHER_UNKNOWN, /* not a known protocol */
	OTHER_MAYBE,   /* cannot be decided until more bytes arrive */
	OTHER_YES,
} OtherMatch;

/* The maximum number of bytes after a frame's length that find_other_protocol() needs. */
#define OTHER_FRAMED_BYTES 8

#define BODY   "this port accepts Apache Thrift, framed or unframed, binary or compact; no HTTP\n"
#define LENGTH "80"

G_STATIC_ASSERT(sizeof BODY - 1 == 80);

static const OtherProtocol HTTP = {
	COUNTER_BAD_HTTP,
	"HTTP, not Thrift",
	"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: " LENGTH
	"\r\nConnection: close\r\n\r\n" BODY,
};
static const OtherProtocol TLS = {COUNTER_BAD_TLS, "TLS on a port without TLS", NULL};

#define UNSUPPORTED ", which this port does not support"
static const OtherProtocol PROXY = {COUNTER_BAD_PROXY, "a PROXY header" UNSUPPORTED, NULL};
static const OtherProtocol THEADER = {COUNTER_BAD_THEADER, "THeader" UNSUPPORTED, NULL};
static const OtherProtocol JSON = {COUNTER_BAD_JSON, "JSON" UNSUPPORTED, NULL};
static const OtherProtocol ZLIB = {COUNTER_BAD_ZLIB, "zlib" UNSUPPORTED, NULL};

#define BYTES(text) text, sizeof(text) - 1

typedef struct {
	const char *bytes;
	gsize length;
	const OtherProtocol *protocol;
	gboolean alone;     /* can begin a connection ... */
	gboolean in_frames; /* ... or which follow the length of a frame */
} Signature;

/* TLS: a handshake record of any version 3 (RFC 8446, 5.1). PROXY: versions 1 and 2 (haproxy's
 * proxy-protocol.txt, 2). THeader: its magic number (Thrift's HeaderFormat.md). JSON: TJSONProtocol
 * begins a message with [. zlib: a window of 32 KiB at the four levels (RFC 1950, 2.2). */
static const Signature SIGNATURES[] = {
	{BYTES("GET "), &HTTP, TRUE, TRUE},
	{BYTES("HEAD "), &HTTP, TRUE, TRUE},
	{BYTES("POST "), &HTTP, TRUE, TRUE},
	{BYTES("PUT "), &HTTP, TRUE, TRUE},
	{BYTES("DELETE "), &HTTP, TRUE, TRUE},
	{BYTES("CONNECT "), &HTTP, TRUE, TRUE},
	{BYTES("OPTIONS "), &HTTP, TRUE, TRUE},
	{BYTES("TRACE "), &HTTP, TRUE, TRUE},
	{BYTES("PATCH "), &HTTP, TRUE, TRUE},
	{BYTES("PRI "), &HTTP, TRUE, TRUE},
	{BYTES("\x16\3"), &TLS, TRUE, TRUE},
	{BYTES("PROXY "), &PROXY, TRUE, FALSE},
	{BYTES("\r\n\r\n\0\r\nQUIT\n"), &PROXY, TRUE, FALSE},
	{BYTES("\x0f\xff"), &THEADER, FALSE, TRUE},
	{BYTES("["), &JSON, TRUE, TRUE},
	{BYTES("{"), &JSON, TRUE, TRUE},
	{BYTES("x\x01"), &ZLIB, TRUE, TRUE},
	{BYTES("x\x5e"), &ZLIB, TRUE, TRUE},
	{BYTES("x\x9c"), &ZLIB, TRUE, TRUE},
	{BYTES("x\xda"), &ZLIB, TRUE, TRUE},
};

/* Returns whether the bytes are another protocol. @framed: a frame's length precedes the bytes.
 * @out_protocol: (out): set if YES */
static OtherMatch find_other_protocol(const guint8 *bytes, gsize length, gboolean framed,
				      const OtherProtocol **out_protocol)
{
	OtherMatch match = OTHER_UNKNOWN;

	for (gsize i = 0; i < G_N_ELEMENTS(SIGNATURES); i++) {
		const Signature *signature = &SIGNATURES[i];

		if (!(framed ? signature->in_frames : signature->alone) ||
		    memcmp(bytes, signature->bytes, MIN(length, signature->length)) != 0)
			continue;
		if (length >= signature->length) {
			*out_protocol = signature->protocol;
			return OTHER_YES;
		}
		match = OTHER_MAYBE;
	}
	return match;
}

Counter stream_bad_counter(const char *reason)
{
	for (gsize i = 0; i < G_N_ELEMENTS(SIGNATURES); i++)
		if (SIGNATURES[i].protocol->reason == reason)
			return SIGNATURES[i].protocol->counter;
	return COUNTER_BAD_THRIFT;
}

/* Boundaries of messages */

/* Reads the length of a frame. Returns %FALSE if the length is invalid. */
static gboolean read_length(const StreamShared *shared, const guint8 *bytes, guint32 *out_length,
			    const char **out_bad)
{
	guint32 length;

	memcpy(&length, bytes, sizeof length);
	*out_length = GUINT32_FROM_BE(length);
	if (*out_length > 0 && *out_length <= shared->max_message_bytes)
		return TRUE;
	*out_bad = "frame length out of range";
	return FALSE;
}

/* Rejects bytes at @at that are not Thrift. Returns %TRUE if there are too few bytes to recognise
 * the protocol. */
static gboolean reject_other_protocol(const guint8 *bytes, gsize length, gsize at, GByteArray *out,
				      const char **out_bad)
{
	const OtherProtocol *protocol = NULL;
	OtherMatch match = find_other_protocol(bytes + at, length - at, at > 0, &protocol);

	if (match == OTHER_MAYBE)
		return TRUE;
	*out_bad = match == OTHER_YES ? protocol->reason : "unknown protocol";
	if (match == OTHER_YES && at == 0 && protocol->reply != NULL)
		g_byte_array_append(out, (const guint8 *)protocol->reply,
				    (guint)strlen(protocol->reply));
	return FALSE;
}

/* Returns whether a message that begins with this byte has a version. Other messages begin with the
 * length of a name. */
static gboolean begins_versioned(guint8 byte)
{
	return byte == STRICT_VERSION >> 24 || byte == COMPACT_PROTOCOL;
}

gboolean stream_detect_framing(Stream *self, const StreamShared *shared, const guint8 *bytes,
			       gsize length, GByteArray *out, const char **out_bad)
{
	const guint8 *after = bytes + STREAM_FRAME_HEADER_BYTES;
	const OtherProtocol *protocol;
	guint32 number;

	if (length == 0)
		return TRUE;
	if (begins_versioned(bytes[0])) {
		self->framing = FRAMING_UNFRAMED;
		return TRUE;
	}
	if (bytes[0] != 0)
		return reject_other_protocol(bytes, length, 0, out, out_bad);
	if (length < STREAM_FRAME_HEADER_BYTES)
		return TRUE;
	if (!read_length(shared, bytes, &number, out_bad))
		return FALSE;
	if (length == STREAM_FRAME_HEADER_BYTES)
		return TRUE;
	/* A frame of another protocol can also begin with letters, but not with a name of the given
	 * length. */
	if (begins_versioned(*after) || *after == 0)
		self->framing = FRAMING_FRAMED;
	else if ((g_ascii_isalpha(*after) || *after == '_') &&
		 (number < OTHER_FRAMED_BYTES ||
		  find_other_protocol(after, length - STREAM_FRAME_HEADER_BYTES, TRUE, &protocol) ==
			  OTHER_UNKNOWN))
		self->framing = FRAMING_UNFRAMED;
	else
		return reject_other_protocol(bytes, length, STREAM_FRAME_HEADER_BYTES, out,
					     out_bad);
	return TRUE;
}

/* Scans a message. @limit: maximum length of the message. @available: number of bytes that have
 * arrived */
static StreamNext scan_message(Stream *self, StreamShared *shared, const guint8 *bytes,
			       gsize available, gsize limit, Message *out_message)
{
	gboolean framed = self->framing == FRAMING_FRAMED;
	const MessageHeader *header;
	ScanStatus status;

	if (self->scanner == NULL)
		self->scanner = shared->spare != NULL
					? g_steal_pointer(&shared->spare)
					: scanner_new(shared->max_depth, SCANNER_MAX_VALUES);
	status = scanner_scan(self->scanner, bytes, available, limit);
	if (status == SCAN_MORE) /* the next scan continues where this one stopped */
		return STREAM_NEXT_MORE;
	header = scanner_header(self->scanner);
	*out_message = (Message){
		.bytes = bytes,
		.header = *header,
		/* includes any bytes after the message in its frame */
		.taken = framed ? STREAM_FRAME_HEADER_BYTES + limit : header->length,
		.bad = header->bad,
	};
	scanner_reset(self->scanner);
	g_free(shared->spare);
	shared->spare = g_steal_pointer(&self->scanner);
	if (status != SCAN_BAD_HEADER && out_message->header.type == MESSAGE_CALL)
		return STREAM_NEXT_CALL;
	if (status != SCAN_BAD_HEADER)
		out_message->bad = "not a call";
	return STREAM_NEXT_BAD;
}

StreamNext stream_next(Stream *self, StreamShared *shared, const guint8 *bytes, gsize length,
		       Message *out_message)
{
	gsize available = length - STREAM_FRAME_HEADER_BYTES;
	guint32 frame_length;

	if (self->framing == FRAMING_UNFRAMED)
		return scan_message(self, shared, bytes, length, shared->max_message_bytes,
				    out_message);
	if (length < STREAM_FRAME_HEADER_BYTES)
		return STREAM_NEXT_MORE;
	if (!read_length(shared, bytes, &frame_length, &out_message->bad))
		return STREAM_NEXT_BAD;
	bytes += STREAM_FRAME_HEADER_BYTES;
	if (available >= frame_length)
		return scan_message(self, shared, bytes, frame_length, frame_length, out_message);
	/* invalid bytes might never end */
	if (available > 0 && !scanner_may_begin(bytes, available, frame_length, &out_message->bad))
		return STREAM_NEXT_BAD;
	return STREAM_NEXT_MORE;
}

void stream_clear(Stream *self)
{
	g_clear_pointer(&self->scanner, g_free);
	g_clear_pointer(&self->parked, g_free);
}

/* Calls */

/* Answers the message at the front with generated code, if it is complete. */
static StreamStatus answer_message(Stream *self, StreamShared *shared, RpcPass *pass)
{
	Message message;
	StreamNext next = stream_next(self, shared, pass->bytes + pass->consumed,
				      pass->length - pass->consumed, &message);

	if (next == STREAM_NEXT_MORE)
		return STREAM_MORE;
	if (next == STREAM_NEXT_CALL &&
	    shared->service->answer_message(shared->handler, &message, pass, &self->parked) ==
		    RPC_WAITS)
		return STREAM_PARKED;
	if (next == STREAM_NEXT_BAD || message.taken == 0) {
		pass->bad = message.bad;
		return STREAM_CLOSE;
	}
	return STREAM_MORE;
}

StreamStatus stream_answer(Stream *self, StreamShared *shared, RpcPass *pass)
{
	const RpcService *service = shared->service;
	StreamStatus status = STREAM_MORE;
	gsize before;

	if (self->framing == FRAMING_UNKNOWN &&
	    !stream_detect_framing(self, shared, pass->bytes, pass->length, pass->out, &pass->bad))
		return STREAM_CLOSE;
	if (self->framing == FRAMING_UNKNOWN)
		return STREAM_MORE;
	pass->framed = self->framing == FRAMING_FRAMED;
	pass->max_message_bytes = shared->max_message_bytes;
	do {
		RpcOutcome outcome = RPC_UNUSUAL;

		before = pass->consumed;
		if (pass->out->len >= pass->room)
			return STREAM_FULL;
		if (before == pass->length)
			return STREAM_MORE;
		/* Reads the clock only if more than one answer is due, which is rare. Does not read
		 * it after each usual call, because the call takes hardly longer than reading the
		 * clock. */
		if (before > 0 && (pass->n_quick == 0 || pass->n_quick >= QUICK_ANSWERS)) {
			gint64 now_us = shared->now_us();

			pass->n_quick = 0;
			if (pass->turn_ends_us == 0)
				pass->turn_ends_us = now_us + pass->turn_us;
			if (now_us >= pass->turn_ends_us)
				return STREAM_FULL;
		}
		if (G_UNLIKELY(self->parked != NULL)) {
			ParkedCall *parked = g_steal_pointer(&self->parked);

			outcome = service->answer_parked(shared->handler, parked, pass,
							 &self->parked);
		} else if (self->scanner == NULL && service->answer_usual != NULL) {
			outcome = service->answer_usual(shared->handler, pass, &self->parked);
		}
		if (outcome == RPC_WAITS)
			return STREAM_PARKED;
		pass->n_quick++;
		if (outcome == RPC_UNUSUAL) {
			pass->n_quick = 0;
			status = answer_message(self, shared, pass);
		}
	} while (status == STREAM_MORE && pass->consumed > before);
	return status;
}
