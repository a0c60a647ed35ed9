/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * What Ctrl-C leaves. SIGINT and SIGTERM end the program as they always do, by the signal, but not
 * in the middle of what is printed; and before, the last words are written, which make it complete.
 * A second one ends it at once: the reader may have stopped.
 */

/* From here on. A signal that is ignored stays so. */
void ctl_interrupt_catch(void);

/* What is begun by the first of these is not cut off before the second: the signal waits. */
void ctl_interrupt_hold(void);
void ctl_interrupt_release(void);

/* Ends the program by that signal, after the last words if they are @wanted. */
G_NORETURN void ctl_interrupt_end(int number, gboolean wanted);

/* @text: (transfer full) (nullable): what is written to @descriptor in the end. While held, or
 * before ctl_interrupt_catch(). */
void ctl_interrupt_set_last_words(int descriptor, char *text);
