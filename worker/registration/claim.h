/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/*
 * The steps of a claim, from reading the store to the choice of a worker ID, and the lists of all
 * workers. See reservation.c for the steps that write a reservation.
 *
 * Each state waits for one answer. Its step makes the request, and takes the answer.
 */

/* Begins the step of the current state. Returns: %FALSE if the state has none */
gboolean claim_start_step(Registration *self);

/* Takes an answer of the store, if the current step waits for it. */
void claim_take_answer(Registration *self, const StoreMessage *answer);

/* Ends the current step, which will not be answered: its outcome is unknown. */
void claim_abandon_step(Registration *self);

/* Interrupts a list of the workers, so that the keeper's goal comes first. */
void claim_postpone_workers(Registration *self);

/* Takes the answers of the peers, if they have arrived, and decides whether they contradict this
 * server. */
void claim_take_peers(Registration *self);

/* Frees the data of the steps. */
void claim_clear(Registration *self);

/*
 * The differences between this server's clock and those of its peers, for monitoring only.
 */

/* Call it when a list has arrived and is in the report. Asks at most 16 of its peers, for at most a
 * second, and at most every 30 s. Nothing waits for the answers. */
void claim_request_clocks(Registration *self);
/* Takes these answers, if they have arrived. */
void claim_take_clocks(Registration *self);
/* Reports the clocks in @report from now on. */
void claim_note_clocks(Registration *self, const PeerReport *report);
