/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/* REGISTRATION_SECURING: has a guard look after what this server shares with others, and says what
 * came of it. */

/* Whether there is anything to look after. Without a password there is not: all is open to all. */
gboolean zookeeper_securing_is_wanted(const Registration *self);

void zookeeper_securing_start(Registration *self);

/* Goes on with a reply of the session. %FALSE: it is not about this. */
gboolean zookeeper_securing_take(Registration *self, const ZookeeperMessage *message);
