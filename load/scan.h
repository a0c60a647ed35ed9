/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Finds the end of a message of Thrift, and the message text of the exception in it. For replies
 * that are not what was hoped for: exceptions, and whatever else a server may say.
 */
typedef enum {
	LOAD_SCAN_COMPLETE,
	LOAD_SCAN_INCOMPLETE, /* it goes on behind what is there */
	LOAD_SCAN_BROKEN,     /* no reply of the service */
} LoadScanStatus;

typedef struct {
	gsize bytes; /* of the whole message */
	/* (nullable): the string in field 1 of a TApplicationException, or of an exception that the
	 * call declares; not terminated. */
	const char *text;
	gsize text_bytes;
} LoadScan;

/* What says which call a message answers. */
typedef struct {
	const char *name; /* not terminated */
	gsize name_bytes;
	guint64 seqid;
} LoadScanHeader;

/**
 * load_scan_header:
 * @out_header: (out): COMPLETE only
 *
 * Reads the header of what comes first in @data, and nothing behind it. As load_scan() does, it
 * takes only that of a reply or of an exception.
 */
LoadScanStatus load_scan_header(gboolean compact, const guint8 *data, gsize length,
				LoadScanHeader *out_header);

/**
 * load_scan:
 * @compact: the compact protocol; else strict binary
 * @out_scan: (out): COMPLETE only
 *
 * Reads what comes first in @data.
 */
LoadScanStatus load_scan(gboolean compact, const guint8 *data, gsize length, LoadScan *out_scan);
