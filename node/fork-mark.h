/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Says whether this process is the one that made the mark, for the price of a load: it stands in a
 * page of its own that the kernel wipes in every child that has a copy of the memory, however it
 * was made (MADV_WIPEONFORK, Linux 4.14). No process ID is asked for, which another process may
 * have by now.
 *
 * Whoever draws from what is copied on fork() looks at the mark after the draw: what was drawn from
 * a copy is then known for one, even where a signal's handler has forked in between.
 */
typedef volatile gint ForkMark;

/* (nullable): %NULL, with an error of one line set, if the kernel has no such pages. */
ForkMark *fork_mark_new(GError **error);

/* In the process that made it. */
void fork_mark_free(ForkMark *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ForkMark, fork_mark_free)

/* Any thread. */
static inline gboolean fork_mark_is_mine(const ForkMark *self)
{
	return G_LIKELY(*self != 0);
}
