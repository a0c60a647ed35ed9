/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "client/load/options.h"
#include "client/load/report.h"

/* Called once a second by the thread that runs the load. @calls: answered in the last second */
typedef void (*LoadRunProgress)(guint second, guint64 calls, guint64 errors);

/**
 * run_load:
 * @options: that passed load_options_check()
 * @progress: (nullable)
 * @out_report: (out): what it came to; borrows @options
 *
 * Opens the connections, loads the servers, and waits until it is over. Raises the limit of open
 * files of the process as far as it has to, and may.
 *
 * Returns: %TRUE, even if calls failed, or %FALSE with an error of GIO if a connection could not
 *   be opened, or there is no memory for the IDs to be checked
 */
gboolean run_load(const LoadOptions *options, LoadRunProgress progress, LoadReport *out_report,
		  GError **error);
