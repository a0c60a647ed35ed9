/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/types.h"

/*
 * Finds the end of one Thrift message and proves it well formed, without building anything: every
 * length is within the message, every type is known, nothing nests deeper than the limit. Readers
 * of the message need no checks of their own afterwards; Thrift's c_glib has few that hold.
 *
 * It resumes where it stopped when more bytes arrive, so the work is linear in the bytes.
 */
typedef struct _Scanner Scanner;

/* The limit for calls. The service's have three at most, and at this limit none keeps its readers
 * busy for long. */
#define SCANNER_MAX_VALUES 256

/* The longest name in an unversioned header. Such a message begins with its name, which is its only
 * mark: it has letters, digits, underscores, dots and colons only. */
#define SCANNER_MAX_UNVERSIONED_NAME_BYTES 256

/* Offsets count from the first byte of the message. */
typedef struct {
	WireProtocol protocol;
	guint8 type; /* a MessageType, if the sender is honest */
	gint32 seqid;
	gsize name_offset;
	gsize name_length;
	gsize arguments_offset; /* 0: the header is not complete */
	gsize length;           /* of the whole message, once its end was seen */
	/* of the first string in a field 1, at any depth: an exception's message; 0: none seen */
	gsize text_offset;
	gsize text_length;
} MessageHeader;

typedef enum {
	SCAN_MORE,          /* well formed so far; more bytes are needed */
	SCAN_DONE,          /* the header is complete, and so is its length */
	SCAN_BAD_HEADER,    /* the header makes no sense */
	SCAN_BAD_ARGUMENTS, /* the header is readable (without length), the arguments make no sense
			     */
} ScanStatus;

/* @max_depth: how deeply structs and containers may nest below the arguments
 * @max_values: the limit of all fields of structs, items of lists and sets, keys and values
 *   of maps */
Scanner *scanner_new(guint max_depth, guint max_values);
void scanner_free(Scanner *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Scanner, scanner_free)

/* Prepares for the first byte of a message. */
void scanner_reset(Scanner *self);

/**
 * scanner_scan:
 * @message: the message from its first byte; after SCAN_MORE the same bytes, and more
 * @max_length: a message that must be longer is bad
 *
 * Returns: the state of the message; unless SCAN_MORE, reset before the next message
 */
ScanStatus scanner_scan(Scanner *self, const guint8 *message, gsize available, gsize max_length);

/**
 * scanner_may_begin:
 * @available: 1 or more
 * @length: of the whole message, more than that
 * @out_reason: (out): why not
 *
 * Whether the available bytes are a header, or can become one. For a message that is scanned when
 * it is complete, to refuse it early if it cannot be right.
 */
gboolean scanner_may_begin(const guint8 *message, gsize available, gsize length,
			   const char **out_reason);

const MessageHeader *scanner_header(const Scanner *self);

/* After a SCAN_BAD_...: what is wrong, in a few words. */
const char *scanner_reason(const Scanner *self);
