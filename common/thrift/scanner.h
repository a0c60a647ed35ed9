/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/types.h"

/* Finds the end of a Thrift message and checks that it is well formed, without decoding it. Every
 * length must be within the message, every type must be known, and the nesting must not exceed the
 * limit. So code that reads the message afterwards needs no checks; Thrift's c_glib makes too few
 * of them.
 *
 * When more bytes arrive, the scan resumes where it stopped, so its cost is linear in the number of
 * bytes. */
typedef struct _Scanner Scanner;

/* The maximum number of values in a call. The service's own calls contain at most three. A call
 * with this many values can still be read quickly. */
#define SCANNER_MAX_VALUES 256

/* The maximum length of the name in an unversioned header. Such a message begins with its name, and
 * is recognised only by the name, which consists of letters, digits, underscores, dots and
 * colons. */
#define SCANNER_MAX_UNVERSIONED_NAME_BYTES 256

/* Offsets are relative to the first byte of the message. */
typedef struct {
	WireProtocol protocol;
	guint8 type; /* a MessageType, or any other number that the sender sent */
	gint32 seqid;
	gsize name_offset;
	gsize name_length;
	gsize arguments_offset; /* 0 if the header is not complete */
	gsize length;           /* length of the whole message, valid after SCAN_DONE */
	/* offset of the first string in a field 1, at any depth; in an exception, this is the
	 * message; 0 if there is none so far */
	gsize text_offset;
	gsize text_length;
	const char *bad; /* after a SCAN_BAD_...: the reason, in a few words */
} MessageHeader;

typedef enum {
	SCAN_MORE,       /* well formed so far, but more bytes are needed */
	SCAN_DONE,       /* the message is complete, and its length is known */
	SCAN_BAD_HEADER, /* the header is invalid */
	/* the header is valid, and its length is known, but the arguments are invalid */
	SCAN_BAD_ARGUMENTS,
} ScanStatus;

/* Returns: (transfer full): one block of memory, to be freed with g_free().
 * @max_depth: maximum nesting of structs and containers below the arguments
 * @max_values: maximum number of values: fields of structs, items of lists and sets, keys and
 * values of maps */
Scanner *scanner_new(guint max_depth, guint max_values);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Scanner, g_free)

/* Prepares the scanner for the first byte of a message. */
void scanner_reset(Scanner *self);

/* Returns: the status of the message. Unless it is SCAN_MORE, call scanner_reset() before the next
 * message
 * @message: the message from its first byte; after SCAN_MORE, the same bytes followed by more
 * @max_length: maximum length of a message; a longer one is bad */
ScanStatus scanner_scan(Scanner *self, const guint8 *message, gsize available, gsize max_length);

/* Returns whether the available bytes can be a header or the start of one. Use it to reject an
 * invalid message early if messages are scanned only when they are complete.
 * @available: 1 or more
 * @length: length of the whole message, more than @available
 * @out_reason: (out): why %FALSE was returned */
gboolean scanner_may_begin(const guint8 *message, gsize available, gsize length,
			   const char **out_reason);

const MessageHeader *scanner_header(const Scanner *self);
