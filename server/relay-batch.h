/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/cursor.h"

/* IDs that came as numbers, as the run of a cursor that a draw is. */

/* Of consecutive numbers: no layout is asked, so they are the same numbers whatever it is.
 * @first: above 0; @count: 1 or more */
IdRun relay_batch_of_numbers(gint64 first, guint count);

/**
 * relay_batch_of_runs:
 * @runs: (element-type SnowflakeClientIdRun): one or more, of one draw of a server
 * @out_run: (out): all of them; untouched on failure
 *
 * Returns: %FALSE if they are no run of one worker with @layout: then the server has another one
 */
gboolean relay_batch_of_runs(const Layout *layout, const GArray *runs,
			     IdRun *out_run) G_GNUC_WARN_UNUSED_RESULT;
