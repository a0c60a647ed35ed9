/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/*
 * The steps RESERVING, EXTENDING, RETURNING and SETTLING: the writes that make IDs unique.
 *
 * A reservation is made, extended and released. If the outcome of a write is unknown, as after a
 * lost reply, the record is read. Each write is conditional on the version that was read last and
 * on the version of the floor, and its end is computed from that reading.
 */

void reservation_reserve(Registration *self);
void reservation_extend(Registration *self);
void reservation_release(Registration *self);
void reservation_take_written(Registration *self, const StoreMessage *answer);
void reservation_settle(Registration *self);
void reservation_take_settled(Registration *self, const StoreMessage *answer);

/* Before the next step: if the held record was not read on this connection, it must be settled,
 * unless an attempt is open. */
void reservation_check_is_read(Registration *self);

/* The datacenter's floor was read on this connection: the held reservation is lost if another
 * server can have had its worker ID in a history that was lost. @floor: (nullable): %NULL if it is
 * missing or damaged, as by hand: this changes nothing for the held reservation. */
void reservation_check_floor(Registration *self, const Floor *floor);
