/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/*
 * The steps of a claim, from the first look at the store to the choice of a worker ID, and the
 * lists of all workers. reservation.c has the steps that write a reservation.
 *
 * In each state one thing is under way. A step begins it, and takes the answer to it.
 */

/* Begins the step of the present state. Returns: %FALSE if the state has none */
gboolean claim_start_step(Registration *self);

/* Takes an answer of the store, if the present step waits for it. */
void claim_take_answer(Registration *self, const StoreMessage *answer);

/* The step under way will not be answered: its outcome is unknown. */
void claim_abandon_step(Registration *self);

/* Interrupts a list of the workers, so that the keeper's goal comes first. */
void claim_postpone_list(Registration *self);

/* Takes in the answers of the peers, if they have come: decides whether they contradict. */
void claim_take_peers(Registration *self);

/* Frees what the steps have left. */
void claim_clear(Registration *self);

/*
 * How far this server's clock is from the clocks of its peers, for monitoring: nothing is decided
 * by it.
 */

/* A list has come, and is in the report: asks 16 of its peers at most, for a second at most, and
 * not more often than every 30 s. Nothing waits for the answers. */
void claim_request_clocks(Registration *self);
/* Takes in these answers, if they have come. */
void claim_take_clocks(Registration *self);
/* Reports the clocks in @report from now on. */
void claim_note_clocks(Registration *self, const PeerReport *report);
