/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/notes.h"
#include "ctl/registry-tree.h"

/*
 * A list of "workers", as text of a certain time: which is printed, or drawn.
 */
typedef struct _CtlList CtlList;

/* @json: its elements are for JSON */
CtlList *ctl_list_new(gboolean json);
void ctl_list_free(CtlList *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlList, ctl_list_free)

/* One of these takes what is in it, as it is now.
 * @workers: (transfer full) (nullable): of CtlWorker, sorted; NULL: nobody tells */
void ctl_list_take_workers(CtlList *self, GPtrArray *workers);
void ctl_list_take_reservations(CtlList *self, const CtlTree *tree);

/* (transfer none): what is to be said beside it. */
CtlNotes *ctl_list_notes(const CtlList *self);

/* Whether somebody has told what is in it. */
gboolean ctl_list_is_known(const CtlList *self);

/* Whether @self has nothing new to tell after @before. */
gboolean ctl_list_is_same(const CtlList *self, const CtlList *before);

/* To standard output: a table as wide as it is, or of fewer columns on a terminal that it does not
 * fit; JSON with an element a line. */
void ctl_list_print(const CtlList *self);

/* As one of several: a table with its time above, and an empty line where another one is above
 * that; JSON on one line. */
void ctl_list_print_next(const CtlList *self, gboolean is_first);

/* On the terminal that standard output is, in the place of what is there, as much as fits.
 * @with_notes: below it */
void ctl_list_draw(const CtlList *self, gboolean with_notes);
