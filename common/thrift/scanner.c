/* SPDX-License-Identifier: Apache-2.0 */
#include "common/thrift/scanner.h"

/* The input of one step. If the status is not READ_OK, reads return 0, and the step must change
 * nothing: it is repeated when more bytes have arrived, or the message is rejected. */
typedef struct {
	const guint8 *bytes;
	gsize available;
	gsize position;
	gsize limit; /* the maximum length of a message; no bytes arrive beyond it */
	gboolean is_compact;
	enum {
		READ_OK,
		READ_SHORT, /* more bytes are needed */
		READ_BAD,   /* invalid, regardless of the bytes that follow */
	} status;
	const char *reason; /* after READ_BAD: why the bytes are invalid */
} Input;

static void refuse_bytes(Input *in, const char *reason)
{
	if (in->status != READ_OK)
		return;
	in->status = READ_BAD;
	in->reason = reason;
}

/* Returns the next @length bytes, or NULL. */
static inline const guint8 *take_bytes(Input *in, gsize length)
{
	const guint8 *bytes = in->bytes + in->position;

	if (in->status == READ_OK && length > in->available - in->position)
		in->status = READ_SHORT;
	if (in->status != READ_OK)
		return NULL;
	in->position += length;
	return bytes;
}

static void skip_bytes(Input *in, gsize length)
{
	if (length > in->limit - in->position)
		refuse_bytes(in, "longer than the limit for a message");
	take_bytes(in, length);
}

static inline guint32 read_big_endian(Input *in, gsize length)
{
	const guint8 *bytes = take_bytes(in, length);
	guint32 value = 0;

	for (gsize i = 0; bytes != NULL && i < length; i++)
		value = value << 8 | bytes[i];
	return value;
}

/* Reads an unsigned LEB128 number of at most @bits bits. */
static guint64 read_varint(Input *in, guint bits)
{
	guint64 value = 0;

	for (guint shift = 0; shift < bits; shift += 7) {
		guint byte = read_big_endian(in, 1);

		if (shift + 7 > bits && (byte & 0x7f) >> (bits - shift) != 0)
			refuse_bytes(in, "number out of range");
		value |= (guint64)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0)
			return value;
	}
	refuse_bytes(in, "number too long");
	return 0;
}

/* Reads a length or a count: an i32 that must not be negative. */
static guint32 read_size(Input *in)
{
	guint32 size = in->is_compact ? (guint32)read_varint(in, 32) : read_big_endian(in, 4);

	if (size > G_MAXINT32)
		refuse_bytes(in, "negative size");
	return size;
}

/* Encodings of values */

typedef enum {
	SHAPE_NONE,
	SHAPE_STOP,   /* the end of a struct */
	SHAPE_FIXED,  /* size bytes */
	SHAPE_VARINT, /* at most size bits */
	SHAPE_STRING, /* a length, followed by this many bytes */
	SHAPE_STRUCT,
	SHAPE_LIST, /* a list or a set */
	SHAPE_MAP,
} ShapeKind;

typedef struct {
	guint8 kind; /* a ShapeKind */
	guint8 size;
} Shape;

/* The shape of each type in each of the two protocols. Types fit in four bits. A type without an
 * entry does not exist. */
static const Shape BINARY_SHAPES[16] = {
	[BINARY_BOOL] = {SHAPE_FIXED, 1},    [BINARY_BYTE] = {SHAPE_FIXED, 1},
	[BINARY_DOUBLE] = {SHAPE_FIXED, 8},  [BINARY_I16] = {SHAPE_FIXED, 2},
	[BINARY_I32] = {SHAPE_FIXED, 4},     [BINARY_I64] = {SHAPE_FIXED, 8},
	[BINARY_STRING] = {SHAPE_STRING, 0}, [BINARY_STRUCT] = {SHAPE_STRUCT, 0},
	[BINARY_MAP] = {SHAPE_MAP, 0},       [BINARY_SET] = {SHAPE_LIST, 0},
	[BINARY_LIST] = {SHAPE_LIST, 0},
};

static const Shape COMPACT_SHAPES[16] = {
	[COMPACT_TRUE] = {SHAPE_FIXED, 0},   [COMPACT_FALSE] = {SHAPE_FIXED, 0},
	[COMPACT_BYTE] = {SHAPE_FIXED, 1},   [COMPACT_I16] = {SHAPE_VARINT, 16},
	[COMPACT_I32] = {SHAPE_VARINT, 32},  [COMPACT_I64] = {SHAPE_VARINT, 64},
	[COMPACT_DOUBLE] = {SHAPE_FIXED, 8}, [COMPACT_STRING] = {SHAPE_STRING, 0},
	[COMPACT_LIST] = {SHAPE_LIST, 0},    [COMPACT_SET] = {SHAPE_LIST, 0},
	[COMPACT_MAP] = {SHAPE_MAP, 0},      [COMPACT_STRUCT] = {SHAPE_STRUCT, 0},
};

static Shape find_shape(Input *in, guint type)
{
	Shape shape = {SHAPE_NONE, 0};

	if (type < G_N_ELEMENTS(BINARY_SHAPES))
		shape = in->is_compact ? COMPACT_SHAPES[type] : BINARY_SHAPES[type];
	if (shape.kind == SHAPE_NONE)
		refuse_bytes(in, "unknown type");
	return shape;
}

/* Returns the shape of a container's items. In the compact protocol, a bool takes a byte in a
 * container, but no byte in a field. */
static Shape find_item_shape(Input *in, guint type)
{
	Shape shape = find_shape(in, type);

	if (shape.kind == SHAPE_FIXED && shape.size == 0)
		shape.size = 1;
	return shape;
}

/* A stack of the open structs and containers, and the next value. Each step reads one header or one
 * value in full, or changes nothing and waits for more bytes. */

/* An open struct or container. */
typedef struct {
	gboolean is_struct;
	gint16 last_id; /* in a struct: ID of the previous field */
	/* in a container: shapes of a map's keys and values; for a list or a set, the same shape
	 * twice */
	Shape items[2];
	/* in a container: number of items left; keys and values of a map are counted separately */
	guint64 left;
} Level;

struct _Scanner {
	MessageHeader header;
	gsize position;
	Shape next;   /* shape of the next value; SHAPE_NONE if the innermost level determines it */
	guint values; /* number of values read so far */
	guint max_depth;
	guint max_values;
	guint depth;    /* number of open levels; the first level is the arguments */
	Level levels[]; /* max_depth + 1 */
};

Scanner *scanner_new(guint max_depth, guint max_values)
{
	Scanner *self = g_malloc0(sizeof *self + (max_depth + 1) * sizeof self->levels[0]);

	self->max_depth = max_depth;
	self->max_values = max_values;
	return self;
}

void scanner_reset(Scanner *self)
{
	self->header = (MessageHeader){0};
	self->position = 0;
	self->next = (Shape){SHAPE_NONE, 0};
	self->values = 0;
	self->depth = 0;
}

static void push_level(Scanner *self, Input *in, Level level)
{
	if (self->depth > self->max_depth)
		refuse_bytes(in, "nested too deeply");
	if (in->status == READ_OK)
		self->levels[self->depth++] = level;
}

/* Opens a list, a set or a map. */
static void scan_container(Scanner *self, Input *in, gboolean is_map)
{
	Shape items[2] = {{SHAPE_NONE, 0}, {SHAPE_NONE, 0}};
	guint64 n_items;

	if (!in->is_compact) {
		items[0] = find_item_shape(in, read_big_endian(in, 1));
		items[1] = is_map ? find_item_shape(in, read_big_endian(in, 1)) : items[0];
		n_items = read_size(in);
	} else if (is_map) {
		n_items = read_size(in);
		if (n_items > 0) { /* an empty map has no type byte */
			guint types = read_big_endian(in, 1);

			items[0] = find_item_shape(in, types >> 4);
			items[1] = find_item_shape(in, types & 0x0f);
		}
	} else {
		guint head = read_big_endian(in, 1);

		items[0] = items[1] = find_item_shape(in, head & 0x0f);
		n_items = head >> 4 == 15 ? read_size(in) : head >> 4;
	}
	if (is_map)
		n_items *= 2;
	/* every item has at least one byte, so a count that cannot fit is rejected before the items
	 * arrive */
	if (n_items > in->limit - in->position)
		refuse_bytes(in, "more items than the limit for a message");
	push_level(self, in, (Level){.items = {items[0], items[1]}, .left = n_items});
}

/* Reads the next value, or opens it if it is a struct or container. */
static void scan_value(Scanner *self, Input *in)
{
	guint32 length;
	gsize start;

	if (self->values == self->max_values)
		refuse_bytes(in, "more values than the limit for a message");
	switch ((ShapeKind)self->next.kind) {
	case SHAPE_FIXED:
		skip_bytes(in, self->next.size);
		break;
	case SHAPE_VARINT:
		read_varint(in, self->next.size);
		break;
	case SHAPE_STRING:
		length = read_size(in);
		start = in->position;
		skip_bytes(in, length);
		if (in->status == READ_OK && self->header.text_offset == 0 &&
		    self->levels[self->depth - 1].last_id == 1) {
			self->header.text_offset = start;
			self->header.text_length = length;
		}
		break;
	case SHAPE_STRUCT:
		push_level(self, in, (Level){.is_struct = TRUE});
		break;
	case SHAPE_LIST:
	case SHAPE_MAP:
		scan_container(self, in, self->next.kind == SHAPE_MAP);
		break;
	case SHAPE_NONE:
	case SHAPE_STOP:
	default:
		g_assert_not_reached();
	}
	if (in->status == READ_OK) {
		self->next = (Shape){SHAPE_NONE, 0};
		self->values++;
	}
}

/* Reads the header of a struct's next field, or the end of the struct. */
static void scan_field(Scanner *self, Level *level, Input *in)
{
	guint head = read_big_endian(in, 1);
	guint type = in->is_compact ? head & 0x0f : head;
	Shape shape;
	gint id;

	if (in->status == READ_OK && type == 0) { /* BINARY_STOP, COMPACT_STOP */
		self->depth--;
		return;
	}
	shape = find_shape(in, type);
	if (!in->is_compact) {
		id = (gint16)read_big_endian(in, 2);
	} else if (head >> 4 != 0) { /* difference from the previous field ID */
		id = level->last_id + (gint)(head >> 4);
	} else {
		guint zigzag = (guint)read_varint(in, 16);

		id = (gint)(zigzag >> 1) ^ -(gint)(zigzag & 1);
	}
	if (id > G_MAXINT16)
		refuse_bytes(in, "field ID out of range");
	if (in->status == READ_OK) {
		level->last_id = (gint16)id;
		self->next = shape;
	}
}

/* An unversioned message can be recognised only by its name. The bytes of the name are checked as
 * they arrive, so that other bytes are rejected early. */
static void check_unversioned_name(Input *in, gsize length)
{
	const guint8 *name = in->bytes + in->position;

	if (length > SCANNER_MAX_UNVERSIONED_NAME_BYTES)
		refuse_bytes(in, "a name of more than 256 bytes");
	if (length > in->limit - in->position)
		return;
	for (gsize i = 0; i < MIN(length, in->available - in->position); i++)
		if (!g_ascii_isalnum(name[i]) && name[i] != '_' && name[i] != ':' && name[i] != '.')
			refuse_bytes(in, "a name with invalid bytes");
}

/* Reads the header of a message up to its arguments. */
static MessageHeader read_header(Input *in)
{
	MessageHeader header = {0};
	guint32 first = in->available > 0 ? in->bytes[0] : 0;
	guint32 version;

	in->is_compact = first == COMPACT_PROTOCOL;
	if (in->is_compact) {
		header.protocol = WIRE_COMPACT;
		skip_bytes(in, 1);
		version = read_big_endian(in, 1);
		if ((version & COMPACT_VERSION_MASK) != COMPACT_VERSION)
			refuse_bytes(in, "unknown version of the protocol");
		header.type = (guint8)(version >> COMPACT_TYPE_SHIFT);
		header.seqid = (gint32)(guint32)read_varint(in, 32);
	} else if (first == STRICT_VERSION >> 24) {
		header.protocol = WIRE_STRICT;
		version = read_big_endian(in, 4);
		if ((version & STRICT_VERSION_MASK) != STRICT_VERSION)
			refuse_bytes(in, "unknown version of the protocol");
		header.type = version & STRICT_TYPE_MASK;
	} else if (first == 0) {
		header.protocol = WIRE_UNVERSIONED;
	} else {
		refuse_bytes(in, "unknown protocol");
	}
	header.name_length = read_size(in);
	header.name_offset = in->position;
	if (header.protocol == WIRE_UNVERSIONED)
		check_unversioned_name(in, header.name_length);
	skip_bytes(in, header.name_length);
	if (header.protocol == WIRE_UNVERSIONED)
		header.type = (guint8)read_big_endian(in, 1);
	if (!in->is_compact)
		header.seqid = (gint32)read_big_endian(in, 4);
	header.arguments_offset = in->position;
	return header;
}

/* Performs one step: scans the header, a value, or the next item of the innermost level. */
static void scan_step(Scanner *self, Input *in)
{
	Level *level;

	if (self->header.arguments_offset == 0) {
		MessageHeader header = read_header(in);

		self->header.protocol = header.protocol;
		push_level(self, in, (Level){.is_struct = TRUE});
		if (in->status == READ_OK)
			self->header = header;
		return;
	}
	if (self->next.kind != SHAPE_NONE) {
		scan_value(self, in);
		return;
	}
	level = &self->levels[self->depth - 1];
	if (level->is_struct)
		scan_field(self, level, in);
	else if (level->left == 0)
		self->depth--;
	else
		self->next = level->items[level->left-- % 2 == 0 ? 0 : 1];
}

ScanStatus scanner_scan(Scanner *self, const guint8 *message, gsize available, gsize max_length)
{
	Input in = {
		.bytes = message,
		.available = MIN(available, max_length),
		.position = self->position,
		.limit = max_length,
		.is_compact = self->header.protocol == WIRE_COMPACT,
	};

	while (in.status == READ_OK && (self->header.arguments_offset == 0 || self->depth > 0)) {
		scan_step(self, &in);
		if (in.status == READ_OK)
			self->position = in.position;
	}
	if (in.status == READ_OK) {
		self->header.length = self->position;
		return SCAN_DONE;
	}
	if (in.status == READ_SHORT && available < max_length)
		return SCAN_MORE;
	self->header.bad =
		in.status == READ_SHORT ? "longer than the limit for a message" : in.reason;
	return self->header.arguments_offset != 0 ? SCAN_BAD_ARGUMENTS : SCAN_BAD_HEADER;
}

gboolean scanner_may_begin(const guint8 *message, gsize available, gsize length,
			   const char **out_reason)
{
	Input in = {.bytes = message, .available = available, .limit = length};

	read_header(&in);
	if (in.status == READ_BAD)
		*out_reason = in.reason;
	return in.status != READ_BAD;
}

const MessageHeader *scanner_header(const Scanner *self)
{
	return &self->header;
}
