/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "load/options.h"
#include "load/report.h"

/* The connections of a load, and the threads that share them. */
typedef struct _LoadRun LoadRun;

/* Opens the connections. If a server refuses a connection, uses the other servers for this
 * and all later connections.
 * @options: borrowed
 * Returns: (transfer full): a run, or %NULL with
 * a client error or a GIOError set if no server accepts connections, or if there is no memory to
 * check the IDs */
LoadRun *load_run_new(const LoadOptions *options, GError **error);
void load_run_free(LoadRun *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadRun, load_run_free)

/* Runs the load, and waits for its end, or until @stop becomes true. Call it once. Returns: the
 * report, even if calls have failed; it borrows the options */
LoadReport load_run_go(LoadRun *self, const atomic_bool *stop);
