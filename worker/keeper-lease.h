/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/keeper-plan.h"
#include "worker/keeper.h"

/* The keeper's part that begins the registry's operations and takes in what comes of them; the
 * thread's own. */

/* Goes on with the operation under way, and with the registry's upkeep. */
void keeper_lease_poll(Keeper *self);

/* Updates the facts about the clock and the lease. */
void keeper_lease_look(Keeper *self);

/* Begins @operation, which is not NONE; nothing is under way. */
void keeper_lease_begin(Keeper *self, RegistryOperation operation);

/* The operation under way is to come to its end. */
void keeper_lease_cancel(Keeper *self);

/* Ends the keeper's trying; (transfer full) for @error. */
void keeper_lease_end_trying(Keeper *self, GError *error);
