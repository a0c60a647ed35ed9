/* SPDX-License-Identifier: Apache-2.0 */
#include "common/thrift/reader.h"

#define MAX_TEXT_BYTES 512
/* maximum nesting of skipped values; the IDL nests values at most 2 levels deep */
#define MAX_DEPTH      16

const guint8 *thrift_reader_take(ThriftReader *self, gsize length)
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

static guint64 read_big_endian(ThriftReader *self, gsize length)
{
	const guint8 *bytes = thrift_reader_take(self, length);
	guint64 value = 0;

	for (gsize i = 0; bytes != NULL && i < length; i++)
		value = value << 8 | bytes[i];
	return value;
}

gint32 thrift_reader_i32(ThriftReader *self)
{
	return (gint32)read_big_endian(self, 4);
}

gint64 thrift_reader_i64(ThriftReader *self)
{
	return (gint64)read_big_endian(self, 8);
}

guint32 thrift_reader_varint(ThriftReader *self)
{
	guint64 value = 0;
	guint shift = 0;
	guint8 byte;

	do {
		byte = (guint8)read_big_endian(self, 1);
		value |= (guint64)(byte & 0x7f) << shift;
		shift += 7;
	} while ((byte & 0x80) != 0 && shift < 35);
	if ((byte & 0x80) != 0 || value > G_MAXUINT32)
		self->bad = TRUE;
	return self->bad ? 0 : (guint32)value;
}

const char *thrift_reader_bytes(ThriftReader *self, gsize *out_length)
{
	/* a negative length becomes a huge one, which exceeds the message */
	gsize length = (guint32)thrift_reader_i32(self);
	const guint8 *bytes = thrift_reader_take(self, length);

	*out_length = bytes != NULL ? length : 0;
	return bytes != NULL ? (const char *)bytes : "";
}

char *thrift_reader_text(ThriftReader *self)
{
	gsize length;
	const char *bytes = thrift_reader_bytes(self, &length);

	length = MIN(length, MAX_TEXT_BYTES);

	char *text = g_malloc(length + 1);

	for (gsize i = 0; i < length; i++)
		text[i] = g_ascii_isprint(bytes[i]) ? bytes[i] : '?';
	text[length] = '\0';
	return text;
}

void thrift_reader_header(ThriftReader *self, ThriftHeader *out_header)
{
	ThriftReader unversioned = *self;
	guint32 version = (guint32)thrift_reader_i32(self);

	out_header->is_strict = (version & STRICT_VERSION_MASK) == STRICT_VERSION;
	out_header->type = version & STRICT_TYPE_MASK;
	if (!out_header->is_strict)
		*self = unversioned;
	out_header->name = thrift_reader_bytes(self, &out_header->name_length);
	if (!out_header->is_strict)
		out_header->type = (guint)read_big_endian(self, 1);
	out_header->seqid = thrift_reader_i32(self);
}

BinaryType thrift_reader_field(ThriftReader *self, gint16 *out_id)
{
	BinaryType type = read_big_endian(self, 1);

	if (type != BINARY_STOP)
		*out_id = (gint16)read_big_endian(self, 2);
	return self->bad ? BINARY_STOP : type;
}

gsize thrift_reader_list(ThriftReader *self, BinaryType type)
{
	BinaryType element_type = read_big_endian(self, 1);
	gsize size = (guint32)thrift_reader_i32(self);

	/* every element has at least one byte, so this bounds the count */
	if (element_type != type || size > self->left)
		self->bad = TRUE;
	return self->bad ? 0 : size;
}

gsize thrift_reader_map(ThriftReader *self, BinaryType key, BinaryType value)
{
	BinaryType key_type = read_big_endian(self, 1);

	if (key_type != key)
		self->bad = TRUE;
	return thrift_reader_list(self, value);
}

static void skip_value(ThriftReader *self, BinaryType type, guint depth)
{
	static const guint8 SIZES[] = {
		[BINARY_BOOL] = 1, [BINARY_BYTE] = 1, [BINARY_DOUBLE] = 8,
		[BINARY_I16] = 2,  [BINARY_I32] = 4,  [BINARY_I64] = 8,
	};
	BinaryType item_type;
	gsize length;
	gint16 id;

	if (depth > MAX_DEPTH) {
		self->bad = TRUE;
	} else if (type < G_N_ELEMENTS(SIZES) && SIZES[type] > 0) {
		thrift_reader_take(self, SIZES[type]);
	} else if (type == BINARY_STRING) {
		thrift_reader_bytes(self, &length);
	} else if (type == BINARY_STRUCT) {
		while ((item_type = thrift_reader_field(self, &id)) != BINARY_STOP)
			skip_value(self, item_type, depth + 1);
	} else if (type == BINARY_MAP || type == BINARY_SET || type == BINARY_LIST) {
		BinaryType types[2];
		guint64 n_items;

		types[0] = read_big_endian(self, 1);
		types[1] = type == BINARY_MAP ? read_big_endian(self, 1) : types[0];
		n_items = (guint32)thrift_reader_i32(self);
		if (type == BINARY_MAP)
			n_items *= 2;
		/* the loop ends with the bytes, because each value takes at least one byte or sets
		 * bad */
		for (guint64 i = 0; i < n_items && !self->bad; i++)
			skip_value(self, types[i % 2], depth + 1);
	} else {
		self->bad = TRUE;
	}
}

void thrift_reader_skip(ThriftReader *self, BinaryType type)
{
	skip_value(self, type, 1);
}
