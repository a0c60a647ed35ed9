/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/*
 * How far this server's clock is from those of the other servers of its datacenter, for whoever
 * watches it: nothing is decided by it. They are asked after a list of all workers has come, which
 * says where they are: 16 of them at most, for a second at most, and no more often than every 30 s.
 * Threads of peer-check.h do that; neither the keeper nor a state of the registration waits.
 */

/* A list has come, and is in the registry. */
void zookeeper_peer_clocks_ask(Registration *self);

/* Takes in what they have said, if they have. */
void zookeeper_peer_clocks_take(Registration *self);

/* What @report has about them is what is known from now on. */
void zookeeper_peer_clocks_note(Registration *self, const PeerReport *report);
