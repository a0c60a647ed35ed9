/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/zookeeper.h"

/* Lines that go with a list of servers: what is missing in it, and why. They are printed on
 * standard error, or drawn below the list. */
typedef struct _GPtrArray CtlNotes; /* of what the functions below add */

CtlNotes *ctl_notes_new(void);

/* @topic: two notes on the same topic are the same note, whatever their text; NULL: the text
 * @text: (transfer full) */
void ctl_notes_add(CtlNotes *self, const char *topic, char *text);
/* The same for a failure. */
void ctl_notes_add_failure(CtlNotes *self, const GError *failure);
/* Adds a note for each znode of @tree that is not a server's or does not parse. Returns %FALSE if a
 * record does not parse. */
gboolean ctl_notes_add_tree(CtlNotes *self, const CtlRegistryTree *tree);

/* Appends each note to @texts (element-type utf8), as it is printed on standard error. */
void ctl_notes_write(const CtlNotes *self, GPtrArray *texts);

/* Prints the notes on standard error, except those that @before (nullable) has too. */
void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before);
