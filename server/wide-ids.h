/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/cursor.h"
#include "core/ulid.h"
#include "server/refusal.h"

/* IDs of 128 bits as the calls hand them out: a GByteArray of UUID_BYTES each. */

/* Appends a UUID of the reserved kind (uuid7.h) for each ID of @run, which is of LAYOUT_TWITTER. */
void wide_ids_append_uuids(const IdRun *run, GPtrArray *out_uuids);

/**
 * wide_ids_append_ulids:
 * @count: 1 or more
 * @out_refusal: (out): to be cleared; untouched on %TRUE
 *
 * Any thread.
 *
 * Returns: %FALSE if there are no ULIDs of the present time; then nothing is appended
 */
gboolean wide_ids_append_ulids(UlidGenerator *generator, guint count, GPtrArray *out_ulids,
			       Refusal *out_refusal);
