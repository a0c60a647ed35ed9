/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * A live view: a command that prints again and again until Ctrl-C, or q if standard input and
 * output are a terminal. That ends the program with status 0, at once, but not in the middle of
 * what is printed; a second one ends it there too, as the reader may have stopped. Before anything
 * was printed it is an interruption as usual. SIGTERM, SIGHUP and SIGQUIT end the program in the
 * same way, with their own status.
 *
 * The terminal is set to report keys, and restored on every way out and while the program is
 * stopped. While another job has the terminal, it is not touched.
 */

/* Call it before there are other threads.
 * @redraw: (nullable): called in a thread of its own, with printing begun, after the terminal was
 *   resized or another job had it, and after a key
 * @on_key: (nullable): called in another thread with each key except q; must not block */
void ctl_watch_begin(void (*redraw)(gpointer data), void (*on_key)(char key, gpointer data),
		     gpointer data);

/* Stops printing and calls of @redraw. The caller sets the status. */
void ctl_watch_end(void);

/* Output between these two is not cut by the end of the program. */
void ctl_watch_begin_print(void);
void ctl_watch_end_print(void);

/* Replaces the contents of the terminal by @text, if this job has the terminal. */
void ctl_watch_draw(const char *text);

/* (transfer full): a line with the local time, and with @keys if keys are read. */
char *ctl_watch_title(gint64 time_ms, const char *keys);
