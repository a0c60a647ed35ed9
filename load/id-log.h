/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The IDs that came, kept to look for duplicates when the run is over. One log a thread, all of
 * them in one block of memory of a fixed size: 8 bytes an ID, and as much again for looking.
 * Memory is taken as it is filled. A log that is full counts what it leaves out.
 */
typedef struct {
	gint64 *ids;
	gsize length;
	gsize room;
	guint64 left_out;
} LoadIdLog;

static inline void load_id_log_add(LoadIdLog *self, gint64 id)
{
	if (self->length < self->room)
		self->ids[self->length++] = id;
	else
		self->left_out++;
}

/* (transfer full) (nullable): @n_logs logs with room for @limit IDs among them, at least one each;
 * NULL if there is no memory for so many. */
LoadIdLog *load_id_log_new_all(guint n_logs, gsize limit);
void load_id_log_free_all(LoadIdLog *logs);

typedef struct {
	guint64 checked;
	guint64 left_out;
	guint64 duplicates; /* IDs that are equal to one before */
	gint64 duplicate;   /* one of them */
} LoadIdLogVerdict;

/* The logs are empty afterwards. */
LoadIdLogVerdict load_id_log_check_all(LoadIdLog *logs, guint n_logs);
