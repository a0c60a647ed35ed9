/* SPDX-License-Identifier: Apache-2.0 */
#include "client/wire.h"

#include <string.h>

#define MAX_TEXT_BYTES 512
#define MAX_DEPTH      16 /* of what is skipped: the contract's deepest value has 2 */

/* The next @length bytes, or NULL. */
static const guint8 *take(ClientWireReader *self, gsize length)
{
	if (self->bad || length > self->left) {
		self->bad = TRUE;
		return NULL;
	}

	const guint8 *bytes = self->at;

	self->at += length;
	self->left -= length;
	return bytes;
}

static guint64 read_big_endian(ClientWireReader *self, gsize length)
{
	const guint8 *bytes = take(self, length);
	guint64 value = 0;

	for (gsize i = 0; bytes != NULL && i < length; i++)
		value = value << 8 | bytes[i];
	return value;
}

guint8 client_wire_read_u8(ClientWireReader *self)
{
	return read_big_endian(self, 1);
}

gint16 client_wire_read_i16(ClientWireReader *self)
{
	return (gint16)read_big_endian(self, 2);
}

gint32 client_wire_read_i32(ClientWireReader *self)
{
	return (gint32)read_big_endian(self, 4);
}

gint64 client_wire_read_i64(ClientWireReader *self)
{
	return (gint64)read_big_endian(self, 8);
}

const char *client_wire_read_bytes(ClientWireReader *self, gsize *out_length)
{
	/* a negative length is a huge one, and so too long */
	gsize length = (guint32)client_wire_read_i32(self);
	const guint8 *bytes = take(self, length);

	*out_length = bytes != NULL ? length : 0;
	return bytes != NULL ? (const char *)bytes : "";
}

char *client_wire_read_text(ClientWireReader *self)
{
	gsize length;
	const char *bytes = client_wire_read_bytes(self, &length);

	length = MIN(length, MAX_TEXT_BYTES);

	char *text = g_malloc(length + 1);

	for (gsize i = 0; i < length; i++)
		text[i] = g_ascii_isprint(bytes[i]) ? bytes[i] : '?';
	text[length] = '\0';
	return text;
}

ClientWireType client_wire_read_field(ClientWireReader *self, gint16 *out_id)
{
	ClientWireType type = client_wire_read_u8(self);

	if (type != CLIENT_WIRE_STOP)
		*out_id = client_wire_read_i16(self);
	return self->bad ? CLIENT_WIRE_STOP : type;
}

gsize client_wire_read_list(ClientWireReader *self, ClientWireType type)
{
	ClientWireType element_type = client_wire_read_u8(self);
	gsize size = (guint32)client_wire_read_i32(self);

	/* every element has at least a byte */
	if (element_type != type || size > self->left)
		self->bad = TRUE;
	return self->bad ? 0 : size;
}

static void skip_nested(ClientWireReader *self, ClientWireType type, guint depth);

static void skip_struct(ClientWireReader *self, guint depth)
{
	ClientWireType type;
	gint16 id;

	while ((type = client_wire_read_field(self, &id)) != CLIENT_WIRE_STOP)
		skip_nested(self, type, depth);
}

/* @n_types: 1 for lists and sets, 2 for maps */
static void skip_elements(ClientWireReader *self, guint n_types, guint depth)
{
	ClientWireType types[2] = {0};

	for (guint i = 0; i < n_types; i++)
		types[i] = client_wire_read_u8(self);

	guint32 size = (guint32)client_wire_read_i32(self);

	/* ends with the bytes: skipping a value takes one at least, or sets bad */
	for (guint32 i = 0; i < size && !self->bad; i++) {
		for (guint j = 0; j < n_types; j++)
			skip_nested(self, types[j], depth);
	}
}

static void skip_nested(ClientWireReader *self, ClientWireType type, guint depth)
{
	gsize length;

	if (depth == MAX_DEPTH) {
		self->bad = TRUE;
		return;
	}
	switch (type) {
	case CLIENT_WIRE_BOOL:
	case CLIENT_WIRE_BYTE:
		take(self, 1);
		break;
	case CLIENT_WIRE_I16:
		take(self, 2);
		break;
	case CLIENT_WIRE_I32:
		take(self, 4);
		break;
	case CLIENT_WIRE_DOUBLE:
	case CLIENT_WIRE_I64:
		take(self, 8);
		break;
	case CLIENT_WIRE_STRING:
		client_wire_read_bytes(self, &length);
		break;
	case CLIENT_WIRE_STRUCT:
		skip_struct(self, depth + 1);
		break;
	case CLIENT_WIRE_MAP:
		skip_elements(self, 2, depth + 1);
		break;
	case CLIENT_WIRE_SET:
	case CLIENT_WIRE_LIST:
		skip_elements(self, 1, depth + 1);
		break;
	case CLIENT_WIRE_STOP:
	default:
		self->bad = TRUE;
	}
}

void client_wire_skip(ClientWireReader *self, ClientWireType type)
{
	skip_nested(self, type, 0);
}

void client_wire_write_u8(GByteArray *out, guint8 value)
{
	g_byte_array_append(out, &value, 1);
}

static void write_i16(GByteArray *out, gint16 value)
{
	guint16 bytes = GUINT16_TO_BE((guint16)value);

	g_byte_array_append(out, (const guint8 *)&bytes, sizeof(bytes));
}

void client_wire_write_i32(GByteArray *out, gint32 value)
{
	guint32 bytes = GUINT32_TO_BE((guint32)value);

	g_byte_array_append(out, (const guint8 *)&bytes, sizeof(bytes));
}

void client_wire_write_string(GByteArray *out, const char *value)
{
	gsize length = strlen(value);

	client_wire_write_i32(out, length);
	g_byte_array_append(out, (const guint8 *)value, length);
}

void client_wire_write_field(GByteArray *out, ClientWireType type, gint16 id)
{
	client_wire_write_u8(out, type);
	write_i16(out, id);
}
