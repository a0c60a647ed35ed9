/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "core/uuid.h"

/* The texts of ULIDs and UUIDs, taken apart for decode. */

typedef enum { CTL_WIDE_ULID, CTL_WIDE_UUID } CtlWideKind;

typedef struct {
	CtlWideKind kind;
	Uuid bits;
	gint64 time_ms;  /* since the Unix epoch */
	gboolean has_id; /* of a UUID: its time is in LAYOUT_TWITTER */
	gint64 id;       /* that it is made of, if it is of the reserved kind (uuid7.h) */
} CtlWide;

/* Which of them @text may be, by its length; %FALSE: none. */
gboolean ctl_wide_kind_of(const char *text, CtlWideKind *out_kind);

/**
 * ctl_wide_parse:
 * @out_wide: (out): untouched on failure
 *
 * Returns: %TRUE; or %FALSE with an error of ULID_ERROR or UUID_ERROR set, which quotes the text.
 *   It is one for a UUID of another version than 7, which has no time that this could read
 */
gboolean ctl_wide_parse(CtlWideKind kind, const char *text, CtlWide *out_wide,
			GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A table of those of one kind. */
void ctl_wide_print_head(CtlWideKind kind);
void ctl_wide_print_line(const CtlWide *self);

/* (transfer full) */
JsonObject *ctl_wide_to_json(const CtlWide *self);
