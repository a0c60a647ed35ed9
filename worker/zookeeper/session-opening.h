/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/*
 * Opens a session with ZooKeeper, and another in its place if it does not get connected. The one
 * before goes on trying meanwhile: names may take a minute to look up.
 */

/* When the next is to be begun: monotonic; G_MAXINT64: none is needed, or one is under way. */
gint64 zookeeper_session_opening_at_us(const Registration *self);

void zookeeper_session_opening_begin(Registration *self);

/* (transfer full) (nullable): the session that is opened, to take the place of the one before. */
ZookeeperSession *zookeeper_session_opening_take(Registration *self);

/* What is under way, if anything is, is of no use any more. */
void zookeeper_session_opening_drop(Registration *self);

/* ZooKeeper has said that the session has expired, so it is where it was: the next session does
 * not look names up, and what is under way is dropped. */
void zookeeper_session_opening_after_expiry(Registration *self);

/**
 * zookeeper_session_opening_find_why_not:
 * @out_why: (out) (transfer full) (nullable): why there is no connection; %NULL: not known;
 *   untouched unless %TRUE
 *
 * Returns: %FALSE while a probe runs, for four seconds at most (see reach.h): call again when
 *   wake() is called
 */
gboolean zookeeper_session_opening_find_why_not(Registration *self, char **out_why);

/* Stops finding out why there is no connection. */
void zookeeper_session_opening_drop_why_not(Registration *self);
