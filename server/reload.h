/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/server.h"

/*
 * SIGHUP: the audit log's files are opened again, and the config file is read again, below the
 * command line as at the start. The options that the table marks as reread are taken, from then on;
 * they are numbers, choices and allow. Others that differ from what the server runs with are named
 * in the log, at each reload until the restart. A file that is not right changes nothing. The
 * certificate is read again with its key, as a pair; one that is not right changes nothing either.
 *
 * @sender: a process ID, for the log. The main thread's.
 */
void reload(Server *self, guint sender);
