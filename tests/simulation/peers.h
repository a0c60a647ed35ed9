/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/world.h"
#include "worker/zookeeper/peer-check.h"

/*
 * The sanity checks of peers: worker/zookeeper/peer-check.h in virtual time. The simulation answers
 * for the peers; the real peer-report.c judges the answers.
 */

/* @answer: fills in the reply of @peer to @asker, or leaves it untouched if the peer is not
 * reached. It sets offset_ms to the peer's clock, in ms since the Unix epoch. */
void peers_set_answer(void (*answer)(const WorldMachine *asker, const Peer *peer,
				     PeerAnswer *out_answer));
