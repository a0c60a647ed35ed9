/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Signals as events of the main loop, so that none that somebody sends ends the process before it
 * has handed its worker ID back: those that ask it to stop, and those that would kill it because
 * nobody has thought of them. Left alone are those that tell of a fault of the process itself,
 * those of job control, and the ones that do no harm.
 *
 * The main thread's only.
 */

/* A signal came: @stop: one of those that ask for the end. @sender: a process ID; 0: the kernel. */
typedef void (*SignalHeard)(int number, gboolean stop, guint sender, gpointer user_data);

/* A SIGHUP waits for signals_watch(). Before anything is opened that it is to open again, and
 * before there are other threads. */
void signals_hold_reload(void);

/* Calls @heard from the default main context, and only so: they are blocked for this thread and
 * those that it starts, so there must be no others yet. Of several that ask for the end at once,
 * one is heard. %FALSE with a GFileError set. */
gboolean signals_watch(SignalHeard heard, gpointer user_data,
		       GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* From now on those that ask for the end bring it about at once. */
void signals_kill_at_next_stop(void);
