/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/service/wire.h"

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

GByteArray *wire_message(WireForm form, const char *method, guint8 type, guint8 seqid,
			 const GByteArray *body)
{
	GByteArray *out = g_byte_array_new();

	if (is_compact(form)) {
		append_u8(out, 0x82);
		append_u8(out, (guint8)(type << 5 | 1));
		append_u8(out, seqid & 0x7f);
		append_u8(out, (guint8)strlen(method));
		append_text(out, method);
	} else {
		if (is_strict(form))
			append_be32(out, 0x80010000 | type);
		append_be32(out, (guint32)strlen(method));
		append_text(out, method);
		if (!is_strict(form))
			append_u8(out, type);
		append_be32(out, seqid);
	}
	g_byte_array_append(out, body->data, body->len);
	return out;
}

GByteArray *wire_agent(WireForm form, const char *agent)
{
	GByteArray *out = g_byte_array_new();

	if (agent != NULL && is_compact(form)) {
		append_u8(out, 0x18);
		append_u8(out, (guint8)strlen(agent));
		append_text(out, agent);
	} else if (agent != NULL) {
		g_byte_array_append(out, (const guint8 *)"\13\0\1", 3);
		append_be32(out, (guint32)strlen(agent));
		append_text(out, agent);
	}
	append_u8(out, 0);
	return out;
}

void wire_append(WireForm form, const GByteArray *message, GByteArray *out)
{
	if (is_framed(form))
		append_be32(out, message->len);
	g_byte_array_append(out, message->data, message->len);
}

void wire_get_id(WireForm form, guint8 seqid, const char *agent, GByteArray *out)
{
	g_autoptr(GByteArray) body = wire_agent(form, agent);
	g_autoptr(GByteArray) message = wire_message(form, "get_id", 1, seqid, body);

	wire_append(form, message, out);
}
