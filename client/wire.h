/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Thrift's binary protocol, as much of it as a client of this service needs. */

typedef enum {
	CLIENT_WIRE_STOP = 0, /* the end of a struct */
	CLIENT_WIRE_BOOL = 2,
	CLIENT_WIRE_BYTE = 3,
	CLIENT_WIRE_DOUBLE = 4,
	CLIENT_WIRE_I16 = 6,
	CLIENT_WIRE_I32 = 8,
	CLIENT_WIRE_I64 = 10,
	CLIENT_WIRE_STRING = 11,
	CLIENT_WIRE_STRUCT = 12,
	CLIENT_WIRE_MAP = 13,
	CLIENT_WIRE_SET = 14,
	CLIENT_WIRE_LIST = 15,
} ClientWireType;

/*
 * Reads the bytes of one message. What is not there, or makes no sense, sets bad; from then on
 * numbers are 0, strings empty and structs at their end. So a reader of a message looks at bad
 * once, when it is through.
 */
typedef struct {
	const guint8 *at; /* borrowed */
	gsize left;
	gboolean bad;
} ClientWireReader;

guint8 client_wire_read_u8(ClientWireReader *self);
gint16 client_wire_read_i16(ClientWireReader *self);
gint32 client_wire_read_i32(ClientWireReader *self);
gint64 client_wire_read_i64(ClientWireReader *self);

/* The bytes of a string, which stay where they are. */
const char *client_wire_read_bytes(ClientWireReader *self, gsize *out_length);

/* (transfer full): a string made safe to print: bytes that are not printable ASCII become '?', and
 * it is cut at 512 bytes. */
char *client_wire_read_text(ClientWireReader *self);

/* The header of a field: its type and *out_id. CLIENT_WIRE_STOP is the end of the struct. */
ClientWireType client_wire_read_field(ClientWireReader *self, gint16 *out_id);

/* The header of a list: the number of elements, 0 and bad if they are not of @type, or more than
 * there are bytes left. */
gsize client_wire_read_list(ClientWireReader *self, ClientWireType type);

/* Reads past a value. */
void client_wire_skip(ClientWireReader *self, ClientWireType type);

void client_wire_write_u8(GByteArray *out, guint8 value);
void client_wire_write_i32(GByteArray *out, gint32 value);
void client_wire_write_string(GByteArray *out, const char *value);
void client_wire_write_field(GByteArray *out, ClientWireType type, gint16 id);
