/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/types.h"

/*
 * Reads the bytes of one message of Thrift's binary protocol. What is not there, or makes no sense,
 * sets bad; from then on numbers are 0, strings empty and structs at their end. So whoever reads a
 * message looks at bad once, when it is through.
 */
typedef struct {
	const guint8 *at; /* borrowed */
	gsize left;
	gboolean bad;
} ClientReader;

gint32 client_reader_i32(ClientReader *self);
gint64 client_reader_i64(ClientReader *self);

/* The bytes of a string, which stay where they are. */
const char *client_reader_bytes(ClientReader *self, gsize *out_length);

/* (transfer full): a string made safe to print: bytes that are not printable ASCII become '?', and
 * it is cut at 512 bytes. */
char *client_reader_text(ClientReader *self);

/* The header of a field: its type and *out_id. BINARY_STOP is the end of the struct. */
BinaryType client_reader_field(ClientReader *self, gint16 *out_id);

/* The header of a list: the number of elements, 0 and bad if they are not of @type, or more than
 * there are bytes left. */
gsize client_reader_list(ClientReader *self, BinaryType type);

/* Likewise of a map. */
gsize client_reader_map(ClientReader *self, BinaryType key, BinaryType value);

/* Reads past a value. */
void client_reader_skip(ClientReader *self, BinaryType type);
