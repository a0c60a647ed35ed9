/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/* The steps of the states that read the store or the peers, from the layout to the choice of a
 * worker ID, and the list of all workers. See reservation.h for the steps that write a reservation.
 *
 * In each state, a start function sends the request, and a take function handles the answer.
 * registration.c calls both. Three states differ: READING_DATACENTER and LISTING_WORKERS wait for
 * several answers, and CHECKING_PEERS does not wait for the store. */

void step_start_preparing(Registration *self);
void step_take_preparation_answer(Registration *self, const StoreMessage *answer);
void step_start_checking_acls(Registration *self);
void step_take_acls(Registration *self, const StoreMessage *answer);
void step_start_creating_claim(Registration *self);
void step_take_created_claim(Registration *self, const StoreMessage *answer);
void step_start_reading_time(Registration *self);
void step_take_time(Registration *self, const StoreMessage *answer);
void step_start_reading_datacenter(Registration *self);
void step_start_checking_peers(Registration *self);
void step_start_listing_workers(Registration *self);
void step_take_datacenter_ids(Registration *self, const StoreMessage *answer);

/* Handles an answer to one of the requests that read a datacenter. The last one ends the wait of
 * READING_DATACENTER or LISTING_WORKERS. Returns: %FALSE if the answer belongs to another
 * request */
gboolean step_take_datacenter_answer(Registration *self, const StoreMessage *answer);

/* Evaluates the answers of the peers, if they have arrived: determines whether they contradict this
 * server. */
void step_take_peers(Registration *self);

/* Interrupts the list of the workers, so that the keeper's operation comes first. */
void step_postpone_workers(Registration *self);

/* Discards the data read from a datacenter, and the list of the workers. */
void step_drop_readings(Registration *self);

/* Frees the data of the steps. */
void step_clear(Registration *self);

/* The differences between this server's clock and those of its peers, for monitoring only. */

/* Requests the clocks of at most 16 peers from the list in the report, waiting at most a second,
 * and at most every 30 s. Nothing waits for the answers. Call it when a list has arrived. */
void step_request_clocks(Registration *self);
/* Handles the answers to these requests, if they have arrived. */
void step_take_clocks(Registration *self);
/* From now on, includes the peers' clocks from @report in the registry's report. */
void step_note_clocks(Registration *self, const PeerReport *report);
