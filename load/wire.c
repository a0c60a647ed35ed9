/* SPDX-License-Identifier: Apache-2.0 */
#include "load/wire.h"

#include <string.h>

#include "common/thrift/byte-writer.h"
#include "common/thrift/scanner.h"
#include "common/thrift/types.h"

const char *const load_wire_call_names[] = {
	"get_id",        "get_ids",           "get_id_runs", "get_timestamp",
	"get_worker_id", "get_datacenter_id", "redis-incr",  NULL,
};
const char *const load_wire_framing_names[] = {"framed", "unframed", NULL};
const char *const load_wire_protocol_names[] = {"strict", "compact", "unversioned", NULL};

/* Thrift: the list of runs in a reply to get_id_runs, from behind the head of its field, or in the
 * binary protocol behind the type of its elements */

#define MAX_VARINT_BYTES 10
#define MAX_HEAD_BYTES   6  /* of the list: a byte and a varint of 32 bits */
#define RUN_BYTES        19 /* in the binary protocol, where they are more than in the other */

/* The bytes that are left. Missing bytes set cut_off, unexpected ones bad. */
typedef struct {
	const guint8 *at;
	gsize left;
	gboolean cut_off;
	gboolean bad;
} Bytes;

static guint8 take_u8(Bytes *self)
{
	if (self->left == 0)
		self->cut_off = TRUE;
	if (self->cut_off || self->bad)
		return 0;
	self->left--;
	return *self->at++;
}

static void take_expected(Bytes *self, guint8 expected)
{
	if (take_u8(self) != expected && !self->cut_off)
		self->bad = TRUE;
}

static guint64 take_big_endian(Bytes *self, guint bytes)
{
	guint64 value = 0;

	for (guint i = 0; i < bytes; i++)
		value = value << 8 | take_u8(self);
	return value;
}

static guint64 take_varint(Bytes *self)
{
	guint64 value = 0;

	for (guint i = 0; i < MAX_VARINT_BYTES; i++) {
		guint8 byte = take_u8(self);

		value |= (guint64)(byte & 0x7f) << 7 * i;
		if (byte < 0x80)
			return value;
	}
	self->bad = TRUE;
	return value;
}

static gint64 take_zigzag(Bytes *self)
{
	guint64 zigzag = take_varint(self);

	return (gint64)(zigzag >> 1 ^ -(zigzag & 1));
}

/* Returns: how many runs the list has */
static guint64 take_head(Bytes *self, gboolean compact)
{
	guint8 head;

	if (!compact)
		return take_big_endian(self, 4);
	head = take_u8(self);
	if ((head & 0x0f) != COMPACT_STRUCT && !self->cut_off)
		self->bad = TRUE;
	return head >> 4 == 15 ? take_varint(self) : head >> 4;
}

static void take_binary_field(Bytes *self, guint8 type, guint8 id)
{
	take_expected(self, type);
	take_expected(self, 0);
	take_expected(self, id);
}

static void take_run(Bytes *self, gboolean compact, gint64 *out_first, gint64 *out_count)
{
	if (compact) {
		take_expected(self, 1 << 4 | COMPACT_I64);
		*out_first = take_zigzag(self);
		take_expected(self, 1 << 4 | COMPACT_I32);
		*out_count = take_zigzag(self);
	} else {
		take_binary_field(self, BINARY_I64, 1);
		*out_first = (gint64)take_big_endian(self, 8);
		take_binary_field(self, BINARY_I32, 2);
		*out_count = (gint32)take_big_endian(self, 4);
	}
	take_expected(self, BINARY_STOP); /* the same in both */
}

/* Returns the length in bytes of a list of runs with @ids IDs in all: 0 if it is no such list, more
 * than @available if it is cut off. */
static gsize runs_length(gboolean compact, const guint8 *bytes, gsize available, guint ids)
{
	Bytes rest = {.at = bytes, .left = available};
	guint64 runs = take_head(&rest, compact);
	gint64 left = ids;

	for (guint64 i = 0; i < runs && !rest.cut_off && !rest.bad; i++) {
		gint64 first, count;

		take_run(&rest, compact, &first, &count);
		if (count >= 1 && count <= left)
			left -= count;
		else if (!rest.cut_off)
			rest.bad = TRUE;
	}
	if (rest.bad)
		return 0;
	if (rest.cut_off)
		return available + 1;
	return left == 0 ? (gsize)(rest.at - bytes) : 0;
}

/* Returns the next ID of a reply whose next_value is at a list of runs. */
static gint64 next_of_runs(gboolean compact, LoadWireReply *reply)
{
	Bytes rest = {.at = reply->next_value, .left = G_MAXSIZE};

	if (!reply->in_runs) {
		take_head(&rest, compact);
		reply->in_runs = TRUE;
	}
	if (reply->left_in_run == 0) {
		gint64 first;

		take_run(&rest, compact, &first, &reply->left_in_run);
		reply->next_in_run = (guint64)first;
	}
	reply->next_value = rest.at;
	reply->left_in_run--;
	return (gint64)reply->next_in_run++;
}

/* Thrift's binary and compact protocols, framed and unframed. */

#define FRAME_BYTES 4

/* Of replies: none nests deeper, and a list may have as many as its bytes allow. */
#define MAX_DEPTH  2
#define MAX_VALUES G_MAXUINT

/* Sequence numbers have 31 bits, of which the highest is set: so they are positive, and in the
 * compact protocol all take five bytes. */
#define SEQID_BASE          (1u << 30)
#define SEQID_MASK          (SEQID_BASE - 1)
#define BINARY_SEQID_BYTES  4
#define COMPACT_SEQID_BYTES 5

static gboolean is_compact(const LoadWire *wire)
{
	return wire->form.protocol == LOAD_WIRE_COMPACT;
}

static gsize frame_bytes(const LoadWire *wire)
{
	return wire->form.framing == LOAD_WIRE_FRAMED ? FRAME_BYTES : 0;
}

static gboolean gives_runs(const LoadWire *wire)
{
	return wire->form.call == LOAD_WIRE_GET_ID_RUNS;
}

static gboolean gives_list(const LoadWire *wire)
{
	return wire->form.call == LOAD_WIRE_GET_IDS || gives_runs(wire);
}

static guint32 read_u32(const guint8 *bytes)
{
	guint32 value;

	memcpy(&value, bytes, sizeof(value));
	return GUINT32_FROM_BE(value);
}

static guint64 read_word(const guint8 *bytes)
{
	guint64 value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Writing */

static void append_text(const LoadWire *wire, GByteArray *out, const char *text)
{
	guint length = (guint)strlen(text);

	if (!is_compact(wire)) {
		byte_writer_text(out, text);
		return;
	}
	byte_writer_varint(out, length);
	g_byte_array_append(out, (const guint8 *)text, length);
}

/* The header of a field whose ID is @step above that of the one before. */
static void append_field(const LoadWire *wire, GByteArray *out, guint8 type, guint8 id, guint8 step)
{
	if (is_compact(wire) && step > 0) {
		byte_writer_u8(out, (guint8)(step << 4 | type));
		return;
	}
	byte_writer_u8(out, type);
	if (!is_compact(wire))
		byte_writer_u8(out, 0);
	byte_writer_u8(out, id); /* 0 in the compact protocol, where zigzag does not change it */
}

/* What comes before the sequence number. */
static void append_start(const LoadWire *wire, GByteArray *out, guint type)
{
	if (is_compact(wire)) {
		byte_writer_u8(out, COMPACT_PROTOCOL);
		byte_writer_u8(out, (guint8)(type << COMPACT_TYPE_SHIFT | COMPACT_VERSION));
	} else if (wire->form.protocol == LOAD_WIRE_STRICT || type != MESSAGE_CALL) {
		byte_writer_be32(out, STRICT_VERSION | type);
		byte_writer_text(out, wire->call_name);
	} else {
		byte_writer_text(out, wire->call_name);
		byte_writer_u8(out, (guint8)type);
	}
}

/* In the compact protocol the name comes after the sequence number. */
static void append_name(const LoadWire *wire, GByteArray *out)
{
	if (is_compact(wire))
		append_text(wire, out, wire->call_name);
}

static guint32 seqid_of(guint32 call)
{
	return SEQID_BASE | (call & SEQID_MASK);
}

/* Returns: where in @out it is */
static gsize append_seqid(const LoadWire *wire, GByteArray *out)
{
	gsize offset = out->len;

	if (is_compact(wire))
		byte_writer_varint(out, SEQID_BASE);
	else
		byte_writer_be32(out, SEQID_BASE);
	return offset;
}

static void set_binary_seqid(guint8 *at, guint32 call)
{
	guint32 big_endian = GUINT32_TO_BE(seqid_of(call));

	memcpy(at, &big_endian, BINARY_SEQID_BYTES);
}

static void set_compact_seqid(guint8 *at, guint32 call)
{
	guint32 left = seqid_of(call);

	for (guint i = 0; i < COMPACT_SEQID_BYTES - 1; i++, left >>= 7)
		at[i] = (guint8)(left | 0x80);
	at[COMPACT_SEQID_BYTES - 1] = (guint8)left;
}

static void thrift_number_requests(const LoadWire *wire, guint8 *requests, guint count,
				   guint32 call)
{
	gboolean compact = is_compact(wire);
	gsize request_bytes = wire->request_bytes;
	guint8 *at = requests + wire->request_seqid_offset;

	for (guint i = 0; i < count; i++, at += request_bytes) {
		if (compact)
			set_compact_seqid(at, call + i);
		else
			set_binary_seqid(at, call + i);
	}
}

static void append_arguments(const LoadWire *wire, GByteArray *out)
{
	gboolean compact = is_compact(wire);
	guint32 count = (guint32)wire->form.count;

	if (wire->form.call == LOAD_WIRE_GET_ID || gives_list(wire)) {
		append_field(wire, out, compact ? COMPACT_STRING : BINARY_STRING, 1, 1);
		append_text(wire, out, wire->form.agent);
	}
	if (gives_list(wire)) {
		append_field(wire, out, compact ? COMPACT_I32 : BINARY_I32, 2, 1);
		if (compact)
			byte_writer_varint(out, count << 1);
		else
			byte_writer_be32(out, count);
	}
	byte_writer_u8(out, BINARY_STOP);
}

static void make_request(LoadWire *wire)
{
	GByteArray *out = g_byte_array_new();
	gsize before = frame_bytes(wire);
	guint32 length;

	if (before > 0)
		byte_writer_be32(out, 0);
	append_start(wire, out, MESSAGE_CALL);
	wire->request_seqid_offset = append_seqid(wire, out);
	append_name(wire, out);
	append_arguments(wire, out);
	length = GUINT32_TO_BE(out->len - (guint)before);
	memcpy(out->data, &length, before);
	wire->request_bytes = out->len;
	wire->request = g_byte_array_free(out, FALSE);
}

/* Reading */

/* What comes between the sequence number and the values; before runs, as far as it is the same
 * however many they are. */
static void append_result(const LoadWire *wire, GByteArray *out)
{
	gboolean compact = is_compact(wire);
	guint32 count = wire->values_per_call;

	append_name(wire, out);
	if (!gives_list(wire)) {
		append_field(wire, out, compact ? COMPACT_I64 : BINARY_I64, 0, 0);
		return;
	}
	append_field(wire, out, compact ? COMPACT_LIST : BINARY_LIST, 0, 0);
	if (gives_runs(wire)) {
		if (!compact)
			byte_writer_u8(out, BINARY_STRUCT);
	} else if (!compact) {
		byte_writer_u8(out, BINARY_I64);
		byte_writer_be32(out, count);
	} else if (count < 15) {
		byte_writer_u8(out, (guint8)(count << 4 | COMPACT_I64));
	} else {
		byte_writer_u8(out, 15 << 4 | COMPACT_I64);
		byte_writer_varint(out, count);
	}
}

/* The last word overlaps the one before. */
static void make_start_words(LoadWire *wire, const GByteArray *start)
{
	gsize seqid_bytes = is_compact(wire) ? COMPACT_SEQID_BYTES : BINARY_SEQID_BYTES;
	g_autofree guint8 *mask = g_malloc(start->len);

	memset(mask, 0xff, start->len);
	memset(mask + wire->start_seqid_offset, 0, seqid_bytes);
	for (gsize offset = 0; offset < start->len; offset += sizeof(guint64)) {
		gsize at = MIN(offset, start->len - sizeof(guint64));

		g_assert(wire->n_start_words < LOAD_WIRE_MAX_START_WORDS);
		wire->start_words[wire->n_start_words++] =
			(LoadWireWord){at, read_word(start->data + at), read_word(mask + at)};
	}
}

static gsize largest_values(const LoadWire *wire)
{
	if (gives_runs(wire))
		return MAX_HEAD_BYTES + (gsize)wire->values_per_call * RUN_BYTES;
	return wire->values_per_call * (is_compact(wire) ? MAX_VARINT_BYTES : sizeof(gint64));
}

static void thrift_make_templates(LoadWire *wire)
{
	g_autoptr(GByteArray) start = g_byte_array_new();

	make_request(wire);
	append_start(wire, start, MESSAGE_REPLY);
	wire->start_seqid_offset = append_seqid(wire, start);
	append_result(wire, start);
	wire->start_bytes = start->len;
	make_start_words(wire, start);
	wire->largest_reply = frame_bytes(wire) + wire->start_bytes + largest_values(wire) + 1;
}

/* Lengths in bytes: 0 if what is there makes no sense, more than @available if it is cut off. */

static gsize varint_length(const guint8 *bytes, gsize available)
{
	gsize most = MIN(available, MAX_VARINT_BYTES);

	for (gsize i = 0; i < most; i++) {
		if (bytes[i] < 0x80)
			return i + 1;
	}
	return most < MAX_VARINT_BYTES ? available + 1 : 0;
}

static gsize values_length(const LoadWire *wire, const guint8 *bytes, gsize available)
{
	gsize length = 0;

	if (gives_runs(wire))
		return runs_length(is_compact(wire), bytes, available, wire->values_per_call);
	if (!is_compact(wire))
		return wire->values_per_call * sizeof(gint64);
	for (guint i = 0; i < wire->values_per_call && length <= available; i++) {
		gsize next = varint_length(bytes + length, available - length);

		if (next == 0)
			return 0;
		length += next;
	}
	return length;
}

static gboolean has_seqid(const LoadWire *wire, const guint8 *message, guint32 call)
{
	const guint8 *at = message + wire->start_seqid_offset;
	guint8 compact[COMPACT_SEQID_BYTES];

	if (!is_compact(wire))
		return read_u32(at) == seqid_of(call);
	set_compact_seqid(compact, call);
	return memcmp(at, compact, COMPACT_SEQID_BYTES) == 0;
}

/* Whether @message, which is as long, begins like a good reply to the call. */
static gboolean has_start(const LoadWire *wire, const guint8 *message, guint32 call)
{
	guint64 differing = 0;

	for (guint i = 0; i < wire->n_start_words; i++) {
		const LoadWireWord *word = &wire->start_words[i];

		differing |= (read_word(message + word->offset) ^ word->value) & word->mask;
	}
	return differing == 0 && has_seqid(wire, message, call);
}

/* Of the good reply to the call; of one that is cut off only where its start is there. */
static gsize good_length(const LoadWire *wire, const guint8 *message, gsize available, guint32 call)
{
	gsize length;

	if (available < wire->start_bytes || !has_start(wire, message, call))
		return 0;
	length = values_length(wire, message + wire->start_bytes, available - wire->start_bytes);
	if (length == 0)
		return 0;
	length += wire->start_bytes + 1;
	return length > available || message[length - 1] == BINARY_STOP ? length : 0;
}

static gboolean is_to_call(const LoadWire *wire, const guint8 *message, const MessageHeader *header,
			   guint32 call)
{
	const char *name = wire->call_name;

	return (guint32)header->seqid == seqid_of(call) && header->name_length == strlen(name) &&
	       memcmp(message + header->name_offset, name, header->name_length) == 0;
}

/* Classifies what is not a good reply: ERROR if it is a reply to the call.
 * @limit: how long it may be
 * @out_length: (out): ERROR only; 0 if what comes after the header makes no sense */
static LoadWireStatus classify_reply(const LoadWire *wire, const guint8 *message, gsize available,
				     gsize limit, guint32 call, gsize *out_length)
{
	WireProtocol protocol = is_compact(wire) ? WIRE_COMPACT : WIRE_STRICT;
	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, MAX_VALUES);
	ScanStatus scan = scanner_scan(scanner, message, available, limit);
	const MessageHeader *header = scanner_header(scanner);

	if (scan == SCAN_MORE && header->arguments_offset == 0)
		return LOAD_WIRE_INCOMPLETE;
	if (scan == SCAN_BAD_HEADER || header->protocol != protocol ||
	    (header->type != MESSAGE_REPLY && header->type != MESSAGE_EXCEPTION))
		return LOAD_WIRE_BROKEN;
	if (!is_to_call(wire, message, header, call))
		return LOAD_WIRE_FOREIGN;
	if (scan == SCAN_MORE)
		return LOAD_WIRE_INCOMPLETE;
	*out_length = header->length;
	return LOAD_WIRE_ERROR;
}

static LoadWireStatus parse_framed(const LoadWire *wire, const guint8 *data, gsize available,
				   guint32 call, LoadWireReply *out_reply)
{
	const guint8 *message = data + FRAME_BYTES;
	LoadWireStatus status;
	gsize bytes, length, scanned;

	if (available < FRAME_BYTES)
		return LOAD_WIRE_INCOMPLETE;
	length = read_u32(data);
	bytes = FRAME_BYTES + length;
	if (length == 0 || bytes > wire->largest_reply)
		return LOAD_WIRE_BROKEN;
	if (bytes > available)
		return LOAD_WIRE_INCOMPLETE;

	if (good_length(wire, message, length, call) == length) {
		*out_reply = (LoadWireReply){
			.bytes = data, .length = bytes, .next_value = message + wire->start_bytes};
		return LOAD_WIRE_VALUES;
	}
	status = classify_reply(wire, message, length, length, call, &scanned);
	if (status == LOAD_WIRE_ERROR)
		*out_reply = (LoadWireReply){.bytes = data, .length = bytes};
	return status;
}

static LoadWireStatus parse_unframed(const LoadWire *wire, const guint8 *data, gsize available,
				     guint32 call, LoadWireReply *out_reply)
{
	gsize length = good_length(wire, data, available, call);
	LoadWireStatus status;

	if (length > available)
		return LOAD_WIRE_INCOMPLETE;
	if (length > 0) {
		*out_reply = (LoadWireReply){
			.bytes = data, .length = length, .next_value = data + wire->start_bytes};
		return LOAD_WIRE_VALUES;
	}
	status = classify_reply(wire, data, available, wire->largest_reply, call, &length);
	if (status == LOAD_WIRE_ERROR && length == 0) /* only a frame tells where the next begins */
		return LOAD_WIRE_BROKEN;
	if (status == LOAD_WIRE_ERROR)
		*out_reply = (LoadWireReply){.bytes = data, .length = length};
	return status;
}

static LoadWireStatus thrift_parse(const LoadWire *wire, const guint8 *data, gsize length,
				   guint32 call, LoadWireReply *out_reply)
{
	/* A TLS alert (RFC 8446, 5.1). No reply begins with these bytes, and as a frame's length
	 * they exceed the limit. */
	if (length >= 2 && data[0] == 21 && data[1] == 3)
		return LOAD_WIRE_TLS;
	if (wire->form.framing == LOAD_WIRE_FRAMED)
		return parse_framed(wire, data, length, call, out_reply);
	return parse_unframed(wire, data, length, call, out_reply);
}

static gint64 thrift_next_value(const LoadWire *wire, LoadWireReply *reply)
{
	Bytes rest = {.at = reply->next_value, .left = G_MAXSIZE};
	gint64 value;

	if (gives_runs(wire))
		return next_of_runs(is_compact(wire), reply);
	value = is_compact(wire) ? take_zigzag(&rest) : (gint64)take_big_endian(&rest, 8);
	reply->next_value = rest.at;
	return value;
}

static char *thrift_error_message(const LoadWire *wire, const LoadWireReply *reply)
{
	const guint8 *message = reply->bytes + frame_bytes(wire);
	gsize length = reply->length - frame_bytes(wire);
	g_autoptr(Scanner) scanner = scanner_new(MAX_DEPTH, MAX_VALUES);
	ScanStatus scan = scanner_scan(scanner, message, length, length);
	const MessageHeader *header = scanner_header(scanner);

	if (scan != SCAN_DONE || header->length != length || header->text_offset == 0)
		return NULL;
	return g_strndup((const char *)message + header->text_offset, header->text_length);
}

static const LoadWireCodec THRIFT_CODEC = {
	.make_templates = thrift_make_templates,
	.number_requests = thrift_number_requests,
	.parse = thrift_parse,
	.next_value = thrift_next_value,
	.error_message = thrift_error_message,
};

/* Redis's protocol, as much of it as INCR takes: ":NUMBER" or "-MESSAGE" on a line. */

static const char REDIS_REQUEST[] = "*2\r\n$4\r\nINCR\r\n$18\r\nsnowflakectl-bench\r\n";

#define MAX_DIGITS 18 /* that 64 bits have room for, whatever they are */

static void redis_make_templates(LoadWire *wire)
{
	wire->request_bytes = sizeof(REDIS_REQUEST) - 1;
	wire->request = g_memdup2(REDIS_REQUEST, wire->request_bytes);
}

static void redis_number_requests(G_GNUC_UNUSED const LoadWire *wire,
				  G_GNUC_UNUSED guint8 *requests, G_GNUC_UNUSED guint count,
				  G_GNUC_UNUSED guint32 call)
{
}

static gboolean is_number(const LoadWireReply *reply)
{
	gsize digits = reply->length - strlen(":\r\n");

	if (reply->bytes[0] != ':' || digits == 0 || digits > MAX_DIGITS)
		return FALSE;
	for (gsize i = 1; i <= digits; i++) {
		if (!g_ascii_isdigit(reply->bytes[i]))
			return FALSE;
	}
	return TRUE;
}

static LoadWireStatus redis_parse(const LoadWire *wire, const guint8 *data, gsize length,
				  G_GNUC_UNUSED guint32 call, LoadWireReply *out_reply)
{
	const guint8 *end = memchr(data, '\n', MIN(length, wire->largest_reply));

	if (length > 0 && data[0] != ':' && data[0] != '-')
		return LOAD_WIRE_BROKEN;
	if (end == NULL)
		return length < wire->largest_reply ? LOAD_WIRE_INCOMPLETE : LOAD_WIRE_BROKEN;
	if (end - data < 2 || end[-1] != '\r')
		return LOAD_WIRE_BROKEN;
	*out_reply = (LoadWireReply){
		.bytes = data,
		.length = (gsize)(end - data) + 1,
		.next_value = data + 1,
	};
	return is_number(out_reply) ? LOAD_WIRE_VALUES : LOAD_WIRE_ERROR;
}

static gint64 redis_next_value(G_GNUC_UNUSED const LoadWire *wire, LoadWireReply *reply)
{
	gint64 value = 0;

	for (; *reply->next_value != '\r'; reply->next_value++)
		value = value * 10 + (*reply->next_value - '0');
	return value;
}

static char *redis_error_message(G_GNUC_UNUSED const LoadWire *wire, const LoadWireReply *reply)
{
	return g_strndup((const char *)reply->bytes + 1, reply->length - strlen("-\r\n"));
}

static const LoadWireCodec REDIS_CODEC = {
	.make_templates = redis_make_templates,
	.number_requests = redis_number_requests,
	.parse = redis_parse,
	.next_value = redis_next_value,
	.error_message = redis_error_message,
};

/* Any wire */

gboolean load_wire_is_batch(LoadWireCall call)
{
	return call == LOAD_WIRE_GET_IDS || call == LOAD_WIRE_GET_ID_RUNS;
}

gboolean load_wire_gives_ids(LoadWireCall call)
{
	return call == LOAD_WIRE_GET_ID || load_wire_is_batch(call) || call == LOAD_WIRE_REDIS_INCR;
}

LoadWire *load_wire_new(const LoadWireForm *form, guint slots)
{
	LoadWire *self = g_new0(LoadWire, 1);

	self->form = *form;
	self->codec = form->call == LOAD_WIRE_REDIS_INCR ? &REDIS_CODEC : &THRIFT_CODEC;
	self->call_name = load_wire_call_names[form->call];
	self->slots = slots;
	self->values_per_call = load_wire_is_batch(form->call) ? (guint)form->count : 1;
	/* the first worker ID and the first datacenter ID are 0 */
	self->least_value =
		form->call == LOAD_WIRE_GET_WORKER_ID || form->call == LOAD_WIRE_GET_DATACENTER_ID
			? 0
			: 1;
	self->codec->make_templates(self);
	self->largest_reply = MAX(self->largest_reply, LOAD_WIRE_MAX_ERROR_BYTES);
	return self;
}

void load_wire_free(LoadWire *self)
{
	if (self == NULL)
		return;
	g_free(self->request);
	g_free(self);
}

char *load_wire_describe_error(const LoadWire *self, const LoadWireReply *reply)
{
	g_autofree char *message = self->codec->error_message(self, reply);
	g_autofree char *escaped = NULL;

	if (message == NULL)
		return g_strdup_printf("a reply of %zu bytes that is neither a result of the call "
				       "nor an exception with a message",
				       reply->length);
	escaped = g_strescape(message, NULL);
	return g_strdup_printf("an exception: %s", escaped);
}
