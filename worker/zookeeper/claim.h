/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/zookeeper/registration.h"

/* The claim of this server: the ephemeral znode that says that it lives. It is announced, found
 * again, watched, and written to for ZooKeeper's time. */

/* ANNOUNCING; as states.h has it. */
void zookeeper_claim_announce(Registration *self);
void zookeeper_claim_on_announced(Registration *self, const ZookeeperMessage *message);

/* TIMING: a write to it is stamped by the leader's clock. */
void zookeeper_claim_ask_time(Registration *self);
void zookeeper_claim_on_time(Registration *self, const ZookeeperMessage *message);

/* Finds its own in the listing, or learns that there is none. Deletes what else has its nonce. */
void zookeeper_claim_find(Registration *self);

/* A CHANGED of its path says if it goes, the reply if it is gone already. */
void zookeeper_claim_watch(Registration *self);

/* The session is gone: its watches with it, but a claim may be left. */
void zookeeper_claim_on_session_end(Registration *self);

/* It is gone although the session lives: so may be all else, and be made anew by others. */
void zookeeper_claim_lose(Registration *self);

/* (transfer full): its data. @worker_id -1: none yet. */
char *zookeeper_claim_json(const Registration *self, gint worker_id);
