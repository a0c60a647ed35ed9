/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/keeper.h"

/* The keeper's part that looks after the clock; the thread's own. */

/* When it is time, or the registry's clock was read anew, compares the clock with the system's, and
 * adopts or holds what differs. */
void keeper_clock_discipline(Keeper *self);

/* Takes in what the clock shows. */
void keeper_clock_look(Keeper *self);

/* By how many ticks less the present may be reserved ahead, so that no end is further than the
 * registry's clock + the skew that is allowed + the length. 0 unless the two clocks differ. */
gint64 keeper_clock_excess_ticks(const Keeper *self);

/* Any thread. @end_ms: where the last tick of a reservation begins, since the Unix epoch; 0:
 * nothing is reserved. Returns: the same; 0 if it is over by @now_ms. */
gint64 keeper_clock_reserved_until_ms(const Keeper *self, gint64 end_ms, gint64 now_ms);
