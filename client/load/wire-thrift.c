/* SPDX-License-Identifier: Apache-2.0 */

/* Thrift's binary and compact protocols, framed and unframed. */

#include <string.h>

#include "client/load/scan.h"
#include "client/load/wire.h"

enum { BINARY_STOP = 0, BINARY_I32 = 8, BINARY_I64 = 10, BINARY_STRING = 11, BINARY_LIST = 15 };
enum { COMPACT_I32 = 5, COMPACT_I64 = 6, COMPACT_STRING = 8, COMPACT_LIST = 9 };
enum { MESSAGE_CALL = 1, MESSAGE_REPLY = 2 };

#define STRICT_VERSION   0x80010000u
#define COMPACT_PROTOCOL 0x82
#define COMPACT_VERSION  1
#define FRAME_BYTES      4
#define MAX_VARINT_BYTES 10

/* In the compact protocol, sequence numbers below this take one byte each. Where there are more
 * slots, all take three, which they do from FIRST_LONG_SEQID on: requests are equally long. */
#define SHORT_SEQIDS     128
#define FIRST_LONG_SEQID (1u << 14)

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

/* Writing */

static void append_u8(GByteArray *out, guint8 value)
{
	g_byte_array_append(out, &value, 1);
}

static void append_u32(GByteArray *out, guint32 value)
{
	guint32 big_endian = GUINT32_TO_BE(value);

	g_byte_array_append(out, (const guint8 *)&big_endian, sizeof(big_endian));
}

static void append_varint(GByteArray *out, guint32 value)
{
	for (; value >= 0x80; value >>= 7)
		append_u8(out, (guint8)(value | 0x80));
	append_u8(out, (guint8)value);
}

static void append_text(const LoadWire *wire, GByteArray *out, const char *text)
{
	guint length = (guint)strlen(text);

	if (is_compact(wire))
		append_varint(out, length);
	else
		append_u32(out, length);
	g_byte_array_append(out, (const guint8 *)text, length);
}

/* The header of a field whose ID is @step above that of the one before. */
static void append_field(const LoadWire *wire, GByteArray *out, guint8 type, guint8 id, guint8 step)
{
	if (is_compact(wire) && step > 0) {
		append_u8(out, (guint8)(step << 4 | type));
		return;
	}
	append_u8(out, type);
	if (!is_compact(wire))
		append_u8(out, 0);
	append_u8(out, id); /* 0 in the compact protocol, where zigzag does not change it */
}

/* What comes before the sequence number. */
static void append_start(const LoadWire *wire, GByteArray *out, guint type)
{
	const char *name = load_wire_call_names[wire->form.call];

	if (is_compact(wire)) {
		append_u8(out, COMPACT_PROTOCOL);
		append_u8(out, (guint8)(type << 5 | COMPACT_VERSION));
	} else if (wire->form.protocol == LOAD_WIRE_STRICT || type != MESSAGE_CALL) {
		append_u32(out, STRICT_VERSION | type);
		append_text(wire, out, name);
	} else {
		append_text(wire, out, name);
		append_u8(out, (guint8)type);
	}
}

/* In the compact protocol the name comes behind the sequence number. */
static void append_name(const LoadWire *wire, GByteArray *out)
{
	if (is_compact(wire))
		append_text(wire, out, load_wire_call_names[wire->form.call]);
}

static void append_seqid(const LoadWire *wire, GByteArray *out, guint slot)
{
	if (is_compact(wire))
		append_varint(out, wire->slots > SHORT_SEQIDS ? FIRST_LONG_SEQID + slot : slot);
	else
		append_u32(out, slot);
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
			append_varint(out, count << 1);
		else
			append_u32(out, count);
	}
	append_u8(out, BINARY_STOP);
}

static void append_request(const LoadWire *wire, guint slot, GByteArray *out)
{
	guint begin = out->len;
	guint message;
	guint32 length;

	if (frame_bytes(wire) > 0)
		append_u32(out, 0);
	message = out->len;
	append_start(wire, out, MESSAGE_CALL);
	append_seqid(wire, out, slot);
	append_name(wire, out);
	append_arguments(wire, out);
	length = GUINT32_TO_BE(out->len - message);
	memcpy(out->data + begin, &length, message - begin);
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
		append_u8(out, BINARY_I64);
		append_u32(out, count);
	} else if (count < 15) {
		append_u8(out, (guint8)(count << 4 | COMPACT_I64));
	} else {
		append_u8(out, 15 << 4 | COMPACT_I64);
		append_varint(out, count);
	}
}

static void make_template(LoadWire *wire)
{
	gsize value_bytes = is_compact(wire) ? MAX_VARINT_BYTES : sizeof(gint64);

	for (guint slot = 0; slot < wire->slots; slot++) {
		append_start(wire, wire->starts, MESSAGE_REPLY);
		append_seqid(wire, wire->starts, slot);
		append_result(wire, wire->starts);
	}
	wire->start_bytes = wire->starts->len / wire->slots;
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

/* (nullable): the end of the good reply to @slot at @message, if there is one, complete. */
static const guint8 *match(const LoadWire *wire, const guint8 *message, const guint8 *end,
			   guint slot)
{
	const guint8 *at;

	if ((gsize)(end - message) < wire->start_bytes ||
	    memcmp(message, wire->starts->data + slot * wire->start_bytes, wire->start_bytes) != 0)
		return NULL;
	at = skip_values(wire, message + wire->start_bytes, end);
	return at != NULL && at < end && *at == BINARY_STOP ? at + 1 : NULL;
}

static LoadWireStatus parse_framed(const LoadWire *wire, const guint8 *data, gsize length,
				   guint slot, LoadWireReply *out_reply)
{
	gsize bytes;
	gboolean good;

	if (length < FRAME_BYTES)
		return LOAD_WIRE_INCOMPLETE;
	bytes = FRAME_BYTES + (gsize)read_u32(data);
	if (bytes > wire->largest_reply)
		return LOAD_WIRE_BROKEN;
	if (bytes > length)
		return LOAD_WIRE_INCOMPLETE;

	good = match(wire, data + FRAME_BYTES, data + bytes, slot) == data + bytes;
	*out_reply = (LoadWireReply){data, bytes, data + FRAME_BYTES + wire->start_bytes};
	return good ? LOAD_WIRE_VALUES : LOAD_WIRE_ERROR;
}

static LoadWireStatus parse_unframed(const LoadWire *wire, const guint8 *data, gsize length,
				     guint slot, LoadWireReply *out_reply)
{
	const guint8 *end = match(wire, data, data + length, slot);
	LoadScan scan;

	if (end != NULL) {
		*out_reply = (LoadWireReply){data, (gsize)(end - data), data + wire->start_bytes};
		return LOAD_WIRE_VALUES;
	}
	switch (load_scan(is_compact(wire), data, length, &scan)) {
	case LOAD_SCAN_INCOMPLETE:
		return length < wire->largest_reply ? LOAD_WIRE_INCOMPLETE : LOAD_WIRE_BROKEN;
	case LOAD_SCAN_COMPLETE:
		*out_reply = (LoadWireReply){data, scan.bytes, NULL};
		return LOAD_WIRE_ERROR;
	case LOAD_SCAN_BROKEN:
		break;
	}
	return LOAD_WIRE_BROKEN;
}

static LoadWireStatus parse(const LoadWire *wire, const guint8 *data, gsize length, guint slot,
			    LoadWireReply *out_reply)
{
	if (wire->form.framing == LOAD_WIRE_FRAMED)
		return parse_framed(wire, data, length, slot, out_reply);
	return parse_unframed(wire, data, length, slot, out_reply);
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
	.append_request = append_request,
	.make_template = make_template,
	.parse = parse,
	.next_value = next_binary_value,
	.error_message = error_message,
};

const LoadWireCodec load_wire_compact_codec = {
	.append_request = append_request,
	.make_template = make_template,
	.parse = parse,
	.next_value = next_compact_value,
	.error_message = error_message,
};
