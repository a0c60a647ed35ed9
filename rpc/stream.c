/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/stream.h"

/* By the short cut, before the clock is read again. */
#define QUICK_ANSWERS 8

/* The bytes in hand, and where the replies go. */
typedef struct {
	Framing *framing;
	StreamShared *shared;
	const guint8 *bytes;
	gsize length;
	gsize consumed;
	GByteArray *out;
	gint64 ends_us; /* of the turn; 0: nobody has looked at the clock yet */
	guint quick;    /* answers since then that came by the short cut */
	const char **out_reason;
} Pass;

/* Answers the call at the front, if it is there to its end. */
static StreamStatus answer_one(Pass *pass)
{
	StreamShared *shared = pass->shared;
	Message message;
	FramingStatus status =
		framing_next(pass->framing, &shared->framing, pass->bytes + pass->consumed,
			     pass->length - pass->consumed, &message);

	if (status == FRAMING_MORE)
		return STREAM_MORE;
	if (status == FRAMING_CALL && !dispatcher_answer(shared->dispatcher, &message, pass->out))
		return STREAM_PARKED;
	if (status == FRAMING_BAD || message.taken == 0) {
		*pass->out_reason = message.bad;
		return STREAM_CLOSE;
	}
	pass->consumed += message.taken;
	return STREAM_MORE;
}

/* Answers the calls at the front by the short cut, as far as it goes; or else the first. */
static StreamStatus answer_some(Pass *pass)
{
	Dispatcher *dispatcher = pass->shared->dispatcher;
	const Framing *framing = pass->framing;
	const RpcInput input = {
		.bytes = pass->bytes + pass->consumed,
		.length = pass->length - pass->consumed,
		.framed = framing->kind == FRAMING_FRAMED,
		.max_message_bytes = pass->shared->framing.max_message_bytes,
		.room = pass->shared->room - pass->out->len,
	};
	gsize length = 0;

	if (framing->scanner == NULL) /* else it is in a message already */
		length = dispatcher_answer_fast(dispatcher, &input, pass->out);
	pass->consumed += length;
	if (dispatcher_verdict(dispatcher)->parked)
		return STREAM_PARKED;
	if (length == 0) {
		pass->quick = 0;
		return answer_one(pass);
	}
	pass->quick++;
	return STREAM_MORE;
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

StreamStatus stream_consume(Framing *framing, StreamShared *shared, const guint8 *bytes,
			    gsize length, gsize *out_consumed, GByteArray *out,
			    const char **out_reason)
{
	Pass pass = {
		.framing = framing,
		.shared = shared,
		.bytes = bytes,
		.length = length,
		.out = out,
		.out_reason = out_reason,
	};
	StreamStatus status = STREAM_MORE;
	gsize before;

	if (framing->kind == FRAMING_UNKNOWN &&
	    !framing_detect(framing, &shared->framing, bytes, length, out, out_reason))
		status = STREAM_CLOSE;
	if (framing->kind != FRAMING_UNKNOWN) {
		do {
			before = pass.consumed;
			if (out->len >= shared->room)
				status = STREAM_FULL;
			else if (pass.consumed < length)
				status = is_turn_over(&pass) ? STREAM_FULL : answer_some(&pass);
		} while (status == STREAM_MORE && pass.consumed > before);
	}
	*out_consumed = pass.consumed;
	return status;
}
