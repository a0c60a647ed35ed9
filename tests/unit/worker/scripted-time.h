/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Time that passes only when the test says so, for two threads: the driver, which is the thread of
 * the test, and the worker, which sleeps in clock_wait_until() between its work. The linker
 * replaces the clock functions (scripted_time_args in meson.build), so the tested code is
 * unchanged.
 *
 * The time does not pass while the worker works, even if it waits long for a processor. It advances
 * when both threads have nothing to do at the current time. All clocks advance together, and begin
 * at the time of the machine.
 */

/* Starts scripted time. The calling thread becomes the driver. The worker must not run yet. */
void scripted_time_begin(void);

/* Returns to the time of the machine. The worker must have ended. */
void scripted_time_end(void);

/* Waits until the worker sleeps or waits for a condition, so that nothing changes without the test.
 * The worker must have been started. */
void scripted_time_settle(void);

/* Settles, lets @us pass, and settles again. The worker can wake at any time in between. */
void scripted_time_pass(gint64 us);
