/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The engine: a stack of the structs and containers that are open, and the
 * value that comes next. Each step reads one header or one value in full, or
 * leaves everything as it was and waits for more bytes.
 */
#include "common/thrift/scanner.h"

#include "common/thrift/scanner-grammar.h"

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
	Shape next;   /* the value that comes next; SHAPE_NONE: ask the innermost level */
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

static ReadStatus push(Scanner *self, ByteReader *reader, Level level)
{
	if (self->depth > self->max_depth)
		return byte_reader_bad(reader, "nested too deeply");
	self->levels[self->depth++] = level;
	return READ_OK;
}

/* Every item has a byte at least: a count that cannot fit is refused before it is waited for. */
static ReadStatus push_container(Scanner *self, ByteReader *reader, guint64 items, Shape first,
				 Shape second)
{
	if (items > reader->limit - reader->position)
		return byte_reader_bad(reader, "more items than a message may hold");
	return push(self, reader, (Level){.items = {first, second}, .left = items});
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

static ReadStatus scan_list(Scanner *self, ByteReader *reader)
{
	Shape item = {SHAPE_NONE, 0};
	guint32 count = 0;
	ReadStatus status = self->grammar->list(reader, &item, &count);

	return status == READ_OK ? push_container(self, reader, count, item, item) : status;
}

static ReadStatus scan_map(Scanner *self, ByteReader *reader)
{
	Shape key = {SHAPE_NONE, 0};
	Shape value = {SHAPE_NONE, 0};
	guint32 count = 0;
	ReadStatus status = self->grammar->map(reader, &key, &value, &count);

	return status == READ_OK ? push_container(self, reader, 2 * (guint64)count, key, value)
				 : status;
}

/* Reads the value that comes next, or opens it if it is a struct or container. */
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
		return push(self, reader, (Level){.is_struct = TRUE});
	case SHAPE_LIST:
		return scan_list(self, reader);
	case SHAPE_MAP:
		return scan_map(self, reader);
	case SHAPE_NONE:
	case SHAPE_STOP:
	default:
		g_assert_not_reached();
	}
}

/* What comes next by the innermost level: its next item or field, or its end. */
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
		*out_grammar = &SCANNER_GRAMMAR_STRICT;
		return READ_OK;
	case COMPACT_PROTOCOL:
		*out_protocol = WIRE_COMPACT;
		*out_grammar = &SCANNER_GRAMMAR_COMPACT;
		return READ_OK;
	case 0x00:
		*out_protocol = WIRE_UNVERSIONED;
		*out_grammar = &SCANNER_GRAMMAR_UNVERSIONED;
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
	return push(self, reader, (Level){.is_struct = TRUE});
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
