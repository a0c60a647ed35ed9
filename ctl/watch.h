/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * A command that prints again and again, until the operator has seen enough: Ctrl-C, or q where
 * standard input and output are a terminal. That ends the program with status 0, at once, but not
 * in the middle of what is printed; a second time it does that too, as the reader may have stopped.
 * Before anything was printed it is an interruption like any other, with its last words. SIGTERM,
 * SIGHUP and SIGQUIT end it likewise, as if they had not been caught.
 *
 * The terminal is set for the key, and set back on every way out and while the program is stopped.
 * While another job has the terminal, it is left alone.
 */

/* Before there are other threads.
 * @redraw: (nullable): called where what is printed whole is, in a thread of its own, when the
 * screen has another size, or may be anybody's
 * @on_key: (nullable): called in another thread with each key but q, and must not wait; then
 * @redraw is */
void ctl_watch_begin(void (*redraw)(gpointer data), void (*on_key)(char key, gpointer data),
		     gpointer data);

/* Nothing is printed any more, and @redraw is not called. The status is the caller's. */
void ctl_watch_end(void);

/* What is printed between these two is printed whole. */
void ctl_watch_begin_print(void);
void ctl_watch_end_print(void);

/* Prints @text on the terminal in the place of what is there, if this job has it. */
void ctl_watch_draw(const char *text);

/* (transfer full): a line with that time, in local time, and what @keys do, if there are any. */
char *ctl_watch_title(gint64 time_ms, const char *keys);
