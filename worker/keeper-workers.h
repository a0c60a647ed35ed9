/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/keeper.h"

/* The keeper's part that lists; keeper-workers.c also has keeper_get_workers(), of keeper.h. */

/* The thread: passes on to the registry that a list is wanted. */
void keeper_workers_ask(Keeper *self);

/* The thread: takes a list that has come, notes that one is late, or says that one is due. */
void keeper_workers_take(Keeper *self);

/* The thread, or before there is one: no list is due for a while. */
void keeper_workers_put_off(Keeper *self);

/**
 * keeper_workers_pause_us:
 * @n_workers: in the list before, each of which lists as well; 0: there was none
 * @n_reads: that it took; 0: there was none
 * @jitter: in [0, 1), at random
 *
 * Returns: the pause before a list that nobody has asked for: a quarter of a second for each read,
 * or a millisecond for each read of each worker if that is longer, so that a server reads four
 * times a second at most, and all of a fleet 1,000 times; 150 s at least. By the jitter, up to as
 * much again, those who have started, or found their registry, together do not list together
 */
gint64 keeper_workers_pause_us(guint n_workers, guint n_reads, gdouble jitter);
