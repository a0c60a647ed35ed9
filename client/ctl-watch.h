/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * A command that prints again and again, until the operator has seen enough: Ctrl-C, or q where
 * standard input and output are a terminal. That ends the program with status 0, at once, but not
 * in the middle of what is printed; a second time it does that too, as the reader may have stopped.
 * SIGTERM, SIGHUP and SIGQUIT end it likewise, as if they had not been caught.
 *
 * The terminal is set for the key, and set back on every way out.
 */

/* Before there are other threads. */
void ctl_watch_begin(void);

/* What is printed between these two is printed whole.
 * @redraws: on a terminal, in the place of what is there */
void ctl_watch_begin_print(gboolean redraws);
void ctl_watch_end_print(void);

/* A line with the local time, and how to end it. */
void ctl_watch_print_time(void);

/* How many lines can be drawn without that the first goes. */
guint ctl_watch_lines(void);
