/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/server.h"

/*
 * Signals, and what follows: the stop and the reload of the options.
 *
 * Signals are events of the main loop, so no signal ends the process before it has released its
 * worker ID. Two groups are handled: those that request the stop, and those that would end the
 * process by default, which are logged. Signals of a fault in the process, signals of job control
 * and harmless ones keep their default actions.
 *
 * A stop takes the server apart in this order:
 *
 * 1. A signal: the server reports that it is draining, and serves as before for --drain-delay. Then
 *    the main loop ends. A second signal ends the process at once.
 * 2. The RPC server accepts the clients that have connected already and no others, answers all
 *    calls that have arrived, and closes every connection, within --stop-timeout and a moment for
 *    the last replies. From then on no IDs are drawn.
 * 3. The keeper releases the worker ID, in the rest of --stop-timeout or one second. Meanwhile the
 *    audit log is written to its end.
 * 4. server_clear() frees the rest.
 *
 * An event loop or a keeper that has failed ends the main loop too. Then there is no delay, and the
 * server is draining from step 2 on.
 *
 * SIGHUP opens the files of the audit log again, and reads the config file again, with the command
 * line of the start above it. Options that the options' table marks as reread take effect: numbers,
 * choices and --allow. Other options that differ are named in the log at each reload. A file with
 * an error changes nothing. The certificate and its key are read again as a pair; a pair with an
 * error changes nothing.
 *
 * The main thread only.
 */

/* Makes a SIGHUP wait for signals_watch(). Call this before files are opened that SIGHUP opens
 * again, and before there are other threads. */
void signals_hold_reload(void);

/* Handles signals in the default main context. They are blocked for this thread and those that it
 * starts, so there must be no others yet. %FALSE with a GFileError set. */
gboolean signals_watch(Server *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Steps 2 and 3, after the main loop has ended. If the keeper hangs, the process ends here. */
void signals_stop_threads(Server *self);
