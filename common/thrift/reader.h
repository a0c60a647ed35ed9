/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/types.h"

/*
 * Reads the bytes of one whole message of Thrift's binary protocol. Bytes that are missing or make
 * no sense set bad; from then on numbers are 0, strings empty and structs at their end. The caller
 * checks bad once, after the last value. scanner.h is for messages that have not arrived whole.
 */
typedef struct {
	const guint8 *at; /* borrowed */
	gsize left;
	gboolean bad;
} ThriftReader;

gint32 thrift_reader_i32(ThriftReader *self);
gint64 thrift_reader_i64(ThriftReader *self);

/* (nullable): the next @length bytes, which stay where they are; %NULL and bad if they are missing.
 */
const guint8 *thrift_reader_take(ThriftReader *self, gsize length);

/* The length of a string of the compact protocol: an unsigned LEB128 number. */
guint32 thrift_reader_varint(ThriftReader *self);

/* The bytes of a string, which stay where they are. */
const char *thrift_reader_bytes(ThriftReader *self, gsize *out_length);

/* (transfer full): a string made safe to print: bytes that are not printable ASCII become '?', and
 * it is cut at 512 bytes. */
char *thrift_reader_text(ThriftReader *self);

/* The header of a message. */
typedef struct {
	gboolean is_strict; /* versioned; otherwise the legacy header */
	guint type;         /* MessageType */
	const char *name;   /* of @name_length bytes, in the message */
	gsize name_length;
	gint32 seqid;
} ThriftHeader;

/* Reads the header of a message, strict or not. Sets every field. */
void thrift_reader_header(ThriftReader *self, ThriftHeader *out_header);

/* The header of a field: its type and *out_id. BINARY_STOP is the end of the struct. */
BinaryType thrift_reader_field(ThriftReader *self, gint16 *out_id);

/* The header of a list: the number of elements, 0 and bad if they are not of @type, or more than
 * there are bytes left. */
gsize thrift_reader_list(ThriftReader *self, BinaryType type);

/* Likewise of a map. */
gsize thrift_reader_map(ThriftReader *self, BinaryType key, BinaryType value);

/* Reads past a value. */
void thrift_reader_skip(ThriftReader *self, BinaryType type);
