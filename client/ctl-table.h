/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Lines of text in columns as wide as what is in them, with two blanks between. */
typedef struct _CtlTable CtlTable;

/* @heads: the first line, NULL-terminated. A column whose head begins with ">" has its text on the
 * right; the ">" is not printed. */
CtlTable *ctl_table_new(const char *const *heads);
void ctl_table_free(CtlTable *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlTable, ctl_table_free)

/* Adds the next cell, and begins a line where one is full.
 * @text: (transfer full): printable ASCII, or what text_escape() makes it */
void ctl_table_add(CtlTable *self, char *text);

/* To standard output. */
void ctl_table_print(const CtlTable *self);
