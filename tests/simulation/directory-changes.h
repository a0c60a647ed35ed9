/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* What happens to a state directory between two starts, and under a server that runs: each returns
 * %FALSE if there is no such step. */
gboolean directory_changes_start(guint step);
gboolean directory_changes_run(guint step);
