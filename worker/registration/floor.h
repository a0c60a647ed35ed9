/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/zookeeper/znodes.h"
#include "core/layout.h"
#include "worker/store.h"

/* The floor of a datacenter, as read from the store. No lease begins at or before it, so it is the
 * lower limit of each claim. It is raised after commits have been lost. An operator raises it after
 * the store has been restored from a backup. In a store with a history, the first server that
 * connects to another history raises it. The lost reservations are unknown, but all of them end
 * before the floor. All functions are pure. */
typedef struct {
	gint64 tick; /* no lease begins at or before this tick */
	/* the latest tick that any server's clock may have reached when the floor was raised */
	gint64 clock_tick;
	ZnodeHistory history; /* the history of the store in which it is valid */
	gint32 version;
	char *damage;       /* (nullable): why the floor is unknown, for example "is missing" */
	const char *remedy; /* if it is damaged: what the operator must do next */
} Floor;

/* Fills @self; the caller must clear it. @record: (nullable): %NULL if it is missing. A record
 * without data is one that this server may not read. */
void floor_read(Floor *self, const StoreRecord *record, const Layout *layout);
void floor_clear(Floor *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Floor, floor_clear)

/* The maximum difference between the store's clock and its earlier clocks. */
#define FLOOR_SLACK_MS 10000

/* Computes the ticks of a floor for a store that has lost commits. These are the last tick that may
 * already be reserved, and the last tick that any server's clock may have reached. Allows for an
 * earlier clock of the store that was ahead of @now_ms, its current one. Returns %FALSE if @now_ms
 * is outside the layout. */
gboolean floor_after_loss(const Layout *layout, gint64 now_ms, const ZnodeLimits *limits,
			  ZnodeFloor *out_floor);

/* Raises a floor, if it is lower, and makes it valid in @history. */
ZnodeFloor floor_raise(const ZnodeFloor *floor, const ZnodeFloor *least,
		       const ZnodeHistory *history);

/* Returns: why it was raised, for a message: "by an operator". */
const char *floor_cause(const Floor *self);

/* Returns whether a worker ID can be claimed at @now_tick. */
gboolean floor_is_past(const Floor *self, gint64 now_tick);

/* Returns the first tick of a new lease for a worker ID. @end_tick: end of its record; -1 if it has
 * no record */
gint64 floor_first_tick(const Floor *self, gint64 end_tick);

/* Returns whether a server may keep its reservation, which ends at @end_tick. A raised floor means
 * that the store may have been restored from a backup. Another server may have claimed this worker
 * ID in the lost data, but only when its clock was past @end_tick. If @end_tick is at or
 * after @clock_tick, no clock was past @end_tick when the floor was raised. A write that was
 * accepted on this connection (@is_written) also proves that no data was lost. */
gboolean floor_allows_keeping(const Floor *self, gint64 end_tick, gboolean is_written);
