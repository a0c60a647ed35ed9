/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* How far a long command is: a line on standard error, over itself, if that is a terminal. */

/* Whether it is time to say so again, which is so a few times a second on a terminal. */
gboolean ctl_progress_is_due(void);

void ctl_progress_show(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* Before anything else is said. */
void ctl_progress_clear(void);
