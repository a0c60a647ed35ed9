/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* What is to be said beside a list, on standard error: a line each. */
typedef struct _CtlNotes CtlNotes;

CtlNotes *ctl_notes_new(void);
void ctl_notes_free(CtlNotes *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlNotes, ctl_notes_free)

void ctl_notes_add(CtlNotes *self, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* @text: (transfer full): of which only @topic makes it another than the one before */
void ctl_notes_add_on(CtlNotes *self, const char *topic, char *text);
/* Of what kind it is, too. */
void ctl_notes_add_failure(CtlNotes *self, const GError *failure);

/* Adds a text for each to @texts, of char *, as it stands on standard error. */
void ctl_notes_write(const CtlNotes *self, GPtrArray *texts);

/* Says those that @before, (nullable), does not have. */
void ctl_notes_complain(const CtlNotes *self, const CtlNotes *before);
