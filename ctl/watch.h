/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "ctl/output.h"

/* A live view: a command that prints repeatedly until Ctrl-C, or q if it draws on a terminal. Both
 * end the program with status 0, or that of ctl_watch_set_status(), after the current list has been
 * printed. A second Ctrl-C or q ends it immediately, because the reader may have stopped reading.
 * Before the first list, Ctrl-C interrupts the program as usual. SIGTERM, SIGHUP and SIGQUIT end
 * the program in the same way, with their own status.
 *
 * The terminal is set to report keys. It is restored whenever the program ends or is suspended. In
 * the background, the program stops, like other full-screen programs. */

/* Call it before there are other threads. @redraw: (nullable): draws on the terminal; %NULL: the
 * output is not drawn, and no keys are read. Called in its own thread, between begin and end of
 * printing, after a key, and after the terminal has been resized or used by another job. @on_key:
 * called in another thread with each key except q; must not block */
void ctl_watch_begin(void (*redraw)(gpointer data), void (*on_key)(char key, gpointer data),
		     gpointer data);

/* Stops printing and calling @redraw. The caller determines the exit status. */
void ctl_watch_end(void);

/* The program does not end between these two calls, so the output is always complete. */
void ctl_watch_begin_print(void);
void ctl_watch_end_print(void);

/* Sets the exit status of Ctrl-C and q. */
void ctl_watch_set_status(CtlStatus status);

/* Replaces the contents of the terminal with @text, if this job owns the terminal. */
void ctl_watch_draw(const char *text);
