/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Parses and converts the times that operators write and read. */

/* Sets *out_time_ms to the time that @text states in RFC 3339, in milliseconds since the Unix
 * epoch. Ignores digits after the milliseconds. Refuses a leap second (60), because no ID has such
 * a time. Returns: %FALSE if @text is not such a time */
gboolean ctl_time_text_parse(const char *text, gint64 *out_time_ms);

/* (transfer full): local time. @time_ms: 0 to CTL_FORMAT_MAX_TIME_MS, or the time of an ID */
GDateTime *ctl_time_text_local(gint64 time_ms);
