/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registry-private.h"

/*
 * The connection to ZooKeeper as the registration sees it: what came over it, what becomes unknown
 * when it goes, and that another session takes its place.
 */

/* Takes in all that ZooKeeper has said. */
void zookeeper_connection_take_messages(RegistryZookeeper *self);

/* Tells of a connection that stays away, and begins another session when that is due. */
void zookeeper_connection_look_after(RegistryZookeeper *self);

/* When a connection that is away is to be told of: monotonic; G_MAXINT64: there is nothing to
 * tell. */
gint64 zookeeper_connection_tell_at_us(const RegistryZookeeper *self);
