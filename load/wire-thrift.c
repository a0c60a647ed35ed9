/* SPDX-License-Identifier: Apache-2.0 */

/* Thrift's binary and compact protocols, framed and unframed. */

#include <string.h>

#include "common/thrift/byte-writer.h"
#include "load/scan.h"
#include "load/wire.h"

#define FRAME_BYTES      4
#define MAX_VARINT_BYTES 10

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

static gboolean gives_list(const LoadWire *wire)
{
	return wire->form.call == LOAD_WIRE_GET_IDS;
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

	if (is_compact(wire))
		byte_writer_varint(out, length);
	else
		byte_writer_be32(out, length);
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
	const char *name = load_wire_call_names[wire->form.call];

	if (is_compact(wire)) {
		byte_writer_u8(out, COMPACT_PROTOCOL);
		byte_writer_u8(out, (guint8)(type << COMPACT_TYPE_SHIFT | COMPACT_VERSION));
	} else if (wire->form.protocol == LOAD_WIRE_STRICT || type != MESSAGE_CALL) {
		byte_writer_be32(out, STRICT_VERSION | type);
		append_text(wire, out, name);
	} else {
		append_text(wire, out, name);
		byte_writer_u8(out, (guint8)type);
	}
}

/* In the compact protocol the name comes behind the sequence number. */
static void append_name(const LoadWire *wire, GByteArray *out)
{
	if (is_compact(wire))
		append_text(wire, out, load_wire_call_names[wire->form.call]);
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

/* What comes between the sequence number and the values. */
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
	if (!compact) {
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

static void make_templates(LoadWire *wire)
{
	g_autoptr(GByteArray) start = g_byte_array_new();
	gsize value_bytes = is_compact(wire) ? MAX_VARINT_BYTES : sizeof(gint64);

	make_request(wire);
	append_start(wire, start, MESSAGE_REPLY);
	wire->start_seqid_offset = append_seqid(wire, start);
	append_result(wire, start);
	wire->start_bytes = start->len;
	make_start_words(wire, start);
	wire->largest_reply =
		frame_bytes(wire) + wire->start_bytes + wire->values_per_call * value_bytes + 1;
}

/* The end of the varint at @bytes, or NULL if @end comes first, or it is longer than any. */
static const guint8 *skip_varint(const guint8 *bytes, const guint8 *end)
{
	gsize length = MIN((gsize)(end - bytes), MAX_VARINT_BYTES);

	for (gsize i = 0; i < length; i++) {
		if (bytes[i] < 0x80)
			return bytes + i + 1;
	}
	return NULL;
}

/* (nullable): the end of the values at @at, if they are complete. */
static const guint8 *skip_values(const LoadWire *wire, const guint8 *at, const guint8 *end)
{
	gsize bytes = wire->values_per_call * sizeof(gint64);

	if (!is_compact(wire))
		return bytes <= (gsize)(end - at) ? at + bytes : NULL;
	for (guint i = 0; i < wire->values_per_call && at != NULL; i++)
		at = skip_varint(at, end);
	return at;
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

/* (nullable): the end of the good reply to the call at @message, if there is one, complete. */
static const guint8 *match(const LoadWire *wire, const guint8 *message, const guint8 *end,
			   guint32 call)
{
	const guint8 *at;

	if ((gsize)(end - message) < wire->start_bytes || !has_start(wire, message, call))
		return NULL;
	at = skip_values(wire, message + wire->start_bytes, end);
	return at != NULL && at < end && *at == BINARY_STOP ? at + 1 : NULL;
}

/* Of what is not a good reply: ERROR if it is a reply to the call for all that. */
static LoadWireStatus judge(const LoadWire *wire, const guint8 *message, gsize length, guint32 call)
{
	const char *name = load_wire_call_names[wire->form.call];
	LoadScanHeader header;

	switch (load_scan_header(is_compact(wire), message, length, &header)) {
	case LOAD_SCAN_INCOMPLETE:
		return LOAD_WIRE_INCOMPLETE;
	case LOAD_SCAN_BROKEN:
		return LOAD_WIRE_BROKEN;
	case LOAD_SCAN_COMPLETE:
		break;
	}
	return header.seqid == seqid_of(call) && header.name_bytes == strlen(name) &&
			       memcmp(header.name, name, header.name_bytes) == 0
		       ? LOAD_WIRE_ERROR
		       : LOAD_WIRE_FOREIGN;
}

static LoadWireStatus parse_framed(const LoadWire *wire, const guint8 *data, gsize length,
				   guint32 call, LoadWireReply *out_reply)
{
	const guint8 *message = data + FRAME_BYTES;
	LoadWireStatus status;
	gsize bytes;

	if (length < FRAME_BYTES)
		return LOAD_WIRE_INCOMPLETE;
	bytes = FRAME_BYTES + (gsize)read_u32(data);
	if (bytes > wire->largest_reply)
		return LOAD_WIRE_BROKEN;
	if (bytes > length)
		return LOAD_WIRE_INCOMPLETE;

	if (match(wire, message, data + bytes, call) == data + bytes) {
		*out_reply = (LoadWireReply){data, bytes, message + wire->start_bytes};
		return LOAD_WIRE_VALUES;
	}
	status = judge(wire, message, bytes - FRAME_BYTES, call);
	if (status == LOAD_WIRE_ERROR)
		*out_reply = (LoadWireReply){data, bytes, NULL};
	return status == LOAD_WIRE_INCOMPLETE ? LOAD_WIRE_BROKEN : status;
}

/* Of a reply without a frame that is an error. */
static LoadWireStatus find_end(const LoadWire *wire, const guint8 *data, gsize length,
			       LoadWireReply *out_reply)
{
	LoadScan scan;

	switch (load_scan(is_compact(wire), data, length, &scan)) {
	case LOAD_SCAN_INCOMPLETE:
		return LOAD_WIRE_INCOMPLETE;
	case LOAD_SCAN_COMPLETE:
		*out_reply = (LoadWireReply){data, scan.bytes, NULL};
		return LOAD_WIRE_ERROR;
	case LOAD_SCAN_BROKEN:
		break;
	}
	return LOAD_WIRE_BROKEN;
}

static LoadWireStatus parse_unframed(const LoadWire *wire, const guint8 *data, gsize length,
				     guint32 call, LoadWireReply *out_reply)
{
	const guint8 *end = match(wire, data, data + length, call);
	LoadWireStatus status;

	if (end != NULL) {
		*out_reply = (LoadWireReply){data, (gsize)(end - data), data + wire->start_bytes};
		return LOAD_WIRE_VALUES;
	}
	status = judge(wire, data, length, call);
	if (status == LOAD_WIRE_ERROR)
		status = find_end(wire, data, length, out_reply);
	return status == LOAD_WIRE_INCOMPLETE && length >= wire->largest_reply ? LOAD_WIRE_BROKEN
									       : status;
}

static LoadWireStatus parse(const LoadWire *wire, const guint8 *data, gsize length, guint32 call,
			    LoadWireReply *out_reply)
{
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

static char *error_message(const LoadWire *wire, const LoadWireReply *reply)
{
	gsize before = frame_bytes(wire);
	LoadScan scan;

	if (load_scan(is_compact(wire), reply->bytes + before, reply->length - before, &scan) !=
		    LOAD_SCAN_COMPLETE ||
	    before + scan.bytes != reply->length || scan.text == NULL)
		return NULL;
	return g_strndup(scan.text, scan.text_bytes);
}

const LoadWireCodec load_wire_binary_codec = {
	.make_templates = make_templates,
	.number_requests = number_requests,
	.parse = parse,
	.next_value = next_binary_value,
	.error_message = error_message,
};

const LoadWireCodec load_wire_compact_codec = {
	.make_templates = make_templates,
	.number_requests = number_requests,
	.parse = parse,
	.next_value = next_compact_value,
	.error_message = error_message,
};
