/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/store.h"

/*
 * The floor of a datacenter, as it was read. No lease begins at or before it, so it is the lower
 * limit of each claim. An operator raises it after the store was restored from a backup: the
 * reservations since the backup are not known, but all of them end before the floor. All functions
 * are pure.
 */
typedef struct {
	gint64 tick;       /* no lease begins at or before it */
	gint64 clock_tick; /* the latest tick that a server's clock can have shown when it was
			      raised */
	gint32 version;
	char *damage;       /* (nullable): why it is not known, as in "is missing" */
	const char *remedy; /* if it is damaged: the operator's next step */
} Floor;

/* Fills @self, which must be cleared. @record: (nullable): %NULL: it is missing. If it has no data,
 * this server may not read it. */
void floor_read(Floor *self, const StoreRecord *record, const Layout *layout);
void floor_clear(Floor *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Floor, floor_clear)

/* Whether a worker ID can be claimed at @now_tick. */
gboolean floor_is_past(const Floor *self, gint64 now_tick);

/* The first tick of a lease of a worker ID whose record ends at @end_tick; -1: it has none. */
gint64 floor_first_tick(const Floor *self, gint64 end_tick);

/* Whether a server may keep a reservation that it holds up to @end_tick. A raised floor says that
 * history may have been lost, and the record does not tell whether another server had the worker ID
 * in that history. No server can have had it before the end of the reservation was past by its
 * clock. If the store has accepted a write on this connection (@is_written), nothing was lost since
 * that write. */
gboolean floor_allows_keeping(const Floor *self, gint64 end_tick, gboolean is_written);
