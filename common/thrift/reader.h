/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/types.h"

/* Reads one complete message in Thrift's binary protocol. Missing or invalid bytes set bad; from
 * then on, numbers are 0, strings are empty, and structs have no more fields. The caller checks bad
 * once, after the last value. Use scanner.h for messages that have not arrived completely. */
typedef struct {
	const guint8 *at; /* borrowed */
	gsize left;
	gboolean bad;
} ThriftReader;

gint32 thrift_reader_i32(ThriftReader *self);
gint64 thrift_reader_i64(ThriftReader *self);

/* Returns: (nullable): the next @length bytes, which are not copied; %NULL, with bad set, if they
 *   are missing. */
const guint8 *thrift_reader_take(ThriftReader *self, gsize length);

/* Reads the length of a string of the compact protocol: an unsigned LEB128 number. */
guint32 thrift_reader_varint(ThriftReader *self);

/* Returns the bytes of a string, which are not copied. */
const char *thrift_reader_bytes(ThriftReader *self, gsize *out_length);

/* Returns: (transfer full): a string that is safe to print: bytes that are not printable ASCII
 * become '?', and it is truncated to 512 bytes. */
char *thrift_reader_text(ThriftReader *self);

/* The header of a message. */
typedef struct {
	gboolean is_strict; /* a versioned header, as opposed to a legacy header */
	guint type;         /* a MessageType */
	const char *name;   /* name_length bytes in the message, not NUL-terminated */
	gsize name_length;
	gint32 seqid;
} ThriftHeader;

/* Reads the header of a message, strict or not. Sets every field. */
void thrift_reader_header(ThriftReader *self, ThriftHeader *out_header);

/* Reads the header of a field: returns its type, and sets *out_id. BINARY_STOP is the end of the
 * struct. */
BinaryType thrift_reader_field(ThriftReader *self, gint16 *out_id);

/* Reads the header of a list. Returns the number of elements; 0, with bad set, if they are not of
 * @type, or if there are not enough bytes for them. */
gsize thrift_reader_list(ThriftReader *self, BinaryType type);

/* Reads the header of a map, like thrift_reader_list(). */
gsize thrift_reader_map(ThriftReader *self, BinaryType key, BinaryType value);

/* Skips a value. */
void thrift_reader_skip(ThriftReader *self, BinaryType type);
