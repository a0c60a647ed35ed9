/* SPDX-License-Identifier: Apache-2.0 */
#include "common/thrift/scanner.h"

#include "common/thrift/byte-reader.h"

/*
 * A grammar describes a wire protocol. A function that returns anything but READ_OK leaves its
 * outputs untouched.
 */

typedef enum {
	SHAPE_NONE,
	SHAPE_STOP,   /* the end of a struct */
	SHAPE_FIXED,  /* size bytes */
	SHAPE_VARINT, /* size bits at most */
	SHAPE_STRING, /* a length and as many bytes */
	SHAPE_STRUCT,
	SHAPE_LIST, /* also a set */
	SHAPE_MAP,
} ShapeKind;

/* The encoding of a value. */
typedef struct {
	guint8 kind; /* a ShapeKind */
	guint8 size;
} Shape;

typedef struct {
	/* The header up to the arguments; it sets all but protocol and length. */
	ReadStatus (*header)(ByteReader *reader, MessageHeader *out_header);
	/* A field's header. @last_id is the ID of the struct's field before, 0 for the first. */
	ReadStatus (*field)(ByteReader *reader, gint16 last_id, gint16 *out_id, Shape *out_shape);
	/* The length of a string. */
	ReadStatus (*length)(ByteReader *reader, guint32 *out_length);
	/* A list's header. */
	ReadStatus (*list)(ByteReader *reader, Shape *out_item, guint32 *out_count);
	/* A map's header. */
	ReadStatus (*map)(ByteReader *reader, Shape *out_key, Shape *out_value, guint32 *out_count);
} ScannerGrammar;

/* The grammar of Thrift's binary protocol, with its two kinds of header. */

/* Types without an entry do not exist. */
static const Shape BINARY_SHAPES[] = {
	[BINARY_BOOL] = {SHAPE_FIXED, 1},    [BINARY_BYTE] = {SHAPE_FIXED, 1},
	[BINARY_DOUBLE] = {SHAPE_FIXED, 8},  [BINARY_I16] = {SHAPE_FIXED, 2},
	[BINARY_I32] = {SHAPE_FIXED, 4},     [BINARY_I64] = {SHAPE_FIXED, 8},
	[BINARY_STRING] = {SHAPE_STRING, 0}, [BINARY_STRUCT] = {SHAPE_STRUCT, 0},
	[BINARY_MAP] = {SHAPE_MAP, 0},       [BINARY_SET] = {SHAPE_LIST, 0},
	[BINARY_LIST] = {SHAPE_LIST, 0},
};

static ReadStatus read_binary_shape(ByteReader *reader, Shape *out_shape)
{
	guint8 type = 0;
	ReadStatus status = byte_reader_u8(reader, &type);

	if (status != READ_OK)
		return status;
	if (type >= G_N_ELEMENTS(BINARY_SHAPES) || BINARY_SHAPES[type].kind == SHAPE_NONE)
		return byte_reader_bad(reader, "unknown type");
	*out_shape = BINARY_SHAPES[type];
	return READ_OK;
}

/* Reads a length or a count, an i32 that must not be negative. */
static ReadStatus read_binary_size(ByteReader *reader, guint32 *out_size)
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

static ReadStatus read_binary_name(ByteReader *reader, MessageHeader *header)
{
	guint32 length = 0;
	ReadStatus status = read_binary_size(reader, &length);

	if (status != READ_OK)
		return status;
	header->name_offset = reader->position;
	header->name_length = length;
	return byte_reader_skip(reader, length);
}

static ReadStatus read_binary_seqid(ByteReader *reader, MessageHeader *header)
{
	guint32 seqid = 0;
	ReadStatus status = byte_reader_be32(reader, &seqid);

	header->seqid = (gint32)seqid;
	return status;
}

static ReadStatus read_strict_header(ByteReader *reader, MessageHeader *out_header)
{
	MessageHeader header = *out_header;
	guint32 version = 0;
	ReadStatus status = byte_reader_be32(reader, &version);

	if (status == READ_OK && (version & STRICT_VERSION_MASK) != STRICT_VERSION)
		return byte_reader_bad(reader, "unknown version of the protocol");
	if (status == READ_OK)
		status = read_binary_name(reader, &header);
	if (status == READ_OK)
		status = read_binary_seqid(reader, &header);
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

/* Checks the bytes that have arrived: bytes that are no name cannot become one. */
static ReadStatus read_unversioned_name(ByteReader *reader, MessageHeader *header)
{
	guint32 length = 0;
	ReadStatus status = read_binary_size(reader, &length);
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

static ReadStatus read_unversioned_header(ByteReader *reader, MessageHeader *out_header)
{
	MessageHeader header = *out_header;
	ReadStatus status = read_unversioned_name(reader, &header);

	if (status == READ_OK)
		status = byte_reader_u8(reader, &header.type);
	if (status == READ_OK)
		status = read_binary_seqid(reader, &header);
	if (status == READ_OK)
		*out_header = header;
	return status;
}

static ReadStatus read_binary_field(ByteReader *reader, gint16 last_id G_GNUC_UNUSED,
				    gint16 *out_id, Shape *out_shape)
{
	Shape shape = {SHAPE_STOP, 0};
	guint16 id = 0;
	ReadStatus status;

	if (byte_reader_left(reader) > 0 && reader->bytes[reader->position] == BINARY_STOP) {
		*out_shape = shape;
		return byte_reader_skip(reader, 1);
	}
	status = read_binary_shape(reader, &shape);
	if (status == READ_OK)
		status = byte_reader_be16(reader, &id);
	if (status == READ_OK) {
		*out_id = (gint16)id;
		*out_shape = shape;
	}
	return status;
}

static ReadStatus read_binary_list(ByteReader *reader, Shape *out_item, guint32 *out_count)
{
	Shape item = {SHAPE_NONE, 0};
	ReadStatus status = read_binary_shape(reader, &item);

	if (status == READ_OK)
		status = read_binary_size(reader, out_count);
	if (status == READ_OK)
		*out_item = item;
	return status;
}

static ReadStatus read_binary_map(ByteReader *reader, Shape *out_key, Shape *out_value,
				  guint32 *out_count)
{
	Shape key = {SHAPE_NONE, 0};
	Shape value = {SHAPE_NONE, 0};
	ReadStatus status = read_binary_shape(reader, &key);

	if (status == READ_OK)
		status = read_binary_shape(reader, &value);
	if (status == READ_OK)
		status = read_binary_size(reader, out_count);
	if (status == READ_OK) {
		*out_key = key;
		*out_value = value;
	}
	return status;
}

static const ScannerGrammar GRAMMAR_STRICT = {
	.header = read_strict_header,
	.field = read_binary_field,
	.length = read_binary_size,
	.list = read_binary_list,
	.map = read_binary_map,
};

static const ScannerGrammar GRAMMAR_UNVERSIONED = {
	.header = read_unversioned_header,
	.field = read_binary_field,
	.length = read_binary_size,
	.list = read_binary_list,
	.map = read_binary_map,
};

/* The grammar of Thrift's compact protocol. */

/* For fields. Types without an entry do not exist. */
static const Shape COMPACT_SHAPES[] = {
	[COMPACT_TRUE] = {SHAPE_FIXED, 0},   [COMPACT_FALSE] = {SHAPE_FIXED, 0},
	[COMPACT_BYTE] = {SHAPE_FIXED, 1},   [COMPACT_I16] = {SHAPE_VARINT, 16},
	[COMPACT_I32] = {SHAPE_VARINT, 32},  [COMPACT_I64] = {SHAPE_VARINT, 64},
	[COMPACT_DOUBLE] = {SHAPE_FIXED, 8}, [COMPACT_STRING] = {SHAPE_STRING, 0},
	[COMPACT_LIST] = {SHAPE_LIST, 0},    [COMPACT_SET] = {SHAPE_LIST, 0},
	[COMPACT_MAP] = {SHAPE_MAP, 0},      [COMPACT_STRUCT] = {SHAPE_STRUCT, 0},
};

static ReadStatus find_field_shape(ByteReader *reader, guint type, Shape *out_shape)
{
	if (type >= G_N_ELEMENTS(COMPACT_SHAPES) || COMPACT_SHAPES[type].kind == SHAPE_NONE)
		return byte_reader_bad(reader, "unknown type");
	*out_shape = COMPACT_SHAPES[type];
	return READ_OK;
}

/* In a container a bool is a byte. */
static ReadStatus find_item_shape(ByteReader *reader, guint type, Shape *out_shape)
{
	ReadStatus status = find_field_shape(reader, type, out_shape);

	if (status == READ_OK && out_shape->kind == SHAPE_FIXED && out_shape->size == 0)
		out_shape->size = 1;
	return status;
}

static ReadStatus read_compact_size(ByteReader *reader, guint32 *out_size)
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

static ReadStatus read_compact_header(ByteReader *reader, MessageHeader *out_header)
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
		status = read_compact_size(reader, &name_length);
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

static ReadStatus read_compact_field(ByteReader *reader, gint16 last_id, gint16 *out_id,
				     Shape *out_shape)
{
	guint8 head = 0;
	Shape shape = {SHAPE_STOP, 0};
	gint id = 0;
	ReadStatus status = byte_reader_u8(reader, &head);

	if (status == READ_OK && (head & 0x0f) != COMPACT_STOP) {
		status = find_field_shape(reader, head & 0x0f, &shape);
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

static ReadStatus read_compact_list(ByteReader *reader, Shape *out_item, guint32 *out_count)
{
	guint8 head = 0;
	Shape item = {SHAPE_NONE, 0};
	guint32 count = 0;
	ReadStatus status = byte_reader_u8(reader, &head);

	if (status == READ_OK)
		status = find_item_shape(reader, head & 0x0f, &item);
	count = head >> 4;
	if (status == READ_OK && count == 15)
		status = read_compact_size(reader, &count);
	if (status == READ_OK) {
		*out_item = item;
		*out_count = count;
	}
	return status;
}

static ReadStatus read_compact_map(ByteReader *reader, Shape *out_key, Shape *out_value,
				   guint32 *out_count)
{
	guint8 types = 0;
	Shape key = {SHAPE_NONE, 0};
	Shape value = {SHAPE_NONE, 0};
	guint32 count = 0;
	ReadStatus status = read_compact_size(reader, &count);

	if (status == READ_OK && count > 0) { /* an empty map names no types */
		status = byte_reader_u8(reader, &types);
		if (status == READ_OK)
			status = find_item_shape(reader, types >> 4, &key);
		if (status == READ_OK)
			status = find_item_shape(reader, types & 0x0f, &value);
	}
	if (status == READ_OK) {
		*out_key = key;
		*out_value = value;
		*out_count = count;
	}
	return status;
}

static const ScannerGrammar GRAMMAR_COMPACT = {
	.header = read_compact_header,
	.field = read_compact_field,
	.length = read_compact_size,
	.list = read_compact_list,
	.map = read_compact_map,
};

/*
 * The engine: a stack of the open structs and containers, and the next value. Each step reads one
 * header or one value in full, or changes nothing and waits for more bytes.
 */

/* A struct or container that is open. */
typedef struct {
	gboolean is_struct;
	gint16 last_id; /* struct: the ID of the field before */
	Shape items[2]; /* container: of a map key and value, of a list the same twice */
	guint64 left;   /* container: items to come; a map's keys and values count singly */
} Level;

struct _Scanner {
	const ScannerGrammar *grammar; /* NULL before the first byte */
	MessageHeader header;
	gboolean has_header;
	const char *reason;
	gsize position;
	Shape next;   /* the next value; SHAPE_NONE: the innermost level tells */
	guint values; /* that were read */
	guint max_depth;
	guint max_values;
	guint depth;    /* of levels that are open; the arguments are the first */
	Level levels[]; /* max_depth + 1 */
};

Scanner *scanner_new(guint max_depth, guint max_values)
{
	Scanner *self = g_malloc0(sizeof *self + (max_depth + 1) * sizeof self->levels[0]);

	self->max_depth = max_depth;
	self->max_values = max_values;
	return self;
}

void scanner_free(Scanner *self)
{
	g_free(self);
}

void scanner_reset(Scanner *self)
{
	self->grammar = NULL;
	self->header = (MessageHeader){0};
	self->has_header = FALSE;
	self->reason = NULL;
	self->position = 0;
	self->next = (Shape){SHAPE_NONE, 0};
	self->values = 0;
	self->depth = 0;
}

static ReadStatus push_level(Scanner *self, ByteReader *reader, Level level)
{
	if (self->depth > self->max_depth)
		return byte_reader_bad(reader, "nested too deeply");
	self->levels[self->depth++] = level;
	return READ_OK;
}

/* Every item has at least one byte: a count that cannot fit is refused before its items arrive. */
static ReadStatus push_container(Scanner *self, ByteReader *reader, guint64 items, Shape first,
				 Shape second)
{
	if (items > reader->limit - reader->position)
		return byte_reader_bad(reader, "more items than a message may hold");
	return push_level(self, reader, (Level){.items = {first, second}, .left = items});
}

static ReadStatus scan_string(Scanner *self, ByteReader *reader)
{
	const Level *level = &self->levels[self->depth - 1];
	guint32 length = 0;
	ReadStatus status = self->grammar->length(reader, &length);
	gsize start = reader->position;

	if (status == READ_OK)
		status = byte_reader_skip(reader, length);
	if (status == READ_OK && level->last_id == 1 && self->header.text_offset == 0) {
		self->header.text_offset = start;
		self->header.text_length = length;
	}
	return status;
}

/* A list, a set or a map. */
static ReadStatus scan_container(Scanner *self, ByteReader *reader, gboolean is_map)
{
	Shape key = {SHAPE_NONE, 0};
	Shape value = {SHAPE_NONE, 0};
	guint32 count = 0;
	ReadStatus status = is_map ? self->grammar->map(reader, &key, &value, &count)
				   : self->grammar->list(reader, &value, &count);

	if (status != READ_OK)
		return status;
	return is_map ? push_container(self, reader, 2 * (guint64)count, key, value)
		      : push_container(self, reader, count, value, value);
}

/* Reads the next value, or opens it if it is a struct or container. */
static ReadStatus scan_value(Scanner *self, ByteReader *reader)
{
	guint64 number = 0;

	switch ((ShapeKind)self->next.kind) {
	case SHAPE_FIXED:
		return byte_reader_skip(reader, self->next.size);
	case SHAPE_VARINT:
		return byte_reader_varint(reader, self->next.size, &number);
	case SHAPE_STRING:
		return scan_string(self, reader);
	case SHAPE_STRUCT:
		return push_level(self, reader, (Level){.is_struct = TRUE});
	case SHAPE_LIST:
		return scan_container(self, reader, FALSE);
	case SHAPE_MAP:
		return scan_container(self, reader, TRUE);
	case SHAPE_NONE:
	case SHAPE_STOP:
	default:
		g_assert_not_reached();
	}
}

/* Finds the innermost level's next item or field, or its end. */
static ReadStatus scan_level(Scanner *self, ByteReader *reader)
{
	Level *level = &self->levels[self->depth - 1];
	Shape shape = {SHAPE_NONE, 0};
	ReadStatus status;

	if (!level->is_struct) {
		if (level->left == 0)
			self->depth--;
		else
			self->next = level->items[level->left-- % 2 == 0 ? 0 : 1];
		return READ_OK;
	}
	status = self->grammar->field(reader, level->last_id, &level->last_id, &shape);
	if (status == READ_OK && shape.kind == SHAPE_STOP)
		self->depth--;
	else if (status == READ_OK)
		self->next = shape;
	return status;
}

static ReadStatus scan_step(Scanner *self, ByteReader *reader)
{
	ReadStatus status;

	if (self->next.kind == SHAPE_NONE)
		return scan_level(self, reader);
	if (self->values == self->max_values)
		return byte_reader_bad(reader, "more values than a message may hold");
	status = scan_value(self, reader);
	if (status == READ_OK) {
		self->next = (Shape){SHAPE_NONE, 0};
		self->values++;
	}
	return status;
}

static ReadStatus choose_grammar(ByteReader *reader, const ScannerGrammar **out_grammar,
				 WireProtocol *out_protocol)
{
	if (byte_reader_left(reader) == 0)
		return READ_SHORT;
	switch (reader->bytes[reader->position]) {
	case STRICT_VERSION >> 24:
		*out_protocol = WIRE_STRICT;
		*out_grammar = &GRAMMAR_STRICT;
		return READ_OK;
	case COMPACT_PROTOCOL:
		*out_protocol = WIRE_COMPACT;
		*out_grammar = &GRAMMAR_COMPACT;
		return READ_OK;
	case 0x00:
		*out_protocol = WIRE_UNVERSIONED;
		*out_grammar = &GRAMMAR_UNVERSIONED;
		return READ_OK;
	default:
		return byte_reader_bad(reader, "unknown protocol");
	}
}

static ReadStatus scan_header(Scanner *self, ByteReader *reader)
{
	ReadStatus status =
		self->grammar ? READ_OK
			      : choose_grammar(reader, &self->grammar, &self->header.protocol);

	if (status == READ_OK)
		status = self->grammar->header(reader, &self->header);
	if (status != READ_OK)
		return status;
	self->has_header = TRUE;
	self->header.arguments_offset = reader->position;
	return push_level(self, reader, (Level){.is_struct = TRUE});
}

ScanStatus scanner_scan(Scanner *self, const guint8 *message, gsize available, gsize max_length)
{
	ByteReader reader = {
		.bytes = message,
		.available = MIN(available, max_length),
		.position = self->position,
		.limit = max_length,
	};
	ReadStatus status = READ_OK;

	while (status == READ_OK && (!self->has_header || self->depth > 0)) {
		status = self->has_header ? scan_step(self, &reader) : scan_header(self, &reader);
		if (status == READ_OK)
			self->position = reader.position;
		else
			reader.position = self->position;
	}
	if (status == READ_OK) {
		self->header.length = self->position;
		return SCAN_DONE;
	}
	if (status == READ_SHORT && available < max_length)
		return SCAN_MORE;
	self->reason = status == READ_SHORT ? "longer than a message may be" : reader.reason;
	return self->has_header ? SCAN_BAD_ARGUMENTS : SCAN_BAD_HEADER;
}

gboolean scanner_may_begin(const guint8 *message, gsize available, gsize length,
			   const char **out_reason)
{
	ByteReader reader = {.bytes = message, .available = available, .limit = length};
	MessageHeader header = {0};
	const ScannerGrammar *grammar;
	ReadStatus status = choose_grammar(&reader, &grammar, &header.protocol);

	if (status == READ_OK)
		status = grammar->header(&reader, &header);
	if (status == READ_BAD)
		*out_reason = reader.reason;
	return status != READ_BAD;
}

const MessageHeader *scanner_header(const Scanner *self)
{
	return &self->header;
}

const char *scanner_reason(const Scanner *self)
{
	return self->reason;
}
