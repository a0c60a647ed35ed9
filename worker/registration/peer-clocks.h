/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/registration/internal.h"

/*
 * How far this server's clock is from those of the other servers of its datacenter, for a person or
 * a program that watches it: nothing is decided by it. They are asked after a list of all workers,
 * which says where they are: 16 of them at most, for a second at most, and no more often than every
 * 30 s. Threads of peer-check.h do that; nothing waits for them.
 */

/* A list has come, and is in the report. */
void peer_clocks_request(Registration *self);
/* Takes in the answers, if they are there. */
void peer_clocks_take(Registration *self);
/* Reports the clocks in @report from now on. */
void peer_clocks_note(Registration *self, const PeerReport *report);
