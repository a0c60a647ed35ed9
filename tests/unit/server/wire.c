/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/server/wire.h"

#include <string.h>

#include "common/thrift/byte-writer.h"

/* Appends an unsigned LEB128 number. */
static inline void write_varint(GByteArray *out, guint32 value)
{
	for (; value >= 0x80; value >>= 7)
		byte_writer_u8(out, (guint8)(value | 0x80));
	byte_writer_u8(out, (guint8)value);
}

static gboolean is_framed(WireForm form)
{
	return form < FORM_UNFRAMED_STRICT;
}

static gboolean is_compact(WireForm form)
{
	return form == FORM_FRAMED_COMPACT || form == FORM_UNFRAMED_COMPACT;
}

static gboolean is_strict(WireForm form)
{
	return form == FORM_FRAMED_STRICT || form == FORM_UNFRAMED_STRICT;
}

static void append_zigzag(GByteArray *out, gint32 value)
{
	write_varint(out, (guint32)value << 1 ^ (value < 0 ? G_MAXUINT32 : 0));
}

GByteArray *wire_message(WireForm form, const char *method, guint8 type, gint32 seqid,
			 const GByteArray *body)
{
	GByteArray *out = g_byte_array_new();

	if (is_compact(form)) {
		byte_writer_u8(out, COMPACT_PROTOCOL);
		byte_writer_u8(out, (guint8)(type << COMPACT_TYPE_SHIFT | COMPACT_VERSION));
		write_varint(out, (guint32)seqid);
		write_varint(out, (guint32)strlen(method));
		g_byte_array_append(out, (const guint8 *)method, (guint)strlen(method));
	} else {
		if (is_strict(form))
			byte_writer_be32(out, STRICT_VERSION | type);
		byte_writer_text(out, method);
		if (!is_strict(form))
			byte_writer_u8(out, type);
		byte_writer_be32(out, (guint32)seqid);
	}
	g_byte_array_append(out, body->data, body->len);
	return out;
}

WireBody wire_body(WireForm form)
{
	return (WireBody){.form = form, .bytes = g_byte_array_new()};
}

static void append_field(WireBody *self, gint16 id, BinaryType binary_type,
			 CompactType compact_type)
{
	gint delta = id - self->last_id;

	self->last_id = id;
	if (!is_compact(self->form)) {
		byte_writer_field(self->bytes, binary_type, id);
	} else if (delta >= 1 && delta <= 15) {
		byte_writer_u8(self->bytes, (guint8)((guint)delta << 4 | compact_type));
	} else {
		byte_writer_u8(self->bytes, (guint8)compact_type);
		append_zigzag(self->bytes, id);
	}
}

void wire_body_text(WireBody *self, gint16 id, const char *text, gsize length)
{
	append_field(self, id, BINARY_STRING, COMPACT_STRING);
	if (is_compact(self->form))
		write_varint(self->bytes, (guint32)length);
	else
		byte_writer_be32(self->bytes, (guint32)length);
	g_byte_array_append(self->bytes, (const guint8 *)text, (guint)length);
}

void wire_body_i32(WireBody *self, gint16 id, gint32 value)
{
	append_field(self, id, BINARY_I32, COMPACT_I32);
	if (is_compact(self->form))
		append_zigzag(self->bytes, value);
	else
		byte_writer_be32(self->bytes, (guint32)value);
}

void wire_body_other(WireBody *self, gint16 id, guint kind)
{
	static const struct {
		guint8 type;
		const char *value;
		guint length;
	} BINARY[WIRE_BODY_OTHERS] = {
		{BINARY_BOOL, "\1", 1},
		{BINARY_BYTE, "\x7f", 1},
		{BINARY_I16, "\0\1", 2},
		{BINARY_I64, "\0\0\0\0\0\0\0\1", 8},
		{BINARY_DOUBLE, "\x3f\xf0\0\0\0\0\0\0", 8},
		{BINARY_LIST, "\x8\0\0\0\1\0\0\0\2", 9},             /* one i32 */
		{BINARY_STRUCT, "\xb\0\1\0\0\0\1x\0", 9},            /* one string */
		{BINARY_MAP, "\xb\x8\0\0\0\1\0\0\0\1k\0\0\0\5", 15}, /* one string and i32 */
		{BINARY_LIST, "\2\0\0\0\2\1\0", 7},                  /* two bools */
	};
	static const struct {
		guint8 type;
		const char *value;
		guint length;
	} COMPACT[WIRE_BODY_OTHERS] = {
		{COMPACT_TRUE, "", 0},
		{COMPACT_BYTE, "\x7f", 1},
		{COMPACT_I16, "\2", 1},
		{COMPACT_I64, "\2", 1},
		{COMPACT_DOUBLE, "\x3f\xf0\0\0\0\0\0\0", 8},
		{COMPACT_LIST, "\x15\4", 2},
		{COMPACT_STRUCT, "\x18\1x\0", 4},
		{COMPACT_MAP, "\1\x85\1k\12", 5},
		{COMPACT_LIST, "\x21\1\2", 3},
	};

	append_field(self, id, BINARY[kind].type, COMPACT[kind].type);
	if (is_compact(self->form))
		g_byte_array_append(self->bytes, (const guint8 *)COMPACT[kind].value,
				    COMPACT[kind].length);
	else
		g_byte_array_append(self->bytes, (const guint8 *)BINARY[kind].value,
				    BINARY[kind].length);
}

GByteArray *wire_body_end(WireBody *self)
{
	byte_writer_u8(self->bytes, BINARY_STOP);
	return g_steal_pointer(&self->bytes);
}

GByteArray *wire_agent(WireForm form, const char *agent)
{
	WireBody body = wire_body(form);

	if (agent != NULL)
		wire_body_text(&body, 1, agent, strlen(agent));
	return wire_body_end(&body);
}

void wire_append(WireForm form, const GByteArray *message, GByteArray *out)
{
	if (is_framed(form))
		byte_writer_be32(out, message->len);
	g_byte_array_append(out, message->data, message->len);
}

void wire_get_id(WireForm form, gint32 seqid, const char *agent, GByteArray *out)
{
	g_autoptr(GByteArray) body = wire_agent(form, agent);
	g_autoptr(GByteArray) message = wire_message(form, "get_id", MESSAGE_CALL, seqid, body);

	wire_append(form, message, out);
}
