/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/* REGISTRATION_SECURING: checks that nobody without the password may write what servers share. */

/* Without a password everything is open to everyone, and nothing is checked. */
gboolean zookeeper_securing_is_wanted(const Registration *self);

void zookeeper_securing_start(Registration *self);

/* Goes on with a reply of the session. %FALSE: it is not about this. */
gboolean zookeeper_securing_take(Registration *self, const ZookeeperMessage *message);
