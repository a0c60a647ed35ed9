/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/layout.h"
#include "worker/store.h"

/*
 * The floor of a datacenter, as it was read. No lease begins at or before it. An operator raises it
 * after the store was restored from a backup: what was reserved since is not known, but it ended by
 * then. Pure.
 */
typedef struct {
	gint64 tick;       /* no lease begins at or before it */
	gint64 clock_tick; /* when it was raised, no server's clock was further */
	gint32 version;
	char *damage;       /* (nullable): why it is not known, as in "is missing" */
	const char *remedy; /* with that: what an operator has to do */
} Floor;

/* Fills @self, to be cleared. @record: (nullable): %NULL: it is missing; without data it may not be
 * read */
void floor_read(Floor *self, const StoreRecord *record, const Layout *layout);
void floor_clear(Floor *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Floor, floor_clear)

/* Whether a worker ID can be claimed at @now_tick. */
gboolean floor_is_past(const Floor *self, gint64 now_tick);

/* The first tick of a lease of a worker ID whose record ends at @end_tick; -1: it has none. */
gint64 floor_first_tick(const Floor *self, gint64 end_tick);

/* Whether a server may keep a reservation up to @end_tick that it holds. A raised floor says that
 * history may have been lost, and the record does not say whether another server had its worker ID
 * in that. None can have had it before it saw the end of the reservation pass. And if the store has
 * accepted a write over this connection, @is_written, nothing was lost since. */
gboolean floor_allows_keeping(const Floor *self, gint64 end_tick, gboolean is_written);
