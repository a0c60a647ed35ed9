/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "load/options.h"
#include "load/report.h"

/* Called once a second by the thread that runs the load. @calls: calls answered in the last second
 */
typedef void (*LoadRunProgress)(guint second, guint64 calls, guint64 errors);

/* The connections of a load, and the threads that share them. */
typedef struct _LoadRun LoadRun;

/**
 * load_run_new:
 * @options: borrowed; load_options_check() has accepted them
 *
 * Opens the connections. If a server refuses a connection, this connection and all later ones are
 * opened to the other servers.
 *
 * Returns: (transfer full): or %NULL with an error of the client or GIO if no server accepts
 * connections, or there is no memory for the check of the IDs
 */
LoadRun *load_run_new(const LoadOptions *options, GError **error);
void load_run_free(LoadRun *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadRun, load_run_free)

/**
 * load_run_go:
 * @progress: (nullable)
 * @stop: the load ends when this becomes true
 *
 * Runs the load, and waits for its end. Call it once.
 *
 * Returns: the report, also if calls failed; it borrows the options
 */
LoadReport load_run_go(LoadRun *self, LoadRunProgress progress, const atomic_bool *stop);
