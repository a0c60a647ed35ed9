/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The journal's own socket. sd_journal_sendv() of libsystemd, and g_log_writer_journald(), wait for
 * as long as it takes when that socket is full: one journald that is stopped would stop the server.
 * So the datagram is sent here, without waiting.
 */

/* Whether standard error is the journal, which reads <4> before a line as its priority. */
gboolean log_journal_is_stderr(void);

/* One thread at a time. %FALSE: the journal is not there, or its socket is full. */
gboolean log_journal_send(const GString *datagram);
