/* SPDX-License-Identifier: Apache-2.0 */

/* The grammar of Thrift's binary protocol, with its two kinds of header. */
#include "common/thrift/scanner-grammar.h"

/* What is missing is no type of a value. */
static const Shape SHAPES[] = {
	[BINARY_BOOL] = {SHAPE_FIXED, 1},    [BINARY_BYTE] = {SHAPE_FIXED, 1},
	[BINARY_DOUBLE] = {SHAPE_FIXED, 8},  [BINARY_I16] = {SHAPE_FIXED, 2},
	[BINARY_I32] = {SHAPE_FIXED, 4},     [BINARY_I64] = {SHAPE_FIXED, 8},
	[BINARY_STRING] = {SHAPE_STRING, 0}, [BINARY_STRUCT] = {SHAPE_STRUCT, 0},
	[BINARY_MAP] = {SHAPE_MAP, 0},       [BINARY_SET] = {SHAPE_LIST, 0},
	[BINARY_LIST] = {SHAPE_LIST, 0},
};

static ReadStatus read_shape(ByteReader *reader, Shape *out_shape)
{
	guint8 type = 0;
	ReadStatus status = byte_reader_u8(reader, &type);

	if (status != READ_OK)
		return status;
	if (type >= G_N_ELEMENTS(SHAPES) || SHAPES[type].kind == SHAPE_NONE)
		return byte_reader_bad(reader, "unknown type");
	*out_shape = SHAPES[type];
	return READ_OK;
}

/* A length or a count: an i32 that must not be negative. */
static ReadStatus read_size(ByteReader *reader, guint32 *out_size)
{
	guint32 size = 0;
	ReadStatus status = byte_reader_be32(reader, &size);

	if (status != READ_OK)
		return status;
	if (size > G_MAXINT32)
		return byte_reader_bad(reader, "negative size");
	*out_size = size;
	return READ_OK;
}

static ReadStatus read_name(ByteReader *reader, MessageHeader *header)
{
	guint32 length = 0;
	ReadStatus status = read_size(reader, &length);

	if (status != READ_OK)
		return status;
	header->name_offset = reader->position;
	header->name_length = length;
	return byte_reader_skip(reader, length);
}

static ReadStatus read_seqid(ByteReader *reader, MessageHeader *header)
{
	guint32 seqid = 0;
	ReadStatus status = byte_reader_be32(reader, &seqid);

	header->seqid = (gint32)seqid;
	return status;
}

static ReadStatus strict_header(ByteReader *reader, MessageHeader *out_header)
{
	MessageHeader header = *out_header;
	guint32 version = 0;
	ReadStatus status = byte_reader_be32(reader, &version);

	if (status == READ_OK && (version & STRICT_VERSION_MASK) != STRICT_VERSION)
		return byte_reader_bad(reader, "unknown version of the protocol");
	if (status == READ_OK)
		status = read_name(reader, &header);
	if (status == READ_OK)
		status = read_seqid(reader, &header);
	if (status == READ_OK) {
		header.type = version & STRICT_TYPE_MASK;
		*out_header = header;
	}
	return status;
}

static gboolean is_name_byte(guint8 byte)
{
	return g_ascii_isalnum(byte) || byte == '_' || byte == ':' || byte == '.';
}

/* All of it that is there is looked at: what is no name will not become one. */
static ReadStatus read_unversioned_name(ByteReader *reader, MessageHeader *header)
{
	guint32 length = 0;
	ReadStatus status = read_size(reader, &length);
	gsize start = reader->position;

	if (status != READ_OK)
		return status;
	if (length > SCANNER_MAX_UNVERSIONED_NAME_BYTES)
		return byte_reader_bad(reader, "a name of more than 256 bytes");
	status = byte_reader_skip(reader, length);
	if (status == READ_BAD)
		return status;
	for (gsize i = start; i < MIN(start + length, reader->available); i++)
		if (!is_name_byte(reader->bytes[i]))
			return byte_reader_bad(reader, "a name with bytes that no name has");
	header->name_offset = start;
	header->name_length = length;
	return status;
}

static ReadStatus unversioned_header(ByteReader *reader, MessageHeader *out_header)
{
	MessageHeader header = *out_header;
	ReadStatus status = read_unversioned_name(reader, &header);

	if (status == READ_OK)
		status = byte_reader_u8(reader, &header.type);
	if (status == READ_OK)
		status = read_seqid(reader, &header);
	if (status == READ_OK)
		*out_header = header;
	return status;
}

static ReadStatus read_field(ByteReader *reader, gint16 last_id G_GNUC_UNUSED, gint16 *out_id,
			     Shape *out_shape)
{
	Shape shape = {SHAPE_STOP, 0};
	guint16 id = 0;
	ReadStatus status;

	if (byte_reader_left(reader) > 0 && reader->bytes[reader->position] == BINARY_STOP) {
		*out_shape = shape;
		return byte_reader_skip(reader, 1);
	}
	status = read_shape(reader, &shape);
	if (status == READ_OK)
		status = byte_reader_be16(reader, &id);
	if (status == READ_OK) {
		*out_id = (gint16)id;
		*out_shape = shape;
	}
	return status;
}

static ReadStatus read_list(ByteReader *reader, Shape *out_item, guint32 *out_count)
{
	Shape item = {SHAPE_NONE, 0};
	ReadStatus status = read_shape(reader, &item);

	if (status == READ_OK)
		status = read_size(reader, out_count);
	if (status == READ_OK)
		*out_item = item;
	return status;
}

static ReadStatus read_map(ByteReader *reader, Shape *out_key, Shape *out_value, guint32 *out_count)
{
	Shape key = {SHAPE_NONE, 0};
	Shape value = {SHAPE_NONE, 0};
	ReadStatus status = read_shape(reader, &key);

	if (status == READ_OK)
		status = read_shape(reader, &value);
	if (status == READ_OK)
		status = read_size(reader, out_count);
	if (status == READ_OK) {
		*out_key = key;
		*out_value = value;
	}
	return status;
}

const ScannerGrammar SCANNER_GRAMMAR_STRICT = {
	.header = strict_header,
	.field = read_field,
	.length = read_size,
	.list = read_list,
	.map = read_map,
};

const ScannerGrammar SCANNER_GRAMMAR_UNVERSIONED = {
	.header = unversioned_header,
	.field = read_field,
	.length = read_size,
	.list = read_list,
	.map = read_map,
};
