/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Changes of a state directory between two starts, and while its server runs. Returns: %FALSE if
 * there is no such step */
gboolean directory_changes_start(guint step);
gboolean directory_changes_run(guint step);
