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
