/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Times that people write and read. */

/* Sets *out_time_ms to a time as RFC 3339 has it, in milliseconds since the Unix epoch. Digits of
 * the second after the third are left out. A leap second (60) is refused, because no ID is of one.
 * Returns: %FALSE if it is none */
gboolean ctl_time_text_parse(const char *text, gint64 *out_time_ms);

/* (transfer full): in local time. @time_ms: 0 to CTL_FORMAT_MAX_TIME_MS, or of an ID */
GDateTime *ctl_time_text_local(gint64 time_ms);
