/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/*
 * In the states ANNOUNCING, TIMING, LOOKING, CHECKING and LISTING.
 *
 * The claim of this server, the mortal record that shows that it lives; which worker ID it takes;
 * and lists of all workers.
 */

void claiming_announce(Registration *self);
void claiming_take_announced(Registration *self, const StoreMessage *answer);
/* A write to the claim is stamped by the store's clock. */
void claiming_request_time(Registration *self);
void claiming_take_time(Registration *self, const StoreMessage *answer);
/* The claim is gone although the session lives: everything else may be, too. */
void claiming_lose_claim(Registration *self);
/* (transfer full): the data of the claim. @worker_id -1: none yet. */
char *claiming_claim_json(const Registration *self, gint worker_id);

void claiming_list_datacenter(Registration *self);
/* Returns: %FALSE if the answer is not to a request of a listing */
gboolean claiming_take_listing(Registration *self, const StoreMessage *answer);
void claiming_drop_listing(Registration *self);

void claiming_check_peers(Registration *self);
/* If the peers have been asked: decides whether they contradict. */
void claiming_take_peers(Registration *self);

void claiming_list_workers(Registration *self);
void claiming_take_datacenters(Registration *self, const StoreMessage *answer);
void claiming_drop_list(Registration *self);
