/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Time that passes only when the test says so, for code of two threads: the test's, which drives,
 * and one that works and sleeps by pthread_cond_timedwait() in between. The linker puts it in the
 * place of the machine's time (scripted_time_args in meson.build), so what is tested is what ships.
 *
 * Time stands while the worker works, however long the machine lets it wait for a processor. It
 * moves on when both are done with what there is to do now. All clocks go together; they begin at
 * the machine's time.
 */

/* From here on time is scripted, and the calling thread drives. Not while the worker runs. */
void scripted_time_begin(void);

/* From here on it is the machine's again: the worker has ended. */
void scripted_time_end(void);

/* Waits until the worker sleeps, or waits for a condition; then nothing changes any more by itself.
 * The worker must have been started. */
void scripted_time_settle(void);

/* Settles, lets @us pass, and settles again. The worker can wake at any time in between. */
void scripted_time_pass(gint64 us);
