/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/server.h"

/*
 * The end of a server takes it apart in this order:
 *
 * 1. It says of itself that it is draining, and serves as before, for --drain-delay. Then the main
 *    loop ends.
 * 2. The RPC server: it accepts who is already there and then nobody, answers what has arrived and
 *    closes every connection, in --stop-timeout and a moment for the last replies. From then on
 *    nobody draws.
 * 3. The keeper: it hands the worker ID back, in what is left of --stop-timeout, or a second.
 *    Meanwhile the audit log is written to its end.
 * 4. server_clear() frees what is left.
 *
 * An event loop that has failed, or a keeper that has, ends the main loop too: there is no delay
 * then, and it is draining from 2 on.
 */

/* 1 of the above, for a signal of this name. */
void stop_begin(Server *self, const char *signal);

/* 2 and 3, after the main loop. If the keeper hangs, the process ends in this. */
void stop_threads(Server *self);
