/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/* The writes that make IDs unique: a reservation is made, extended, handed back, and, when nobody
 * knows whether that took place, read. Each write is conditional on the version that was read last,
 * and on that of the floor, and its end is computed from that reading. */

/* In the states RESERVING, EXTENDING, RETURNING and SETTLING; as states.h has it. */
void zookeeper_reservation_reserve(Registration *self);
void zookeeper_reservation_extend(Registration *self);
void zookeeper_reservation_hand_back(Registration *self);
void zookeeper_reservation_settle(Registration *self);
void zookeeper_reservation_on_settled(Registration *self, const ZookeeperMessage *message);
/* Of the others. */
void zookeeper_reservation_on_written(Registration *self, const ZookeeperMessage *message);

/* Before the next step: what is held and was not looked at on this connection is to be settled,
 * unless an attempt is open. */
void zookeeper_reservation_look(Registration *self);

/* The datacenter's floor, read on this connection, in PREPARING: what is held is lost if it may
 * have been another's in a history that was lost. @floor: (nullable): %NULL if it is missing or
 * damaged, as by hand: nothing follows from that for what is held. */
void zookeeper_reservation_check_floor(Registration *self, const ZnodeFloor *floor, gint32 version);
