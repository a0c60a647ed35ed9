/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/stream.h"

/* By the short cut, before the clock is read again. */
#define QUICK_ANSWERS 8

/* Answers the call at the front, if it is there to its end. */
static StreamStatus answer_one(StreamShared *shared, StreamPass *pass)
{
	Message message;
	FramingStatus status =
		framing_next(pass->framing, &shared->framing, pass->bytes + pass->consumed,
			     pass->length - pass->consumed, &message);

	if (status == FRAMING_MORE)
		return STREAM_MORE;
	if (status == FRAMING_CALL && !dispatcher_answer(shared->dispatcher, &message, pass->out))
		return STREAM_PARKED;
	if (status == FRAMING_BAD || message.taken == 0) {
		pass->reason = message.bad;
		return STREAM_CLOSE;
	}
	pass->consumed += message.taken;
	return STREAM_MORE;
}

/* Answers the calls at the front by the short cut, as far as it goes; or else the first. */
static StreamStatus answer_some(StreamShared *shared, StreamPass *pass)
{
	Dispatcher *dispatcher = shared->dispatcher;
	const RpcInput input = {
		.bytes = pass->bytes + pass->consumed,
		.length = pass->length - pass->consumed,
		.framed = pass->framing->kind == FRAMING_FRAMED,
		.max_message_bytes = shared->framing.max_message_bytes,
		.room = pass->room - pass->out->len,
	};
	gsize length = 0;

	if (pass->framing->scanner == NULL) /* else it is in a message already */
		length = dispatcher_answer_fast(dispatcher, &input, pass->out);
	pass->consumed += length;
	if (dispatcher_verdict(dispatcher)->parked)
		return STREAM_PARKED;
	if (length == 0) {
		pass->quick = 0;
		return answer_one(shared, pass);
	}
	pass->quick++;
	return STREAM_MORE;
}

/* The clock is read only where more than one answer is to be given, which most passes do not have;
 * and a short cut takes little longer than that. */
static gboolean is_turn_over(const StreamShared *shared, StreamPass *pass)
{
	gint64 now_us;

	if (pass->consumed == 0 || (pass->quick > 0 && pass->quick < QUICK_ANSWERS))
		return FALSE;
	pass->quick = 0;
	now_us = shared->now_us();
	if (pass->ends_us == 0)
		pass->ends_us = now_us + shared->turn_us;
	return now_us >= pass->ends_us;
}

StreamStatus stream_consume(StreamShared *shared, StreamPass *pass)
{
	StreamStatus status = STREAM_MORE;
	gsize before;

	if (pass->framing->kind == FRAMING_UNKNOWN &&
	    !framing_detect(pass->framing, &shared->framing, pass->bytes, pass->length, pass->out,
			    &pass->reason))
		status = STREAM_CLOSE;
	if (pass->framing->kind != FRAMING_UNKNOWN) {
		do {
			before = pass->consumed;
			if (pass->out->len >= pass->room)
				status = STREAM_FULL;
			else if (pass->consumed < pass->length)
				status = is_turn_over(shared, pass) ? STREAM_FULL
								    : answer_some(shared, pass);
		} while (status == STREAM_MORE && pass->consumed > before);
	}
	return status;
}
