/* SPDX-License-Identifier: Apache-2.0 */

/* Thrift's binary and compact protocols, framed and unframed. */

#include <string.h>

#include "common/thrift/byte-writer.h"
#include "common/thrift/scanner.h"
#include "load/wire-runs.h"

#define FRAME_BYTES      4
#define MAX_VARINT_BYTES 10

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

static void number_requests(const LoadWire *wire, guint8 *requests, guint count, guint32 call)
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
		return load_wire_runs_largest(wire->values_per_call);
	return wire->values_per_call * (is_compact(wire) ? MAX_VARINT_BYTES : sizeof(gint64));
}

static void make_templates(LoadWire *wire)
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
		return load_wire_runs_length(is_compact(wire), bytes, available,
					     wire->values_per_call);
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

/* Of what is not a good reply: ERROR if it is a reply to the call for all that.
 * @limit: how long it may be
 * @out_length: (out): ERROR only; 0 if what comes after the header makes no sense */
static LoadWireStatus judge(const LoadWire *wire, const guint8 *message, gsize available,
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
	status = judge(wire, message, length, length, call, &scanned);
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
	status = judge(wire, data, available, wire->largest_reply, call, &length);
	if (status == LOAD_WIRE_ERROR && length == 0) /* only a frame tells where the next begins */
		return LOAD_WIRE_BROKEN;
	if (status == LOAD_WIRE_ERROR)
		*out_reply = (LoadWireReply){.bytes = data, .length = length};
	return status;
}

/* Returns whether @data begins with an alert of TLS (RFC 8446, 5.1). No reply begins with these
 * bytes, and as a frame's length they exceed the limit. */
static gboolean is_tls_alert(const guint8 *data, gsize length)
{
	return length >= 2 && data[0] == 21 && data[1] == 3;
}

static LoadWireStatus parse(const LoadWire *wire, const guint8 *data, gsize length, guint32 call,
			    LoadWireReply *out_reply)
{
	if (is_tls_alert(data, length))
		return LOAD_WIRE_TLS;
	if (wire->form.framing == LOAD_WIRE_FRAMED)
		return parse_framed(wire, data, length, call, out_reply);
	return parse_unframed(wire, data, length, call, out_reply);
}

static gint64 next_binary_value(LoadWireReply *reply)
{
	guint64 value;

	memcpy(&value, reply->next_value, sizeof(value));
	reply->next_value += sizeof(value);
	return (gint64)GUINT64_FROM_BE(value);
}

static gint64 next_compact_value(LoadWireReply *reply)
{
	guint64 zigzag = 0;
	guint8 byte;
	guint shift = 0;

	do {
		byte = *reply->next_value++;
		zigzag |= (guint64)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte >= 0x80);
	return (gint64)(zigzag >> 1 ^ -(zigzag & 1));
}

static gint64 next_value(const LoadWire *wire, LoadWireReply *reply)
{
	if (gives_runs(wire))
		return load_wire_runs_next(is_compact(wire), reply);
	return is_compact(wire) ? next_compact_value(reply) : next_binary_value(reply);
}

static char *error_message(const LoadWire *wire, const LoadWireReply *reply)
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

const LoadWireCodec load_wire_thrift_codec = {
	.make_templates = make_templates,
	.number_requests = number_requests,
	.parse = parse,
	.next_value = next_value,
	.error_message = error_message,
};
