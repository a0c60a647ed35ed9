/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/worker/keeper.h"

/* The keeper's part behind keeper_get_workers(). */

/* The thread: passes on to the registry that a list is wanted. */
void keeper_workers_ask(Keeper *self);

/* The thread: takes a list that has come, or notes that it is late. */
void keeper_workers_take(Keeper *self);

/* Any thread: see keeper_get_workers(). */
gboolean keeper_workers_get(Keeper *self, gint64 max_age_ms, GPtrArray **out_workers,
			    GError **error);
