/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "common/log.h"

/* How an event is written, in each of the forms that log.h has. Nothing here writes anywhere. */
typedef struct {
	gint64 time_ms; /* since the Unix epoch */
	const char *level;
	guint priority; /* as syslog(3) numbers them */
	const char *event;
	const LogField *fields; /* ends with a key of NULL */
} LogLine;

/* No line is longer, with its end: as much fits a pipe that is writable, so that it does not block.
 * Of a line that would be, the longest texts are cut, and end with "...". */
#define LOG_LINE_MOST_BYTES 4096
G_STATIC_ASSERT(LOG_LINE_MOST_BYTES <= PIPE_BUF);

/* Appends event=NAME and the fields; @room: for how many bytes there is room. */
void log_line_append_logfmt(GString *out, const LogLine *line, gsize room);

/* Appends one object: time, level, event and the fields, in at most @room bytes. */
void log_line_append_json(GString *out, const LogLine *line, gsize room);

/* (transfer full): a datagram for the journal, as https://systemd.io/JOURNAL_NATIVE_PROTOCOL has
 * it; the message is what log_line_append_logfmt() makes. */
GString *log_line_datagram(const LogLine *line);

/* (transfer full): what the journal calls MESSAGE_ID: the UUID of version 5 (RFC 4122) of the
 * event's name in LOG_LINE_NAMESPACE, in 32 digits. */
char *log_line_message_id(const char *event);

#define LOG_LINE_NAMESPACE "411c39f6-c277-48bd-9fa5-a82c1512df5a"
