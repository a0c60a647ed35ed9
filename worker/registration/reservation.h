/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/* The steps RESERVING, EXTENDING, RELEASING and SETTLING: the writes that make IDs unique.
 *
 * These steps create, extend and release a reservation. If the outcome of a write is unknown, for
 * example after a lost reply, the record is read.
 *
 * Each write is conditional on the version of the record that was read or written last, and on the
 * version of the floor. If the server found the floor missing or damaged, the version of the floor
 * is not checked. A new reservation begins after the end that was read, and after the floor. The
 * keeper determines how many ticks from now the reservation ends. An extension never lowers the
 * end, and a release never raises it.
 */

void reservation_reserve(Registration *self);
void reservation_extend(Registration *self);
void reservation_release(Registration *self);
void reservation_take_written(Registration *self, const StoreMessage *answer);
void reservation_settle(Registration *self);
void reservation_take_settled(Registration *self, const StoreMessage *answer);

/* Requires a read of the held record if it was not read on this connection and no attempt is
 * open. Call it before the next step. */
void reservation_check_is_read(Registration *self);

/* Checks the held reservation against the datacenter's floor. Call it when the floor was read on
 * this connection. The reservation is lost if another server may have had its worker ID in a lost
 * history. @floor: (nullable): %NULL if it is missing or damaged, which changes nothing for the
 * held reservation. */
void reservation_check_floor(Registration *self, const Floor *floor);
