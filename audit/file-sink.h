/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/sink.h"

/**
 * file_sink_new:
 *
 * Appends to a regular file, which is made, for owner and group, if there is none. A line that
 * somebody did not get to write to its end is ended before the first line goes behind it.
 *
 * Returns: (transfer full): a sink, or %NULL with a GFileError set
 */
AuditSink *file_sink_new(const char *path, GError **error);
