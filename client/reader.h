/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/types.h"

/*
 * Reads the bytes of one message of Thrift's binary protocol. Missing or wrong bytes set bad; from
 * then on numbers are 0, strings empty and structs at their end. So a caller checks bad once, after
 * it has read the message.
 */
typedef struct {
	const guint8 *at; /* borrowed */
	gsize left;
	gboolean bad;
} ClientReader;

gint32 client_reader_i32(ClientReader *self);
gint64 client_reader_i64(ClientReader *self);

/* Returns: the bytes of a string, which are not copied */
const char *client_reader_bytes(ClientReader *self, gsize *out_length);

/* Returns: (transfer full): a string that is safe to print: bytes that are not printable ASCII
 * become
 * '?', and it is cut at 512 bytes */
char *client_reader_text(ClientReader *self);

/* Reads the header of a field. Returns: its type; BINARY_STOP at the end of the struct */
BinaryType client_reader_field(ClientReader *self, gint16 *out_id);

/* Reads the header of a list. Returns: the number of elements; 0, and sets bad, if they are not of
 * @type, or more than there are bytes left */
gsize client_reader_list(ClientReader *self, BinaryType type);

/* The same for a map. */
gsize client_reader_map(ClientReader *self, BinaryType key, BinaryType value);

/* Reads past a value. */
void client_reader_skip(ClientReader *self, BinaryType type);
