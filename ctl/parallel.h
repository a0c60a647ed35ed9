/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Raises the limit of open files as far as this process may. */
void ctl_parallel_raise_limit(void);

/* How many descriptors may be left open from one ctl_parallel_do() to the next. */
guint ctl_parallel_room(void);

/* Does @work, which may connect to one server at a time, with each of @items, and returns when all
 * are done: many at a time, each in one of many threads, so that one that waits holds nobody up; as
 * many as there are descriptors for. */
void ctl_parallel_do(const GPtrArray *items, void (*work)(gpointer item, gpointer data),
		     gpointer data);
