/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/server/wire.h"

#include <string.h>

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

static void append_u8(GByteArray *out, guint8 byte)
{
	g_byte_array_append(out, &byte, 1);
}

static void append_be32(GByteArray *out, guint32 value)
{
	value = GUINT32_TO_BE(value);
	g_byte_array_append(out, (const guint8 *)&value, sizeof value);
}

static void append_text(GByteArray *out, const char *text)
{
	g_byte_array_append(out, (const guint8 *)text, (guint)strlen(text));
}

static void append_be16(GByteArray *out, guint16 value)
{
	value = GUINT16_TO_BE(value);
	g_byte_array_append(out, (const guint8 *)&value, sizeof value);
}

static void append_varint(GByteArray *out, guint32 value)
{
	for (; value > 0x7f; value >>= 7)
		append_u8(out, (guint8)(value | 0x80));
	append_u8(out, (guint8)value);
}

static void append_zigzag(GByteArray *out, gint32 value)
{
	append_varint(out, (guint32)value << 1 ^ (value < 0 ? G_MAXUINT32 : 0));
}

GByteArray *wire_message(WireForm form, const char *method, guint8 type, gint32 seqid,
			 const GByteArray *body)
{
	GByteArray *out = g_byte_array_new();

	if (is_compact(form)) {
		append_u8(out, 0x82);
		append_u8(out, (guint8)(type << 5 | 1));
		append_varint(out, (guint32)seqid);
		append_u8(out, (guint8)strlen(method));
		append_text(out, method);
	} else {
		if (is_strict(form))
			append_be32(out, 0x80010000 | type);
		append_be32(out, (guint32)strlen(method));
		append_text(out, method);
		if (!is_strict(form))
			append_u8(out, type);
		append_be32(out, (guint32)seqid);
	}
	g_byte_array_append(out, body->data, body->len);
	return out;
}

WireBody wire_body(WireForm form)
{
	return (WireBody){.form = form, .bytes = g_byte_array_new()};
}

static void append_field(WireBody *self, gint16 id, guint8 binary_type, guint8 compact_type)
{
	gint delta = id - self->last_id;

	self->last_id = id;
	if (!is_compact(self->form)) {
		append_u8(self->bytes, binary_type);
		append_be16(self->bytes, (guint16)id);
	} else if (delta >= 1 && delta <= 15) {
		append_u8(self->bytes, (guint8)((guint)delta << 4 | compact_type));
	} else {
		append_u8(self->bytes, compact_type);
		append_zigzag(self->bytes, id);
	}
}

void wire_body_text(WireBody *self, gint16 id, const char *text, gsize length)
{
	append_field(self, id, 11, 8);
	if (is_compact(self->form))
		append_varint(self->bytes, (guint32)length);
	else
		append_be32(self->bytes, (guint32)length);
	g_byte_array_append(self->bytes, (const guint8 *)text, (guint)length);
}

void wire_body_i32(WireBody *self, gint16 id, gint32 value)
{
	append_field(self, id, 8, 5);
	if (is_compact(self->form))
		append_zigzag(self->bytes, value);
	else
		append_be32(self->bytes, (guint32)value);
}

void wire_body_other(WireBody *self, gint16 id, guint kind)
{
	static const struct {
		guint8 type;
		const char *value;
		guint length;
	} BINARY[WIRE_BODY_OTHERS] = {
		{2, "\1", 1},                                /* bool */
		{3, "\x7f", 1},                              /* byte */
		{6, "\0\1", 2},                              /* i16 */
		{10, "\0\0\0\0\0\0\0\1", 8},                 /* i64 */
		{4, "\x3f\xf0\0\0\0\0\0\0", 8},              /* double */
		{15, "\x8\0\0\0\1\0\0\0\2", 9},              /* list of one i32 */
		{12, "\xb\0\1\0\0\0\1x\0", 9},               /* struct of a string */
		{13, "\xb\x8\0\0\0\1\0\0\0\1k\0\0\0\5", 15}, /* map from string to i32 */
		{15, "\2\0\0\0\2\1\0", 7},                   /* list of two bools */
	};
	static const struct {
		guint8 type;
		const char *value;
		guint length;
	} COMPACT[WIRE_BODY_OTHERS] = {
		{1, "", 0},
		{3, "\x7f", 1},
		{4, "\2", 1},
		{6, "\2", 1},
		{7, "\x3f\xf0\0\0\0\0\0\0", 8},
		{9, "\x15\4", 2},
		{12, "\x18\1x\0", 4},
		{11, "\1\x85\1k\12", 5},
		{9, "\x21\1\2", 3},
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
	append_u8(self->bytes, 0);
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
		append_be32(out, message->len);
	g_byte_array_append(out, message->data, message->len);
}

void wire_get_id(WireForm form, gint32 seqid, const char *agent, GByteArray *out)
{
	g_autoptr(GByteArray) body = wire_agent(form, agent);
	g_autoptr(GByteArray) message = wire_message(form, "get_id", 1, seqid, body);

	wire_append(form, message, out);
}
