/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/stream.h"

#include <string.h>

#include "common/thrift/byte-reader.h"
#include "rpc/foreign.h"

#define FRAME_HEADER_BYTES 4

/* By the short cut, before the clock is read again. */
#define QUICK_ANSWERS 8

/* The bytes in hand, and where the replies go. */
typedef struct {
	Stream *stream;
	StreamShared *shared;
	const guint8 *bytes;
	gsize length;
	gsize consumed;
	GByteArray *out;
	gint64 ends_us; /* of the turn; 0: nobody has looked at the clock yet */
	guint quick;    /* answers since then that came by the short cut */
	const char *reason;
} Pass;

static StreamStatus pass_close(Pass *pass, const char *reason)
{
	pass->reason = reason;
	return STREAM_CLOSE;
}

/* The first four bytes as a number; there are four. */
static guint32 peek_length(const guint8 *bytes)
{
	guint32 length;

	memcpy(&length, bytes, sizeof length);
	return GUINT32_FROM_BE(length);
}

/* What stands at @at is no Thrift, or not enough of it is there to tell what else it is. */
static StreamStatus close_foreign(Pass *pass, gsize at)
{
	const ForeignProtocol *protocol = NULL;

	switch (foreign_find(pass->bytes + at, pass->length - at, at > 0, &protocol)) {
	case FOREIGN_MAYBE:
		return STREAM_MORE;
	case FOREIGN_YES:
		if (at == 0 && protocol->reply != NULL)
			g_byte_array_append(pass->out, (const guint8 *)protocol->reply,
					    (guint)strlen(protocol->reply));
		return pass_close(pass, protocol->reason);
	case FOREIGN_UNKNOWN:
	default:
		return pass_close(pass, "unknown protocol");
	}
}

/* The first four bytes are the length of a name, and this is the name as far as it is there; and
 * not another protocol's frame, which may begin with letters too, but with no name of its length.
 */
static gboolean begins_name(const Pass *pass, guint32 length)
{
	const guint8 *name = pass->bytes + FRAME_HEADER_BYTES;
	const ForeignProtocol *protocol;

	if (!g_ascii_isalpha(name[0]) && name[0] != '_')
		return FALSE;
	return length < FOREIGN_FRAMED_BYTES ||
	       foreign_find(name, pass->length - FRAME_HEADER_BYTES, TRUE, &protocol) ==
		       FOREIGN_UNKNOWN;
}

static StreamStatus detect_framing(Pass *pass)
{
	const guint8 *bytes = pass->bytes;
	guint32 length;

	if (pass->length == 0)
		return STREAM_MORE;
	if (bytes[0] == 0x80 || bytes[0] == 0x82) {
		pass->stream->framing = FRAMING_UNFRAMED;
		return STREAM_MORE;
	}
	if (bytes[0] != 0x00)
		return close_foreign(pass, 0);
	if (pass->length < FRAME_HEADER_BYTES)
		return STREAM_MORE;
	length = peek_length(bytes);
	if (length == 0 || length > pass->shared->max_message_bytes)
		return pass_close(pass, "frame length out of range");
	if (pass->length == FRAME_HEADER_BYTES)
		return STREAM_MORE;
	if (bytes[4] == 0x80 || bytes[4] == 0x82 || bytes[4] == 0x00)
		pass->stream->framing = FRAMING_FRAMED;
	else if (begins_name(pass, length))
		pass->stream->framing = FRAMING_UNFRAMED;
	else
		return close_foreign(pass, FRAME_HEADER_BYTES);
	return STREAM_MORE;
}

/* The message has been scanned to its end, good or bad. Sets @out_answered if there is a reply. */
static StreamStatus answer_scanned(Pass *pass, const Scanner *scanner, ScanStatus scan,
				   const guint8 *message, gboolean *out_answered)
{
	const MessageHeader *header = scanner_header(scanner);
	Dispatcher *dispatcher = pass->shared->dispatcher;

	if (scan == SCAN_BAD_HEADER)
		return pass_close(pass, scanner_reason(scanner));
	if (header->type != MESSAGE_CALL)
		return pass_close(pass, "not a call");
	if (scan == SCAN_BAD_ARGUMENTS) {
		dispatcher_refuse(dispatcher, message, header, scanner_reason(scanner), pass->out);
		*out_answered = TRUE;
		/* only a frame tells where the next message begins */
		return pass->stream->framing == FRAMING_FRAMED
			       ? STREAM_MORE
			       : pass_close(pass, scanner_reason(scanner));
	}
	*out_answered = dispatcher_call(dispatcher, message, header, pass->out);
	return *out_answered ? STREAM_MORE : STREAM_PARKED;
}

static Scanner *take_scanner(Pass *pass)
{
	if (pass->stream->scanner != NULL)
		return g_steal_pointer(&pass->stream->scanner);
	if (pass->shared->spare != NULL)
		return g_steal_pointer(&pass->shared->spare);
	return scanner_new(pass->shared->max_depth, SCANNER_MAX_VALUES);
}

static void give_scanner_back(Pass *pass, Scanner *scanner)
{
	scanner_reset(scanner);
	if (pass->shared->spare == NULL)
		pass->shared->spare = scanner;
	else
		scanner_free(scanner);
}

/**
 * Answers the message at @message, of which @available bytes are there. @whole: they are all of it.
 *
 * Sets @out_length to the length of the message, or leaves it 0 if more bytes are needed.
 */
static StreamStatus answer_message(Pass *pass, const guint8 *message, gsize available,
				   gboolean whole, gsize *out_length, gboolean *out_answered)
{
	gsize limit = whole ? available : pass->shared->max_message_bytes;
	Scanner *scanner = take_scanner(pass);
	StreamStatus status;
	ScanStatus scan;

	scan = scanner_scan(scanner, message, available, limit);
	if (scan == SCAN_MORE) {
		pass->stream->scanner = scanner; /* it goes on where it stopped */
		return STREAM_MORE;
	}
	status = answer_scanned(pass, scanner, scan, message, out_answered);
	*out_length = scanner_header(scanner)->length;
	give_scanner_back(pass, scanner);
	return status;
}

static void put_frame_header(GByteArray *out, guint start)
{
	guint32 length = GUINT32_TO_BE(out->len - start - FRAME_HEADER_BYTES);

	memcpy(out->data + start, &length, sizeof length);
}

/* A frame that has not arrived to its end; of what makes no sense there will be no end. */
static StreamStatus await_frame(Pass *pass, const guint8 *message, gsize available, gsize length)
{
	const char *reason = NULL;

	return available == 0 || scanner_may_begin(message, available, length, &reason)
		       ? STREAM_MORE
		       : pass_close(pass, reason);
}

/* Answers the message at the front, if it is complete. */
static StreamStatus answer_one(Pass *pass)
{
	const guint8 *front = pass->bytes + pass->consumed;
	gsize left = pass->length - pass->consumed;
	gboolean framed = pass->stream->framing == FRAMING_FRAMED;
	guint start = pass->out->len;
	gboolean answered = FALSE;
	gsize length = 0;
	StreamStatus status;

	if (framed) {
		guint32 frame_length;

		if (left < FRAME_HEADER_BYTES)
			return STREAM_MORE;
		frame_length = peek_length(front);
		if (frame_length == 0 || frame_length > pass->shared->max_message_bytes)
			return pass_close(pass, "frame length out of range");
		if (left - FRAME_HEADER_BYTES < frame_length)
			return await_frame(pass, front + FRAME_HEADER_BYTES,
					   left - FRAME_HEADER_BYTES, frame_length);
		g_byte_array_set_size(pass->out, start + FRAME_HEADER_BYTES);
		status = answer_message(pass, front + FRAME_HEADER_BYTES, frame_length, TRUE,
					&length, &answered);
		length = FRAME_HEADER_BYTES + (gsize)frame_length; /* with what may be behind */
	} else {
		status = answer_message(pass, front, left, FALSE, &length, &answered);
	}
	if (!answered) {
		g_byte_array_set_size(pass->out, start);
		return status;
	}
	if (framed)
		put_frame_header(pass->out, start);
	pass->consumed += length;
	return status;
}

/* Answers the messages at the front by the short cut, as far as it goes; or else the first. */
static StreamStatus answer_some(Pass *pass)
{
	Dispatcher *dispatcher = pass->shared->dispatcher;
	const RpcInput input = {
		.bytes = pass->bytes + pass->consumed,
		.length = pass->length - pass->consumed,
		.framed = pass->stream->framing == FRAMING_FRAMED,
		.max_message_bytes = pass->shared->max_message_bytes,
		.room = pass->stream->room - pass->out->len,
	};
	gsize length;

	if (pass->stream->scanner != NULL) /* it is in a message already */
		return answer_one(pass);
	length = dispatcher_answer_fast(dispatcher, &input, pass->out);
	if (length > 0) {
		pass->consumed += length;
		pass->quick++;
	}
	if (dispatcher_verdict(dispatcher)->parked)
		return STREAM_PARKED;
	if (length > 0)
		return STREAM_MORE;
	pass->quick = 0;
	return answer_one(pass);
}

/* The clock is read only where more than one answer is to be given, which most passes do not have;
 * and a short cut takes little longer than that. */
static gboolean is_turn_over(Pass *pass)
{
	gint64 now_us;

	if (pass->consumed == 0 || (pass->quick > 0 && pass->quick < QUICK_ANSWERS))
		return FALSE;
	pass->quick = 0;
	now_us = pass->shared->now_us();
	if (pass->ends_us == 0)
		pass->ends_us = now_us + pass->shared->turn_us;
	return now_us >= pass->ends_us;
}

StreamStatus stream_consume(Stream *self, StreamShared *shared, const guint8 *bytes, gsize length,
			    gsize *out_consumed, GByteArray *out, const char **out_reason)
{
	Pass pass = {
		.stream = self,
		.shared = shared,
		.bytes = bytes,
		.length = length,
		.out = out,
	};
	StreamStatus status = STREAM_MORE;
	gsize before;

	if (self->framing == FRAMING_UNKNOWN)
		status = detect_framing(&pass);
	if (self->framing != FRAMING_UNKNOWN) {
		do {
			before = pass.consumed;
			if (out->len >= self->room)
				status = STREAM_FULL;
			else if (pass.consumed < length)
				status = is_turn_over(&pass) ? STREAM_FULL : answer_some(&pass);
		} while (status == STREAM_MORE && pass.consumed > before);
	}
	*out_consumed = pass.consumed;
	if (status == STREAM_CLOSE)
		*out_reason = pass.reason;
	return status;
}

void stream_clear(Stream *self)
{
	g_clear_pointer(&self->scanner, scanner_free);
}

void stream_shared_clear(StreamShared *self)
{
	g_clear_pointer(&self->spare, scanner_free);
	g_clear_pointer(&self->dispatcher, dispatcher_free);
}
