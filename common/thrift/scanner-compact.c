/* SPDX-License-Identifier: Apache-2.0 */

/* The grammar of Thrift's compact protocol. */
#include "common/thrift/scanner-grammar.h"

/* Of fields. What is missing is no type of a value. */
static const Shape SHAPES[] = {
	[COMPACT_TRUE] = {SHAPE_FIXED, 0},   [COMPACT_FALSE] = {SHAPE_FIXED, 0},
	[COMPACT_BYTE] = {SHAPE_FIXED, 1},   [COMPACT_I16] = {SHAPE_VARINT, 16},
	[COMPACT_I32] = {SHAPE_VARINT, 32},  [COMPACT_I64] = {SHAPE_VARINT, 64},
	[COMPACT_DOUBLE] = {SHAPE_FIXED, 8}, [COMPACT_STRING] = {SHAPE_STRING, 0},
	[COMPACT_LIST] = {SHAPE_LIST, 0},    [COMPACT_SET] = {SHAPE_LIST, 0},
	[COMPACT_MAP] = {SHAPE_MAP, 0},      [COMPACT_STRUCT] = {SHAPE_STRUCT, 0},
};

static ReadStatus field_shape(ByteReader *reader, guint type, Shape *out_shape)
{
	if (type >= G_N_ELEMENTS(SHAPES) || SHAPES[type].kind == SHAPE_NONE)
		return byte_reader_bad(reader, "unknown type");
	*out_shape = SHAPES[type];
	return READ_OK;
}

/* In a container a bool is a byte. */
static ReadStatus item_shape(ByteReader *reader, guint type, Shape *out_shape)
{
	ReadStatus status = field_shape(reader, type, out_shape);

	if (status == READ_OK && out_shape->kind == SHAPE_FIXED && out_shape->size == 0)
		out_shape->size = 1;
	return status;
}

static ReadStatus read_size(ByteReader *reader, guint32 *out_size)
{
	guint64 size = 0;
	ReadStatus status = byte_reader_varint(reader, 32, &size);

	if (status != READ_OK)
		return status;
	if (size > G_MAXINT32)
		return byte_reader_bad(reader, "negative size");
	*out_size = (guint32)size;
	return READ_OK;
}

static ReadStatus read_header(ByteReader *reader, MessageHeader *out_header)
{
	guint8 version_and_type = 0;
	guint64 seqid = 0;
	guint32 name_length = 0;
	gsize name_offset;
	ReadStatus status = byte_reader_skip(reader, 1); /* the first byte, known already */

	if (status == READ_OK)
		status = byte_reader_u8(reader, &version_and_type);
	if (status == READ_OK && (version_and_type & COMPACT_VERSION_MASK) != COMPACT_VERSION)
		return byte_reader_bad(reader, "unknown version of the protocol");
	if (status == READ_OK)
		status = byte_reader_varint(reader, 32, &seqid);
	if (status == READ_OK)
		status = read_size(reader, &name_length);
	name_offset = reader->position;
	if (status == READ_OK)
		status = byte_reader_skip(reader, name_length);
	if (status == READ_OK) {
		out_header->type = version_and_type >> COMPACT_TYPE_SHIFT;
		out_header->seqid = (gint32)(guint32)seqid;
		out_header->name_offset = name_offset;
		out_header->name_length = name_length;
	}
	return status;
}

/* A field ID that does not fit the four bits of its header: a zigzag i16. */
static ReadStatus read_long_id(ByteReader *reader, gint *out_id)
{
	guint64 zigzag = 0;
	ReadStatus status = byte_reader_varint(reader, 16, &zigzag);

	if (status == READ_OK)
		*out_id = (gint)(zigzag >> 1) ^ -(gint)(zigzag & 1);
	return status;
}

static ReadStatus read_field(ByteReader *reader, gint16 last_id, gint16 *out_id, Shape *out_shape)
{
	guint8 head = 0;
	Shape shape = {SHAPE_STOP, 0};
	gint id = 0;
	ReadStatus status = byte_reader_u8(reader, &head);

	if (status == READ_OK && (head & 0x0f) != COMPACT_STOP) {
		status = field_shape(reader, head & 0x0f, &shape);
		id = last_id + (head >> 4);
		if (status == READ_OK && head >> 4 == 0)
			status = read_long_id(reader, &id);
		if (status == READ_OK && id > G_MAXINT16)
			return byte_reader_bad(reader, "field ID out of range");
	}
	if (status == READ_OK) {
		*out_id = (gint16)id;
		*out_shape = shape;
	}
	return status;
}

static ReadStatus read_list(ByteReader *reader, Shape *out_item, guint32 *out_count)
{
	guint8 head = 0;
	Shape item = {SHAPE_NONE, 0};
	guint32 count = 0;
	ReadStatus status = byte_reader_u8(reader, &head);

	if (status == READ_OK)
		status = item_shape(reader, head & 0x0f, &item);
	count = head >> 4;
	if (status == READ_OK && count == 15)
		status = read_size(reader, &count);
	if (status == READ_OK) {
		*out_item = item;
		*out_count = count;
	}
	return status;
}

static ReadStatus read_map(ByteReader *reader, Shape *out_key, Shape *out_value, guint32 *out_count)
{
	guint8 types = 0;
	Shape key = {SHAPE_NONE, 0};
	Shape value = {SHAPE_NONE, 0};
	guint32 count = 0;
	ReadStatus status = read_size(reader, &count);

	if (status == READ_OK && count > 0) { /* an empty map names no types */
		status = byte_reader_u8(reader, &types);
		if (status == READ_OK)
			status = item_shape(reader, types >> 4, &key);
		if (status == READ_OK)
			status = item_shape(reader, types & 0x0f, &value);
	}
	if (status == READ_OK) {
		*out_key = key;
		*out_value = value;
		*out_count = count;
	}
	return status;
}

const ScannerGrammar SCANNER_GRAMMAR_COMPACT = {
	.header = read_header,
	.field = read_field,
	.length = read_size,
	.list = read_list,
	.map = read_map,
};
