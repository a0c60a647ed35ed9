/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* The record of a reservation, in ZooKeeper and in a state directory: the end of a worker ID's
 * reservation, and its owner. An end that is read as too early breaks uniqueness, so a damaged
 * record is an error. */
typedef struct {
	gint64 end_tick; /* the last reserved tick: "reserved_until_tick" */
	char *owner;     /* a nonce; "" if the worker ID was released */
	char *address;   /* host:port of the owner, for messages */
} ReservationRecord;

/* Returns: (transfer full): the record as JSON. */
char *reservation_record_to_json(const ReservationRecord *self);

/* Text that does not parse, or has an unknown format (strict-json.h), is an error, never an end of
 * 0.
 * @text: (nullable): can be %NULL if @length is 0; need not be NUL-terminated
 * @out_record: (out): cleared by the caller; untouched on failure
 * Returns: %FALSE, with an error set, if @text is not a record */
gboolean reservation_record_from_json(const char *text, gsize length, ReservationRecord *out_record,
				      GError **error);
void reservation_record_clear(ReservationRecord *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(ReservationRecord, reservation_record_clear)
