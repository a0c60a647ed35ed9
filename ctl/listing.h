/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/notes.h"
#include "ctl/registry-tree.h"
#include "ctl/top-table.h"

/*
 * A list of "workers" or "top", as text of a certain time: which is printed, or drawn.
 */
typedef struct _CtlListing CtlListing;

/* @json: its elements are for JSON */
CtlListing *ctl_listing_new(gboolean json);
void ctl_listing_free(CtlListing *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlListing, ctl_listing_free)

/* One of these takes what is in it, as it is now.
 * @workers: (transfer full) (nullable): of CtlWorker, sorted; NULL: nobody tells */
void ctl_listing_take_workers(CtlListing *self, GPtrArray *workers);
void ctl_listing_take_top(CtlListing *self, GPtrArray *workers, const CtlTopOrder *order);
void ctl_listing_take_reservations(CtlListing *self, const CtlRegistryTree *tree);

/* What ctl_listing_take_top() has taken, in another order. */
void ctl_listing_sort(CtlListing *self, const CtlTopOrder *order);

/* (transfer none): what is to be said beside it. */
CtlNotes *ctl_listing_notes(const CtlListing *self);

/* Whether somebody has told what is in it. */
gboolean ctl_listing_is_known(const CtlListing *self);

/* Whether @self has nothing new to tell after @before. */
gboolean ctl_listing_is_same(const CtlListing *self, const CtlListing *before);

/* To standard output: a table as wide as it is, or of fewer columns on a terminal that it does not
 * fit; JSON with an element a line. */
void ctl_listing_print(const CtlListing *self);

/* As one of several: a table with its time above, and an empty line where another one is above
 * that; JSON on one line: an array, or the object of "top". */
void ctl_listing_print_next(const CtlListing *self, gboolean is_first);

/* On the terminal that standard output is, in the place of what is there, as much as fits.
 * @with_notes: below it */
void ctl_listing_draw(const CtlListing *self, gboolean with_notes);
