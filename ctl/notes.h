/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/zookeeper.h"

/* Notes on a list of servers: what may be missing in it, and why. They are printed on standard
 * error, or drawn below the list. */
typedef struct _GPtrArray CtlNotes; /* elements are added by the functions below */

CtlNotes *ctl_notes_new(void);

/* @topic: (nullable): a second note on the same topic is dropped, even if its text differs; %NULL
 * if use the text as topic
 * @text: (transfer full) */
void ctl_notes_add(CtlNotes *self, const char *topic, char *text);
/* Adds a note for a failure. */
void ctl_notes_add_failure(CtlNotes *self, const GError *failure);
/* Adds a note for each znode of @tree that is not a server's or does not parse. Returns %FALSE if a
 * record does not parse. */
gboolean ctl_notes_add_tree(CtlNotes *self, const CtlRegistryTree *tree);

/* Appends each note to @texts (element-type utf8), in the form for standard error. */
void ctl_notes_write(const CtlNotes *self, GPtrArray *texts);

/* Prints the notes on standard error, except those that are also in @before (nullable). */
void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before);
