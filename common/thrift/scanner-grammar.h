/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/thrift/byte-reader.h"
#include "common/thrift/scanner.h"

/*
 * What the scanner must know of a wire protocol, private to the scanner. A
 * function that returns anything but READ_OK leaves its outputs untouched.
 */

typedef enum {
	SHAPE_NONE,
	SHAPE_STOP,   /* the end of a struct */
	SHAPE_FIXED,  /* size bytes */
	SHAPE_VARINT, /* size bits at most */
	SHAPE_STRING, /* a length and as many bytes */
	SHAPE_STRUCT,
	SHAPE_LIST, /* a set looks alike */
	SHAPE_MAP,
} ShapeKind;

/* How a value lies in the bytes. */
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

extern const ScannerGrammar SCANNER_GRAMMAR_STRICT;
extern const ScannerGrammar SCANNER_GRAMMAR_UNVERSIONED;
extern const ScannerGrammar SCANNER_GRAMMAR_COMPACT;
