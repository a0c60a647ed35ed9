/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/*
 * What comes of what the session says: it is connected, loses its connection or expires, a watch
 * has seen something, a reply is there. What becomes unknown with a connection is found out anew
 * over the next; another session takes the place of one that is gone, or has tried in
 * vain.
 */

/* Takes in all that ZooKeeper has said. */
void zookeeper_session_events_take(Registration *self);

/* Tells of a connection that stays away, and begins another session when that is due. */
void zookeeper_session_events_look_after(Registration *self);

/* When a connection that is away is to be told of: monotonic; G_MAXINT64: there is nothing to
 * tell. */
gint64 zookeeper_session_events_tell_at_us(const Registration *self);
