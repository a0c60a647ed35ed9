/* SPDX-License-Identifier: Apache-2.0 */
#include "load/scan.h"

#include <string.h>

/* The types of the binary protocol; those of the compact one are translated. */
enum {
	T_STOP = 0,
	T_BOOL = 2,
	T_BYTE = 3,
	T_DOUBLE = 4,
	T_I16 = 6,
	T_I32 = 8,
	T_I64 = 10,
	T_STRING = 11,
	T_STRUCT = 12,
	T_MAP = 13,
	T_SET = 14,
	T_LIST = 15,
};

enum { MESSAGE_REPLY = 2, MESSAGE_EXCEPTION = 3 };

#define STRICT_VERSION   0x800100
#define COMPACT_PROTOCOL 0x82

#define MAX_DEPTH 3

typedef struct {
	const guint8 *at;
	gsize left;
	gboolean compact;
	LoadScanStatus status; /* COMPLETE as long as all is well */
	guint depth;           /* of structs */
	LoadScan *scan;
} Reader;

static void fail(Reader *self, LoadScanStatus status)
{
	if (self->status == LOAD_SCAN_COMPLETE)
		self->status = status;
	self->left = 0;
}

/* (nullable): the next @n bytes. */
static const guint8 *take(Reader *self, gsize n)
{
	const guint8 *bytes = self->at;

	if (n > self->left) {
		fail(self, LOAD_SCAN_INCOMPLETE);
		return NULL;
	}
	self->at += n;
	self->left -= n;
	return bytes;
}

/* A number of @n bytes, high ones first; 0 if there is none. */
static guint64 take_number(Reader *self, gsize n)
{
	const guint8 *bytes = take(self, n);
	guint64 number = 0;

	for (gsize i = 0; bytes != NULL && i < n; i++)
		number = number << 8 | bytes[i];
	return number;
}

static guint64 take_varint(Reader *self)
{
	guint64 number = 0;

	for (guint shift = 0; shift < 64; shift += 7) {
		guint8 byte = (guint8)take_number(self, 1);

		number |= (guint64)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return number;
	}
	fail(self, LOAD_SCAN_BROKEN);
	return 0;
}

static guint64 take_length(Reader *self)
{
	return self->compact ? take_varint(self) : take_number(self, 4);
}

static guint type_of_compact(guint8 nibble)
{
	static const guint8 types[16] = {T_STOP,   T_BOOL,   T_BOOL, T_BYTE, T_I16, T_I32,   T_I64,
					 T_DOUBLE, T_STRING, T_LIST, T_SET,  T_MAP, T_STRUCT};

	return types[nibble];
}

/* The type of the next field, T_STOP at the end of the struct. */
static guint take_field(Reader *self, guint64 *field)
{
	guint8 byte = (guint8)take_number(self, 1);
	guint type = self->compact ? type_of_compact(byte & 15) : byte;

	if (type == T_STOP)
		return type;
	if (!self->compact)
		*field = take_number(self, 2);
	else if (byte >> 4 != 0)
		*field += byte >> 4;
	else
		*field = take_varint(self) >> 1;
	return type;
}

static void skip_struct(Reader *self);
static void skip_list(Reader *self);

static void skip_integer(Reader *self, gsize bytes)
{
	if (self->compact)
		take_varint(self);
	else
		take(self, bytes);
}

static void skip_value(Reader *self, guint type, guint64 field)
{
	switch (type) {
	case T_BOOL:
		/* in a field of the compact protocol the type is the value */
		take(self, self->compact ? 0 : 1);
		break;
	case T_BYTE:
		take(self, 1);
		break;
	case T_DOUBLE:
		take(self, 8);
		break;
	case T_I16:
		skip_integer(self, 2);
		break;
	case T_I32:
		skip_integer(self, 4);
		break;
	case T_I64:
		skip_integer(self, 8);
		break;
	case T_STRING: {
		gsize length = take_length(self);
		const guint8 *text = take(self, length);

		if (field == 1 && self->scan->text == NULL) {
			self->scan->text = (const char *)text;
			self->scan->text_bytes = length;
		}
		break;
	}
	case T_STRUCT:
		skip_struct(self);
		break;
	case T_LIST:
		skip_list(self);
		break;
	default:
		fail(self, LOAD_SCAN_BROKEN);
	}
}

static void skip_struct(Reader *self)
{
	guint64 field = 0;
	guint type;

	if (++self->depth > MAX_DEPTH)
		fail(self, LOAD_SCAN_BROKEN);
	while ((type = take_field(self, &field)) != T_STOP && self->status == LOAD_SCAN_COMPLETE)
		skip_value(self, type, field);
	self->depth--;
}

/* Of integers: no reply has others. */
static void skip_list(Reader *self)
{
	guint8 byte = (guint8)take_number(self, 1);
	guint type = self->compact ? type_of_compact(byte & 15) : byte;
	guint64 count = self->compact && byte >> 4 < 15 ? byte >> 4 : take_length(self);

	if (type != T_I64)
		fail(self, LOAD_SCAN_BROKEN);
	for (; count > 0 && self->status == LOAD_SCAN_COMPLETE; count--)
		skip_integer(self, 8);
}

static void take_name(Reader *self, LoadScanHeader *header)
{
	header->name_bytes = take_length(self);
	header->name = (const char *)take(self, header->name_bytes);
}

/* Type, name and sequence number, in the order that the protocol has. */
static void take_header(Reader *self, LoadScanHeader *header)
{
	guint32 version = (guint32)take_number(self, self->compact ? 2 : 4);
	gboolean known = version >> 8 == (self->compact ? COMPACT_PROTOCOL : STRICT_VERSION);
	guint type = self->compact ? version >> 5 & 7 : version & 0xff;

	if (!known || (type != MESSAGE_REPLY && type != MESSAGE_EXCEPTION))
		fail(self, LOAD_SCAN_BROKEN);
	if (self->compact) {
		header->seqid = take_varint(self);
		take_name(self, header);
	} else {
		take_name(self, header);
		header->seqid = take_number(self, 4);
	}
}

LoadScanStatus load_scan_header(gboolean compact, const guint8 *data, gsize length,
				LoadScanHeader *out_header)
{
	Reader reader = {.at = data, .left = length, .compact = compact};
	LoadScanHeader header;

	take_header(&reader, &header);
	if (reader.status == LOAD_SCAN_COMPLETE)
		*out_header = header;
	return reader.status;
}

LoadScanStatus load_scan(gboolean compact, const guint8 *data, gsize length, LoadScan *out_scan)
{
	LoadScan scan = {0};
	LoadScanHeader header;
	Reader reader = {.at = data, .left = length, .compact = compact, .scan = &scan};

	take_header(&reader, &header);
	skip_struct(&reader);
	if (reader.status != LOAD_SCAN_COMPLETE)
		return reader.status;
	scan.bytes = (gsize)(reader.at - data);
	*out_scan = scan;
	return LOAD_SCAN_COMPLETE;
}
