/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Does @work with each of @items, and returns when all are done: many at a time, each in one of
 * many threads, so that one that waits holds nobody up. */
void ctl_parallel_do(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
		     gpointer data);
