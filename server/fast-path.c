/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The generated processor costs microseconds a call, most of it for objects that live for one call.
 * Comparing bytes and filling in others costs nanoseconds. What is left of a call is its share of
 * its pass: the system calls, a reading of the clock, a swap of the cursor. Therefore
 *
 * - a call is known by its bytes, all of which but the arguments have one value and one place;
 * - calls of get_id that repeat the one before them, but for the seqid, are a run: a client with
 *   many calls in flight sends such, and what was proved of the first holds for all of them;
 * - the IDs of a run are drawn together. They are what single draws would have got from a clock
 *   that stands still meanwhile, but for a random start of the sequence, which leaves room for all
 *   of them.
 */
#include "server/fast-path.h"

#include <string.h>

#include "common/thrift/types.h"
#include "common/useragent.h"
#include "server/service.h"
#include "server/strict-reply.h"

/* A head is what stands before the seqid: version and type, the length of the name, the name. */
typedef struct {
	const char *bytes;
	gsize length;
} Head;

#define HEAD(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}
/* STRICT_VERSION with MESSAGE_CALL or MESSAGE_REPLY in it. @length: of the name, its last byte */
#define CALL(length, name)  HEAD("\x80\1\0\1\0\0\0" length name)
#define REPLY(length, name) HEAD("\x80\1\0\2\0\0\0" length name)

/* The longest run. A draw is cheap beside as many replies, and a run of which nothing is drawn is
 * looked for again with each of its calls. */
#define MAX_RUN 128

static const Head GET_ID = CALL("\6", "get_id");
static const Head GET_WORKER = CALL("\12", "get_worker");

static const guint8 AGENT_FIELD[] = {BINARY_STRING, 0, 1};
static const guint8 COUNT_FIELD[] = {BINARY_I32, 0, 2};
static const guint8 STOP[] = {BINARY_STOP};

/* A call without arguments. */
typedef struct {
	Head call, reply;
	const char *name;
	CounterMethod method;
	ServiceNumber number;
} NumberCall;

#define NUMBER_CALL(length, name, method, number)                                                  \
	{                                                                                          \
		CALL(length, name), REPLY(length, name), name, method, number                      \
	}

static const NumberCall NUMBER_CALLS[] = {
	NUMBER_CALL("\15", "get_timestamp", COUNTER_GET_TIMESTAMP, SERVICE_TIMESTAMP),
	NUMBER_CALL("\15", "get_worker_id", COUNTER_GET_WORKER_ID, SERVICE_WORKER_ID),
	NUMBER_CALL("\21", "get_datacenter_id", COUNTER_GET_DATACENTER_ID, SERVICE_DATACENTER_ID),
};

/* A call for a batch. */
typedef struct {
	Head call, reply;
	const char *name;
	CounterMethod method;
	gboolean as_runs;
} BatchCall;

static const BatchCall BATCH_CALLS[] = {
	{CALL("\7", "get_ids"), REPLY("\7", "get_ids"), "get_ids", COUNTER_GET_IDS, FALSE},
	{CALL("\13", "get_id_runs"), REPLY("\13", "get_id_runs"), "get_id_runs",
	 COUNTER_GET_ID_RUNS, TRUE},
};

/* A struct IdRun. */
typedef struct {
	guint8 first_field[3];
	guint8 first[8];
	guint8 count_field[3];
	guint8 count[4];
	guint8 stop;
} RunStruct;

static const RunStruct RUN_STRUCT = {
	.first_field = {BINARY_I64, 0, 1},
	.count_field = {BINARY_I32, 0, 2},
	.stop = BINARY_STOP,
};

G_STATIC_ASSERT(sizeof(RunStruct) == 19); /* no padding */

/* The reply to get_id; a call has the seqid in the same place: frame, head, seqid, the head of the
 * field success, the ID, stop. */
typedef struct {
	guint8 frame[4];
	guint8 head[14];
	guint8 seqid[4];
	guint8 field[3];
	guint8 id[8];
	guint8 stop;
} IdReply;

static const IdReply ID_REPLY = {
	.frame = {0, 0, 0, sizeof(IdReply) - sizeof ID_REPLY.frame},
	.head = {0x80, 1, 0, MESSAGE_REPLY, 0, 0, 0, 6, 'g', 'e', 't', '_', 'i', 'd'},
	.field = {BINARY_I64, 0, 0},
	.stop = BINARY_STOP,
};

G_STATIC_ASSERT(sizeof(IdReply) == 34); /* no padding */

/* What is left of a message. */
typedef struct {
	const guint8 *at;
	const guint8 *end;
} Bytes;

static gboolean skip(Bytes *self, gsize length)
{
	if ((gsize)(self->end - self->at) < length)
		return FALSE;
	self->at += length;
	return TRUE;
}

/* If it is not there, nothing is taken. */
static gboolean take(Bytes *self, const void *expected, gsize length)
{
	if ((gsize)(self->end - self->at) < length || memcmp(self->at, expected, length) != 0)
		return FALSE;
	self->at += length;
	return TRUE;
}

static gboolean take_head(Bytes *self, const Head *head)
{
	return take(self, head->bytes, head->length);
}

static gboolean take_number(Bytes *self, guint32 *out_number)
{
	const guint8 *at = self->at;

	if (!skip(self, sizeof *out_number))
		return FALSE;
	memcpy(out_number, at, sizeof *out_number);
	*out_number = GUINT32_FROM_BE(*out_number);
	return TRUE;
}

/* Whatever it is. */
static gboolean take_agent(Bytes *self, Bytes *out_agent)
{
	guint32 length;

	if (!take(self, AGENT_FIELD, sizeof AGENT_FIELD) || !take_number(self, &length))
		return FALSE;
	out_agent->at = self->at;
	out_agent->end = self->at + length;
	return skip(self, length);
}

static gsize length_of(const Bytes *bytes)
{
	return (gsize)(bytes->end - bytes->at);
}

static gboolean is_valid_agent(const Bytes *agent)
{
	return useragent_is_valid((const char *)agent->at, length_of(agent));
}

static gboolean draw(Service *service, const Bytes *agent, guint count, IdRun *out_run)
{
	return service_draw(service, (const char *)agent->at, length_of(agent), count, out_run);
}

static gboolean draw_some(Service *service, const Bytes *agent, guint most, IdRun *out_run)
{
	return service_draw_some(service, (const char *)agent->at, length_of(agent), most, out_run);
}

/* The first message, as far as it is there. */
static gboolean open_message(const RpcInput *input, Bytes *out_message)
{
	Bytes message = {input->bytes, input->bytes + input->length};
	guint32 length;

	if (!input->framed)
		message.end = message.at + MIN(input->length, input->max_message_bytes);
	else if (!take_number(&message, &length) || length > input->max_message_bytes ||
		 length > (gsize)(message.end - message.at))
		return FALSE;
	else
		message.end = message.at + length;
	*out_message = message;
	return TRUE;
}

/* A frame ends where its message does. */
static gboolean close_message(const RpcInput *input, Bytes *message)
{
	return take(message, STOP, sizeof STOP) && (!input->framed || message->at == message->end);
}

static inline gboolean is_equal_word(const guint8 *one, const guint8 *other)
{
	guint64 a, b;

	memcpy(&a, one, sizeof a);
	memcpy(&b, other, sizeof b);
	return a == b;
}

/* Both have @length bytes, 8 or more. Inline, unlike memcmp(): calls are short. */
static inline gboolean is_equal(const guint8 *one, const guint8 *other, gsize length)
{
	gsize last = length - sizeof(guint64);

	for (gsize at = 0; at < last; at += sizeof(guint64))
		if (!is_equal_word(one + at, other + at))
			return FALSE;
	return is_equal_word(one + last, other + last);
}

/* How many calls in a row, up to @most, are the first one but for the seqid. Inline for each
 * framing, which gives the seqid's place. */
static inline guint count_run(const guint8 *first, gsize call_bytes, gsize seqid_at, gsize most)
{
	gsize behind_at = seqid_at + sizeof ID_REPLY.seqid;
	const guint8 *call = first + call_bytes;
	guint run = 1;

	while (run < most && is_equal(first, call, seqid_at) &&
	       is_equal(first + behind_at, call + behind_at, call_bytes - behind_at)) {
		call += call_bytes;
		run++;
	}
	return run;
}

static inline void put_number(guint8 *to, gint64 number)
{
	guint64 value = GUINT64_TO_BE((guint64)number);

	memcpy(to, &value, sizeof value);
}

/* Inline for each framing: @skipped is what a reply does not have of the template's front. @run is
 * a value, so that the compiler knows that no store through @to changes it. */
static inline void put_ids(guint8 *to, gsize skipped, IdRun run, const guint8 *seqid,
			   gsize call_bytes)
{
	const guint8 *template = (const guint8 *)&ID_REPLY + skipped;
	gsize reply_bytes = sizeof ID_REPLY - skipped;

	for (guint i = 0; i < run.count; i++) {
		memcpy(to, template, reply_bytes);
		memcpy(to + offsetof(IdReply, seqid) - skipped, seqid, sizeof ID_REPLY.seqid);
		put_number(to + offsetof(IdReply, id) - skipped, id_run_get(&run, i));
		to += reply_bytes;
		seqid += call_bytes;
	}
}

static guint8 *make_room(GByteArray *out, gsize bytes)
{
	guint length = out->len;

	g_byte_array_set_size(out, length + (guint)bytes);
	return out->data + length;
}

static gsize id_reply_bytes(const RpcInput *input)
{
	return sizeof ID_REPLY - (input->framed ? 0 : sizeof ID_REPLY.frame);
}

static void append_ids(const RpcInput *input, IdRun run, const guint8 *seqid, gsize call_bytes,
		       GByteArray *out)
{
	guint8 *to = make_room(out, run.count * id_reply_bytes(input));

	if (input->framed)
		put_ids(to, 0, run, seqid, call_bytes);
	else
		put_ids(to, sizeof ID_REPLY.frame, run, seqid, call_bytes);
}

/* The refusals are out of line, so that they do not make the good calls dearer. */

/* A call for IDs of which none were issued. @batch: NULL: it is get_id. A NUL in the agent is
 * something that the processor reads in its own way. Returns %FALSE if the call is left to it, or
 * parked. */
static G_NO_INLINE gboolean refuse_ids(Service *service, const RpcInput *input,
				       const BatchCall *batch, const guint8 *seqid,
				       const Bytes *agent, gint count, GByteArray *out)
{
	gsize length = length_of(agent);
	g_auto(Refusal) refusal = {0};

	if (memchr(agent->at, 0, length) != NULL ||
	    !service_refuse_ids(service, (const char *)agent->at, length, count, &refusal))
		return FALSE;
	if (batch != NULL)
		strict_reply_refused_ids(&refusal, batch->name, seqid, input->framed, out);
	else
		strict_reply_exception(&refusal, "get_id", seqid, input->framed, out);
	return TRUE;
}

static G_NO_INLINE void refuse_number(Service *service, const RpcInput *input, const guint8 *seqid,
				      const char *method, GByteArray *out)
{
	g_auto(Refusal) refusal = {0};

	service_refuse_number(service, &refusal);
	strict_reply_exception(&refusal, method, seqid, input->framed, out);
}

/* As many as can be of @calls good ones in a row. */
static guint issue_ids(Service *service, const RpcInput *input, const Bytes *agent, guint calls,
		       const guint8 *seqid, gsize call_bytes, GByteArray *out)
{
	guint answered = 0;
	IdRun run;

	while (answered < calls && draw_some(service, agent, calls - answered, &run)) {
		append_ids(input, run, seqid + answered * call_bytes, call_bytes, out);
		answered += run.count;
	}
	return answered;
}

static gsize answer_get_id(Service *service, const RpcInput *input, Bytes message, GByteArray *out,
			   guint *out_answered)
{
	const guint8 *seqid = message.at;
	gsize reply_bytes = id_reply_bytes(input);
	gsize call_bytes, most;
	guint calls, answered = 0;
	Bytes agent;

	if (!skip(&message, sizeof ID_REPLY.seqid) || !take_agent(&message, &agent) ||
	    !close_message(input, &message))
		return 0;
	call_bytes = (gsize)(message.at - input->bytes);
	if (is_valid_agent(&agent)) {
		most = MIN(input->length / call_bytes,
			   (input->room + reply_bytes - 1) / reply_bytes);
		most = MIN(most, MAX_RUN);
		if (input->framed)
			calls = count_run(input->bytes, call_bytes, offsetof(IdReply, seqid), most);
		else
			calls = count_run(input->bytes, call_bytes,
					  offsetof(IdReply, seqid) - sizeof ID_REPLY.frame, most);
		answered = issue_ids(service, input, &agent, calls, seqid, call_bytes, out);
	}
	if (answered == 0 && refuse_ids(service, input, NULL, seqid, &agent, 1, out))
		answered = 1;
	if (answered > 0)
		*out_answered = answered;
	return answered * call_bytes;
}

/* Appends a reply but for its value, and returns where its @value_bytes go. */
static guint8 *begin_reply(const RpcInput *input, const Head *head, const guint8 *seqid,
			   gsize value_bytes, GByteArray *out)
{
	gsize length = head->length + sizeof ID_REPLY.seqid + value_bytes + sizeof ID_REPLY.stop;
	guint32 frame = GUINT32_TO_BE((guint32)length);
	guint8 *to = make_room(out, (input->framed ? sizeof frame : 0) + length);

	if (input->framed) {
		memcpy(to, &frame, sizeof frame);
		to += sizeof frame;
	}
	memcpy(to, head->bytes, head->length);
	memcpy(to + head->length, seqid, sizeof ID_REPLY.seqid);
	to[length - sizeof ID_REPLY.stop] = BINARY_STOP;
	return to + head->length + sizeof ID_REPLY.seqid;
}

/* @run is a value as above. */
static inline void put_list(guint8 *to, IdRun run)
{
	for (guint i = 0; i < run.count; i++)
		put_number(to + i * sizeof(gint64), id_run_get(&run, i));
}

/* Appends a reply that is a list of @size, and returns where its @bytes go. */
static guint8 *begin_list(const RpcInput *input, const BatchCall *call, const guint8 *seqid,
			  BinaryType type, guint size, gsize bytes, GByteArray *out)
{
	const guint8 field[] = {BINARY_LIST, 0, 0, (guint8)type};
	guint32 count = GUINT32_TO_BE(size);
	guint8 *to =
		begin_reply(input, &call->reply, seqid, sizeof field + sizeof count + bytes, out);

	memcpy(to, field, sizeof field);
	memcpy(to + sizeof field, &count, sizeof count);
	return to + sizeof field + sizeof count;
}

static void append_list(const RpcInput *input, const BatchCall *call, IdRun run,
			const guint8 *seqid, GByteArray *out)
{
	put_list(begin_list(input, call, seqid, BINARY_I64, run.count, run.count * sizeof(gint64),
			    out),
		 run);
}

/* As id_runs_append() has them. */
static void append_runs(const RpcInput *input, const BatchCall *call, IdRun run,
			const guint8 *seqid, GByteArray *out)
{
	guint n_runs = id_run_ticks(&run);
	guint8 *to = begin_list(input, call, seqid, BINARY_STRUCT, n_runs,
				n_runs * sizeof RUN_STRUCT, out);

	for (guint at = 0, count; at < run.count; at += count) {
		RunStruct part = RUN_STRUCT;
		guint32 wire_count;

		count = id_run_in_tick(&run, at);
		wire_count = GUINT32_TO_BE(count);
		put_number(part.first, id_run_get(&run, at));
		memcpy(part.count, &wire_count, sizeof wire_count);
		memcpy(to, &part, sizeof part);
		to += sizeof part;
	}
}

static gsize answer_batch(Service *service, const RpcInput *input, Bytes message,
			  const BatchCall *call, GByteArray *out, guint *out_answered)
{
	const guint8 *seqid = message.at;
	Bytes agent;
	guint32 count;
	IdRun run;

	if (!skip(&message, sizeof ID_REPLY.seqid) || !take_agent(&message, &agent) ||
	    !take(&message, COUNT_FIELD, sizeof COUNT_FIELD) || !take_number(&message, &count) ||
	    !close_message(input, &message))
		return 0;
	if (!is_valid_agent(&agent) || !draw(service, &agent, count, &run)) {
		if (!refuse_ids(service, input, call, seqid, &agent, (gint)count, out))
			return 0;
	} else if (call->as_runs) {
		append_runs(input, call, run, seqid, out);
	} else {
		append_list(input, call, run, seqid, out);
	}
	*out_answered = 1;
	return (gsize)(message.at - input->bytes);
}

static void append_number(const RpcInput *input, const NumberCall *call, gint64 number,
			  const guint8 *seqid, GByteArray *out)
{
	guint8 *to =
		begin_reply(input, &call->reply, seqid, sizeof ID_REPLY.field + sizeof number, out);

	memcpy(to, ID_REPLY.field, sizeof ID_REPLY.field);
	put_number(to + sizeof ID_REPLY.field, number);
}

static gsize answer_number(Service *service, const RpcInput *input, Bytes message,
			   const NumberCall *call, GByteArray *out, guint *out_answered)
{
	const guint8 *seqid = message.at;
	gint64 number;

	if (!skip(&message, sizeof ID_REPLY.seqid) || !close_message(input, &message))
		return 0;
	if (service_get_number(service, call->number, &number))
		append_number(input, call, number, seqid, out);
	else
		refuse_number(service, input, seqid, call->name, out);
	*out_answered = 1;
	return (gsize)(message.at - input->bytes);
}

static gsize answer_get_worker(Service *service, const RpcInput *input, Bytes message,
			       GByteArray *out, guint *out_answered)
{
	const guint8 *seqid = message.at;
	g_auto(ServiceSelf) self = {0};

	if (!skip(&message, sizeof ID_REPLY.seqid) || !close_message(input, &message))
		return 0;
	service_describe_self(service, &self);
	strict_reply_worker(&self, seqid, input->framed, out);
	*out_answered = 1;
	return (gsize)(message.at - input->bytes);
}

gsize fast_path_answer(SfSnowflakeExtendedHandler *handler, const RpcInput *input, GByteArray *out,
		       CounterMethod *out_method, guint *out_answered)
{
	Service *service = SF_SERVICE(handler);
	Bytes message;

	if (!open_message(input, &message))
		return 0;
	if (take_head(&message, &GET_ID)) {
		*out_method = COUNTER_GET_ID;
		return answer_get_id(service, input, message, out, out_answered);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(BATCH_CALLS); i++)
		if (take_head(&message, &BATCH_CALLS[i].call)) {
			*out_method = BATCH_CALLS[i].method;
			return answer_batch(service, input, message, &BATCH_CALLS[i], out,
					    out_answered);
		}
	for (gsize i = 0; i < G_N_ELEMENTS(NUMBER_CALLS); i++)
		if (take_head(&message, &NUMBER_CALLS[i].call)) {
			*out_method = NUMBER_CALLS[i].method;
			return answer_number(service, input, message, &NUMBER_CALLS[i], out,
					     out_answered);
		}
	if (take_head(&message, &GET_WORKER)) {
		*out_method = COUNTER_GET_WORKER;
		return answer_get_worker(service, input, message, out, out_answered);
	}
	return 0;
}
