/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/*
 * In the states PREPARING and SECURING.
 *
 * What must be in the store before a server may claim anything: the layout is ours, the limits are
 * no less than ours, and the datacenter is there. Missing records are made, one after the other: a
 * datacenter's floor before its reservations, so that a datacenter with reservations had a floor.
 */
void preparation_start(Registration *self);
void preparation_take_answer(Registration *self, const StoreMessage *answer);
void preparation_check_access(Registration *self);
void preparation_take_access(Registration *self, const StoreMessage *answer);
