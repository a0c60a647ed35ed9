/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/world.h"
#include "worker/zookeeper/peer-check.h"

/*
 * The sanity checks of a world: worker/zookeeper/peer-check.h in virtual time. Who is asked, and
 * what is said, is up to the simulation; what it means is for the real peer-report.c.
 */

/* @answer: fills in what a peer says, as it is asked by @asker; untouched if it is not reached.
 * offset_ms is set to what it says its clock is, in ms since the Unix epoch. */
void peers_set_answer(void (*answer)(const WorldMachine *asker, const Peer *peer,
				     PeerAnswer *out_answer));
