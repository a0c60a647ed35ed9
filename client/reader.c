/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reader.h"

#define MAX_TEXT_BYTES 512
#define MAX_DEPTH      16 /* of skipped values; the deepest value in the IDL has 2 */

/* Returns: (nullable): the next @length bytes */
static const guint8 *take_bytes(ClientReader *self, gsize length)
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

static guint64 read_big_endian(ClientReader *self, gsize length)
{
	const guint8 *bytes = take_bytes(self, length);
	guint64 value = 0;

	for (gsize i = 0; bytes != NULL && i < length; i++)
		value = value << 8 | bytes[i];
	return value;
}

gint32 client_reader_i32(ClientReader *self)
{
	return (gint32)read_big_endian(self, 4);
}

gint64 client_reader_i64(ClientReader *self)
{
	return (gint64)read_big_endian(self, 8);
}

const char *client_reader_bytes(ClientReader *self, gsize *out_length)
{
	/* a negative length is a huge one, and so too long */
	gsize length = (guint32)client_reader_i32(self);
	const guint8 *bytes = take_bytes(self, length);

	*out_length = bytes != NULL ? length : 0;
	return bytes != NULL ? (const char *)bytes : "";
}

char *client_reader_text(ClientReader *self)
{
	gsize length;
	const char *bytes = client_reader_bytes(self, &length);

	length = MIN(length, MAX_TEXT_BYTES);

	char *text = g_malloc(length + 1);

	for (gsize i = 0; i < length; i++)
		text[i] = g_ascii_isprint(bytes[i]) ? bytes[i] : '?';
	text[length] = '\0';
	return text;
}

BinaryType client_reader_field(ClientReader *self, gint16 *out_id)
{
	BinaryType type = read_big_endian(self, 1);

	if (type != BINARY_STOP)
		*out_id = (gint16)read_big_endian(self, 2);
	return self->bad ? BINARY_STOP : type;
}

gsize client_reader_list(ClientReader *self, BinaryType type)
{
	BinaryType element_type = read_big_endian(self, 1);
	gsize size = (guint32)client_reader_i32(self);

	/* every element has at least a byte */
	if (element_type != type || size > self->left)
		self->bad = TRUE;
	return self->bad ? 0 : size;
}

gsize client_reader_map(ClientReader *self, BinaryType key, BinaryType value)
{
	BinaryType key_type = read_big_endian(self, 1);

	if (key_type != key)
		self->bad = TRUE;
	return client_reader_list(self, value);
}

static void skip_nested(ClientReader *self, BinaryType type, guint depth);

static void skip_struct(ClientReader *self, guint depth)
{
	BinaryType type;
	gint16 id;

	while ((type = client_reader_field(self, &id)) != BINARY_STOP)
		skip_nested(self, type, depth);
}

/* @n_types: 1 for lists and sets, 2 for maps */
static void skip_elements(ClientReader *self, guint n_types, guint depth)
{
	BinaryType types[2] = {0};

	for (guint i = 0; i < n_types; i++)
		types[i] = read_big_endian(self, 1);

	guint32 size = (guint32)client_reader_i32(self);

	/* ends with the bytes: skipping a value takes one at least, or sets bad */
	for (guint32 i = 0; i < size && !self->bad; i++) {
		for (guint j = 0; j < n_types; j++)
			skip_nested(self, types[j], depth);
	}
}

static void skip_nested(ClientReader *self, BinaryType type, guint depth)
{
	gsize length;

	if (depth == MAX_DEPTH) {
		self->bad = TRUE;
		return;
	}
	switch (type) {
	case BINARY_BOOL:
	case BINARY_BYTE:
		take_bytes(self, 1);
		break;
	case BINARY_I16:
		take_bytes(self, 2);
		break;
	case BINARY_I32:
		take_bytes(self, 4);
		break;
	case BINARY_DOUBLE:
	case BINARY_I64:
		take_bytes(self, 8);
		break;
	case BINARY_STRING:
		client_reader_bytes(self, &length);
		break;
	case BINARY_STRUCT:
		skip_struct(self, depth + 1);
		break;
	case BINARY_MAP:
		skip_elements(self, 2, depth + 1);
		break;
	case BINARY_SET:
	case BINARY_LIST:
		skip_elements(self, 1, depth + 1);
		break;
	case BINARY_STOP:
	default:
		self->bad = TRUE;
	}
}

void client_reader_skip(ClientReader *self, BinaryType type)
{
	skip_nested(self, type, 0);
}
