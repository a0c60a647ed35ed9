/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/store.h"
#include "ctl/worker.h"

/* Notes about a list of servers: what may be missing from it, and why. They are printed on standard
 * error, or drawn below the list. */
typedef struct _GPtrArray CtlNotes; /* the functions below add elements */

CtlNotes *ctl_notes_new(void);

/* @topic: (nullable): a second note on the same topic is dropped, even if its text differs; %NULL
 * to use the text as topic. @text: (transfer full) */
void ctl_notes_add(CtlNotes *self, const char *topic, char *text);
/* Adds a note for a failure, unless there is a note with the same text. */
void ctl_notes_add_failure(CtlNotes *self, const GError *failure);
/* Adds a note for each worker that does not answer (element-type CtlWorker), with the reason. If
 * there are many, adds their number instead. */
void ctl_notes_add_unreachable(CtlNotes *self, const GPtrArray *workers);
/* Adds a note for each worker that issues the same IDs as another one (element-type CtlWorker), as
 * far as is known. Returns %FALSE if there is one. */
gboolean ctl_notes_add_conflicts(CtlNotes *self, const GPtrArray *workers);
/* Adds a note for each znode of @tree that does not belong to a server or does not parse. Returns
 * %FALSE if a record does not parse. */
gboolean ctl_notes_add_tree(CtlNotes *self, const CtlRegistryTree *tree);

/* Returns whether there is a note for a failure. */
gboolean ctl_notes_has_failure(const CtlNotes *self);

/* Appends each note to @texts (element-type utf8), in the form for standard error. */
void ctl_notes_write(const CtlNotes *self, GPtrArray *texts);

/* Prints the notes on standard error. Skips notes that are also in @before. @before: (nullable) */
void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before);
