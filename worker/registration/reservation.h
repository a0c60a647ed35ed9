/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/*
 * In the states RESERVING, EXTENDING, RETURNING and SETTLING.
 *
 * The writes that make IDs unique: a reservation is made, extended, handed back, and read if the
 * outcome of a write is unknown. Each write is conditional on the version that was read last, and
 * on that of the floor, and its end is computed from that reading.
 */

void reservation_reserve(Registration *self);
void reservation_extend(Registration *self);
void reservation_hand_back(Registration *self);
void reservation_take_written(Registration *self, const StoreMessage *answer);
void reservation_settle(Registration *self);
void reservation_take_settled(Registration *self, const StoreMessage *answer);

/* Before the next step: what is held and was not read on this connection is to be settled, unless
 * an attempt is open. */
void reservation_check_is_read(Registration *self);

/* The datacenter's floor, read on this connection: what is held is lost if another server may have
 * had its worker ID in a history that was lost. @floor: (nullable): %NULL if it is missing or
 * damaged, as by hand: nothing follows from that for what is held. */
void reservation_check_floor(Registration *self, const Floor *floor);
