/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/*
 * What has to stand in ZooKeeper before a server may claim anything: the layout is ours, the limits
 * are no less than ours, and the datacenter is there. What is missing is made, one after the other:
 * a datacenter's floor before its reservations, so that where those are, a floor was.
 */

/* In the state PREPARING; as states.h has it. */
void zookeeper_preparation_start(Registration *self);
void zookeeper_preparation_reply(Registration *self, const ZookeeperMessage *message);
