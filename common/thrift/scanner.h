/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/types.h"

/*
 * Finds the end of one Thrift message and proves it well formed, without
 * building anything: every length is within the message, every type is known,
 * nothing nests deeper than the limit. Whoever reads the message after that
 * needs no checks of its own; Thrift's c_glib has few that hold.
 *
 * It resumes where it stopped when bytes arrive one by one, so that the work
 * is linear in the bytes.
 */
typedef struct _Scanner Scanner;

/* For calls: enough, where those of the service have three at most, and none keeps its readers busy
 * for long. */
#define SCANNER_MAX_VALUES 256

/* The longest name in an unversioned header. There a name begins a message, and nothing else tells
 * it from other bytes: it has letters, digits, underscores, dots and colons only. */
#define SCANNER_MAX_UNVERSIONED_NAME_BYTES 256

/* Offsets count from the first byte of the message. */
typedef struct {
	WireProtocol protocol;
	guint8 type; /* a MessageType, if the sender is honest */
	gint32 seqid;
	gsize name_offset;
	gsize name_length;
	gsize arguments_offset; /* 0: the header was not seen to its end */
	gsize length;           /* of the whole message, once it was seen */
	/* Of the first string in a field 1, at any depth, once it was seen: in an exception, the
	 * message of it. 0: none. */
	gsize text_offset;
	gsize text_length;
} MessageHeader;

typedef enum {
	SCAN_MORE,          /* well formed so far; more bytes are needed */
	SCAN_DONE,          /* the header is complete, and so is its length */
	SCAN_BAD_HEADER,    /* the header makes no sense */
	SCAN_BAD_ARGUMENTS, /* the header is readable (but for its length), what follows makes no
			       sense */
} ScanStatus;

/* @max_depth: how many structs and containers may stand inside each other below the arguments.
 * @max_values: how many there may be: fields of structs, items of lists and sets, keys and values
 *   of maps */
Scanner *scanner_new(guint max_depth, guint max_values);
void scanner_free(Scanner *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Scanner, scanner_free)

/* Makes it ready for the first byte of a message. */
void scanner_reset(Scanner *self);

/**
 * scanner_scan:
 * @message: the bytes from the first byte of the message on: after SCAN_MORE those of the call
 *   before, with more after them
 * @max_length: of the message; it is bad if it must be longer
 *
 * Returns: what is known of the message; for anything but SCAN_MORE, reset before the next one
 */
ScanStatus scanner_scan(Scanner *self, const guint8 *message, gsize available, gsize max_length);

/**
 * scanner_may_begin:
 * @available: 1 or more
 * @length: of the whole message, more than that
 * @out_reason: (out): why not
 *
 * Whether what is there of a message is a header, or can become one. For a message that is scanned
 * when it is complete, and is not worth waiting for if not.
 */
gboolean scanner_may_begin(const guint8 *message, gsize available, gsize length,
			   const char **out_reason);

const MessageHeader *scanner_header(const Scanner *self);

/* After a SCAN_BAD_...: what is wrong, in a few words. */
const char *scanner_reason(const Scanner *self);
