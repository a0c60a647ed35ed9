/* SPDX-License-Identifier: Apache-2.0 */

/* Thrift's generated code takes microseconds per call, mostly for objects that live for only one
 * call. Comparing bytes and filling in a template takes nanoseconds. The remaining cost of a call
 * is its share of the pass: the system calls, a reading of the clock, and a swap of the cursor.
 * Therefore
 *
 * - a call is recognised by its bytes: all of them are fixed, except the arguments;
 * - calls to get_id that differ only in their sequence IDs are a row: clients with many calls in
 * flight send rows, and checking the first call suffices;
 * - the IDs of a row are drawn together. Single draws would get the same IDs if the clock stood
 * still, except that a tick with a random first sequence leaves room for the whole row. */
#include <string.h>

#include "common/thrift/byte-writer.h"
#include "server/codecs.h"

/* The maximum length of a row. The cost of a draw is small compared with this number of replies. A
 * longer row would cost more if nothing is drawn for it, because it is then counted again for each
 * of its calls. */
#define MAX_ROW 128

/* The bytes before the sequence ID: version and type, the length of the name, the name. */
typedef struct {
	const char *bytes;
	gsize length;
} Head;

#define HEAD(text)                                                                                 \
	{                                                                                          \
		text, sizeof(text) - 1                                                             \
	}
/* STRICT_VERSION with MESSAGE_CALL or MESSAGE_REPLY. @length: last byte of the length of the
 * name */
#define CALL(length, name)  HEAD("\x80\1\0\1\0\0\0" length name)
#define REPLY(length, name) HEAD("\x80\1\0\2\0\0\0" length name)

#define NAME_LENGTH_AT 7 /* offset in a head: last byte of the length of the name */

typedef enum { NO_ARGUMENTS, AGENT, AGENT_AND_COUNT } Arguments;

struct _UsualCall {
	Head call, reply;
	const char *name;
	CounterMethod method;
	Arguments arguments;
};

#define USUAL_CALL(length, name, method, arguments)                                                \
	{                                                                                          \
		CALL(length, name), REPLY(length, name), name, method, arguments                   \
	}

static const UsualCall GET_ID = USUAL_CALL("\6", "get_id", COUNTER_GET_ID, AGENT);

static const UsualCall OTHER_CALLS[] = {
	USUAL_CALL("\7", "get_ids", COUNTER_GET_IDS, AGENT_AND_COUNT),
	USUAL_CALL("\13", "get_id_runs", COUNTER_GET_ID_RUNS, AGENT_AND_COUNT),
	USUAL_CALL("\15", "get_timestamp", COUNTER_GET_TIMESTAMP, NO_ARGUMENTS),
	USUAL_CALL("\15", "get_worker_id", COUNTER_GET_WORKER_ID, NO_ARGUMENTS),
	USUAL_CALL("\21", "get_datacenter_id", COUNTER_GET_DATACENTER_ID, NO_ARGUMENTS),
	USUAL_CALL("\12", "get_worker", COUNTER_GET_WORKER, NO_ARGUMENTS),
};

static const guint8 AGENT_FIELD[] = {BINARY_STRING, 0, 1};
static const guint8 COUNT_FIELD[] = {BINARY_I32, 0, 2};

#define SEQID_BYTES 4

/* The bytes of a struct IdRun of the Thrift file. */
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

/* The reply to get_id: frame length, head, sequence ID, the header of the field "success", the ID,
 * stop. In a call, the sequence ID is at the same offset. */
typedef struct {
	guint8 frame[4];
	guint8 head[14];
	guint8 seqid[SEQID_BYTES];
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

/* Reading */

static inline gboolean is_equal_word(const guint8 *one, const guint8 *other)
{
	guint64 a, b;

	memcpy(&a, one, sizeof a);
	memcpy(&b, other, sizeof b);
	return a == b;
}

/* Compares @length bytes, 8 or more. Unlike memcmp(), it is inline, because calls are short. */
static inline gboolean is_equal(const guint8 *one, const guint8 *other, gsize length)
{
	gsize last = length - sizeof(guint64);

	for (gsize at = 0; at < last; at += sizeof(guint64))
		if (!is_equal_word(one + at, other + at))
			return FALSE;
	return is_equal_word(one + last, other + last);
}

/* The unread bytes of a message. */
typedef struct {
	const guint8 *at;
	const guint8 *end;
} Bytes;

static inline gboolean skip_bytes(Bytes *self, gsize length)
{
	if ((gsize)(self->end - self->at) < length)
		return FALSE;
	self->at += length;
	return TRUE;
}

/* Skips @expected. Returns %FALSE if other bytes follow. */
static inline gboolean skip_expected(Bytes *self, const void *expected, gsize length)
{
	if ((gsize)(self->end - self->at) < length || memcmp(self->at, expected, length) != 0)
		return FALSE;
	self->at += length;
	return TRUE;
}

static inline gboolean read_number(Bytes *self, guint32 *out_number)
{
	const guint8 *at = self->at;

	if (!skip_bytes(self, sizeof *out_number))
		return FALSE;
	memcpy(out_number, at, sizeof *out_number);
	*out_number = GUINT32_FROM_BE(*out_number);
	return TRUE;
}

/* Returns how many calls in a row, up to @most, differ from the first only in the sequence ID.
 * Inlined for each framing, which determines the offset of the sequence ID. */
static inline guint count_row(const guint8 *first, gsize call_bytes, gsize seqid_at, gsize most)
{
	gsize behind_at = seqid_at + SEQID_BYTES;
	const guint8 *call = first + call_bytes;
	guint row = 1;

	while (row < most && is_equal(first, call, seqid_at) &&
	       is_equal(first + behind_at, call + behind_at, call_bytes - behind_at)) {
		call += call_bytes;
		row++;
	}
	return row;
}

static inline gsize id_reply_bytes(gboolean framed)
{
	return sizeof ID_REPLY - (framed ? 0 : sizeof ID_REPLY.frame);
}

/* Reads the sequence ID, the agent, the count, and the end of the message. A frame must end where
 * its message ends. */
static inline gboolean read_call(const RpcPass *pass, const UsualCall *usual, Bytes message,
				 WireCall *out_call)
{
	const guint8 *first = pass->bytes + pass->consumed;
	ServiceCall *call = &out_call->call;
	guint32 number;

	out_call->usual = usual;
	out_call->framed = pass->framed;
	out_call->seqid_at = (guint)(message.at - first);
	call->method = usual->method;
	call->agent_length = 0;
	call->n_calls = 1;
	call->is_cheap = TRUE;
	if (!skip_bytes(&message, SEQID_BYTES))
		return FALSE;
	if (usual->arguments != NO_ARGUMENTS) {
		if (!skip_expected(&message, AGENT_FIELD, sizeof AGENT_FIELD) ||
		    !read_number(&message, &number))
			return FALSE;
		call->agent = (const char *)message.at;
		call->agent_length = number;
		if (!skip_bytes(&message, number))
			return FALSE;
	}
	if (usual->arguments == AGENT_AND_COUNT) {
		if (!skip_expected(&message, COUNT_FIELD, sizeof COUNT_FIELD) ||
		    !read_number(&message, &number))
			return FALSE;
		call->count = (gint)number;
	}
	if (message.at == message.end || *message.at != BINARY_STOP)
		return FALSE;
	message.at++;
	if (pass->framed && message.at != message.end)
		return FALSE;
	out_call->call_bytes = (gsize)(message.at - first);
	if (usual->arguments == NO_ARGUMENTS)
		return TRUE;
	call->agent_is_valid = useragent_is_valid(call->agent, call->agent_length);
	/* the Thrift codec reads a NUL as two other bytes */
	return call->agent_is_valid || memchr(call->agent, 0, call->agent_length) == NULL;
}

gboolean usual_call_read(const RpcPass *pass, WireCall *out_call)
{
	const guint8 *first = pass->bytes + pass->consumed;
	gsize available = pass->length - pass->consumed;
	Bytes message = {first, first + available};
	guint32 length;

	if (!pass->framed)
		message.end = first + MIN(available, pass->max_message_bytes);
	else if (!read_number(&message, &length) || length > pass->max_message_bytes ||
		 length > (gsize)(message.end - message.at))
		return FALSE;
	else
		message.end = message.at + length;
	if ((gsize)(message.end - message.at) >= GET_ID.call.length &&
	    is_equal(message.at, (const guint8 *)GET_ID.call.bytes, GET_ID.call.length)) {
		gsize reply_bytes = id_reply_bytes(pass->framed);
		gsize seqid_at = offsetof(IdReply, seqid), most;

		message.at += GET_ID.call.length;
		if (!read_call(pass, &GET_ID, message, out_call))
			return FALSE;
		if (!out_call->call.agent_is_valid)
			return TRUE;
		/* answer all calls of the row for which there is room */
		most = (pass->room - pass->out->len + reply_bytes - 1) / reply_bytes;
		most = MIN(most, available / out_call->call_bytes);
		most = MIN(most, MAX_ROW);
		out_call->call.n_calls =
			pass->framed ? count_row(first, out_call->call_bytes, seqid_at, most)
				     : count_row(first, out_call->call_bytes,
						 seqid_at - sizeof ID_REPLY.frame, most);
		return TRUE;
	}
	if (message.end - message.at <= NAME_LENGTH_AT)
		return FALSE;
	for (gsize i = 0; i < G_N_ELEMENTS(OTHER_CALLS); i++) {
		const Head *head = &OTHER_CALLS[i].call;

		if (head->bytes[NAME_LENGTH_AT] == (char)message.at[NAME_LENGTH_AT] &&
		    skip_expected(&message, head->bytes, head->length))
			return read_call(pass, &OTHER_CALLS[i], message, out_call);
	}
	return FALSE;
}

/* Writing */

static guint8 *make_room(GByteArray *out, gsize bytes)
{
	guint length = out->len;

	g_byte_array_set_size(out, length + (guint)bytes);
	return out->data + length;
}

static inline void put_number(guint8 *to, gint64 number)
{
	guint64 value = GUINT64_TO_BE((guint64)number);

	memcpy(to, &value, sizeof value);
}

/* Inlined for each framing: the first @skipped bytes of the template are omitted. @run is passed by
 * value, so that the compiler knows that no store through @to changes it. */
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

/* Appends a reply without its value, and returns the address for the @value_bytes. */
static inline guint8 *begin_reply(const WireCall *call, const guint8 *seqid, gsize value_bytes,
				  GByteArray *out)
{
	const Head *head = &call->usual->reply;
	gsize length = head->length + SEQID_BYTES + value_bytes + sizeof ID_REPLY.stop;
	guint32 frame = GUINT32_TO_BE((guint32)length);
	guint8 *to = make_room(out, (call->framed ? sizeof frame : 0) + length);

	if (call->framed) {
		memcpy(to, &frame, sizeof frame);
		to += sizeof frame;
	}
	memcpy(to, head->bytes, head->length);
	memcpy(to + head->length, seqid, SEQID_BYTES);
	to[length - sizeof ID_REPLY.stop] = BINARY_STOP;
	return to + head->length + SEQID_BYTES;
}

/* Appends a reply with a list of @size elements, and returns the address for their @bytes. */
static inline guint8 *begin_list(const WireCall *call, const guint8 *seqid, BinaryType type,
				 guint size, gsize bytes, GByteArray *out)
{
	const guint8 field[] = {BINARY_LIST, 0, 0, (guint8)type};
	guint32 count = GUINT32_TO_BE(size);
	guint8 *to = begin_reply(call, seqid, sizeof field + sizeof count + bytes, out);

	memcpy(to, field, sizeof field);
	memcpy(to + sizeof field, &count, sizeof count);
	return to + sizeof field + sizeof count;
}

/* All other replies are written field by field. */

static void append_i32(GByteArray *out, guint8 field, gint32 value)
{
	guint8 bytes[3 + sizeof value] = {BINARY_I32, 0, field};
	guint32 wire_value = GUINT32_TO_BE((guint32)value);

	memcpy(bytes + 3, &wire_value, sizeof wire_value);
	g_byte_array_append(out, bytes, sizeof bytes);
}

static void append_i64(GByteArray *out, guint8 field, gint64 value)
{
	guint8 bytes[3 + sizeof value] = {BINARY_I64, 0, field};

	put_number(bytes + 3, value);
	g_byte_array_append(out, bytes, sizeof bytes);
}

static void append_text(GByteArray *out, guint8 field, const char *text)
{
	guint length = (guint)strlen(text);
	guint8 bytes[3 + sizeof length] = {BINARY_STRING, 0, field};
	guint32 wire_length = GUINT32_TO_BE(length);

	memcpy(bytes + 3, &wire_length, sizeof wire_length);
	g_byte_array_append(out, bytes, sizeof bytes);
	g_byte_array_append(out, (const guint8 *)text, length);
}

/* Returns the offset of the message, after its frame length. */
static guint begin_message(const WireCall *call, const guint8 *seqid, MessageType type,
			   GByteArray *out)
{
	guint start = byte_writer_begin_frame(out, call->framed);

	byte_writer_be32(out, STRICT_VERSION | type);
	byte_writer_text(out, call->usual->name);
	g_byte_array_append(out, seqid, SEQID_BYTES);
	return start;
}

static void end_message(const WireCall *call, guint start, GByteArray *out)
{
	byte_writer_u8(out, BINARY_STOP);
	byte_writer_end_frame(out, call->framed, start);
}

static void append_self(const WireCall *call, const guint8 *seqid,
			const SnowflakeClientWorker *self, GByteArray *out)
{
	guint start = begin_message(call, seqid, MESSAGE_REPLY, out);

	byte_writer_field(out, BINARY_STRUCT, 0);
	append_i32(out, 1, self->datacenter_id);
	append_i32(out, 2, self->worker_id);
	append_text(out, 3, self->address);
	append_text(out, 4, self->nonce);
	append_i64(out, 5, self->claimed_at_ms);
	append_i64(out, 6, self->reserved_until_ms);
	append_text(out, 7, self->state);
	append_i64(out, 8, self->as_of_ms);
	append_text(out, 9, self->kind);
	if (self->server != NULL)
		append_text(out, 11, self->server);
	if (self->registry_id != NULL)
		append_text(out, 12, self->registry_id);
	byte_writer_u8(out, BINARY_STOP);
	end_message(call, start, out);
}

/* Legacy calls are refused with a TApplicationException of type 6 (internal error), other calls
 * with the exceptions that get_ids and get_id_runs declare. */
static void append_refusal(const WireCall *call, const guint8 *seqid, const Refusal *refusal,
			   GByteArray *out)
{
	static const guint8 FIELDS[] = {
		[REFUSAL_CLOCK] = 1,
		[REFUSAL_AGENT] = 2,
		[REFUSAL_WORKER] = 3,
		[REFUSAL_COUNT] = 4,
	};
	gboolean is_typed = call->usual->arguments == AGENT_AND_COUNT;
	guint start = begin_message(call, seqid, is_typed ? MESSAGE_REPLY : MESSAGE_EXCEPTION, out);

	if (is_typed) {
		byte_writer_field(out, BINARY_STRUCT, FIELDS[refusal->kind]);
		append_text(out, 1, refusal->message);
		if (refusal->kind == REFUSAL_WORKER)
			append_i64(out, 2, refusal->retry_after_ms);
		byte_writer_u8(out, BINARY_STOP);
	} else {
		g_autofree char *text = refusal_untyped(refusal);

		append_text(out, 1, text);
		append_i32(out, 2, APPLICATION_INTERNAL_ERROR);
	}
	end_message(call, start, out);
}

static G_NO_INLINE void write_other(const WireCall *call, ServiceOutcome outcome,
				    const ServiceAnswer *answer, RpcPass *pass)
{
	const guint8 *seqid = pass->bytes + pass->consumed + call->seqid_at;
	guint8 *to;

	if (outcome == SERVICE_REFUSED) {
		append_refusal(call, seqid, &answer->refusal, pass->out);
	} else if (call->call.method == COUNTER_GET_IDS) {
		IdRun run = answer->run; /* a copy, for the same reason as in put_ids() */

		to = begin_list(call, seqid, BINARY_I64, run.count, run.count * sizeof(gint64),
				pass->out);
		for (guint i = 0; i < run.count; i++)
			put_number(to + i * sizeof(gint64), id_run_get(&run, i));
	} else if (call->call.method == COUNTER_GET_ID_RUNS) {
		IdRun run = answer->run;
		guint n_runs = id_run_ticks(&run);

		to = begin_list(call, seqid, BINARY_STRUCT, n_runs, n_runs * sizeof RUN_STRUCT,
				pass->out);
		/* one run of IDs for each tick, as the Thrift codec writes them */
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
	} else if (call->call.method == COUNTER_GET_WORKER) {
		append_self(call, seqid, &answer->self, pass->out);
	} else {
		to = begin_reply(call, seqid, sizeof ID_REPLY.field + sizeof answer->number,
				 pass->out);
		memcpy(to, ID_REPLY.field, sizeof ID_REPLY.field);
		put_number(to + sizeof ID_REPLY.field, answer->number);
	}
}

static G_NO_INLINE void write_ids(const WireCall *call, const IdRun *run, RpcPass *pass)
{
	const guint8 *seqid = pass->bytes + pass->consumed + call->seqid_at;
	guint8 *to = make_room(pass->out, run->count * id_reply_bytes(call->framed));

	if (call->framed)
		put_ids(to, 0, *run, seqid, call->call_bytes);
	else
		put_ids(to, sizeof ID_REPLY.frame, *run, seqid, call->call_bytes);
}

/* Calls only two functions, so that each of them saves only the registers that it uses. */
void usual_call_write(const WireCall *call, ServiceOutcome outcome, const ServiceAnswer *answer,
		      RpcPass *pass)
{
	if (outcome == SERVICE_ANSWERED && call->usual == &GET_ID)
		write_ids(call, &answer->run, pass);
	else
		write_other(call, outcome, answer, pass);
}
