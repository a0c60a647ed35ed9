/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "ctl/screen.h"

/* A table of text. A column is as wide as its widest cell, with two blanks between columns. */
typedef struct _CtlTable CtlTable;

/* @heads: the first line, NULL-terminated. A column whose head begins with ">" has its text on the
 * right; the ">" is not printed. */
CtlTable *ctl_table_new(const char *const *heads);
/* The same with one blank between. */
CtlTable *ctl_table_new_close(const char *const *heads);
void ctl_table_free(CtlTable *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlTable, ctl_table_free)

/* Adds the next cell, and begins a line where one is full.
 * @text: (transfer full): printable ASCII, or what text_escape() makes it */
void ctl_table_add(CtlTable *self, char *text);
void ctl_table_add_painted(CtlTable *self, char *text, CtlColour colour);

/* Sets the colour of a head. @column: from 0 */
void ctl_table_paint_head(CtlTable *self, guint column, CtlColour colour);

/* To standard output. */
void ctl_table_print(const CtlTable *self);
/* (transfer full): prints @full; on a terminal that is too narrow for it, @brief. */
void ctl_table_print_fitting(CtlTable *full, CtlTable *brief);

/* (transfer full): its lines, of char *. Where a line would be longer than @columns, the widest
 * column is cut, to 21 at the least, which an IPv4 address with its port needs; a line may still be
 * longer. */
GPtrArray *ctl_table_lines(const CtlTable *self, guint columns);

/* Whether the lines are no longer than @columns. */
gboolean ctl_table_fits(const CtlTable *self, guint columns);
