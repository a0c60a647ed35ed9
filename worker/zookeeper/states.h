/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/* What is done in each state of the registration, and what comes of it. Starting a state begins a
 * wait, if there is something to wait for; its end is the end of the wait, and has changed the
 * facts. */

/* %FALSE: in this state nothing is done, but for others to change the facts. */
gboolean zookeeper_states_start(Registration *self);

/* The reply that the state waits for. */
void zookeeper_states_reply(Registration *self, const ZookeeperMessage *message);

/* The listing that the state waits for is finished. */
void zookeeper_states_listed(Registration *self);

/* The peers that the state waits for may have been asked. */
void zookeeper_states_look_at_peers(Registration *self);

/* The keeper wants something: that goes before a list, if one is being made. */
void zookeeper_states_put_off_list(Registration *self);

/* What is under way will not be answered: whether it took place, nobody knows. */
void zookeeper_states_abandon(Registration *self);
