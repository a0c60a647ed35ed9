/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-table.h"

#include <string.h>

#include "client/ctl-output.h"

#define BETWEEN "  "

struct _CtlTable {
	guint columns;
	gboolean *to_the_right;
	guint *widths;
	GPtrArray *cells; /* of char *, line by line */
};

CtlTable *ctl_table_new(const char *const *heads)
{
	CtlTable *self = g_new(CtlTable, 1);

	self->columns = g_strv_length((char **)heads);
	self->to_the_right = g_new0(gboolean, self->columns);
	self->widths = g_new0(guint, self->columns);
	self->cells = g_ptr_array_new_with_free_func(g_free);
	for (guint i = 0; i < self->columns; i++) {
		self->to_the_right[i] = heads[i][0] == '>';
		ctl_table_add(self, g_strdup(heads[i] + self->to_the_right[i]));
	}
	return self;
}

void ctl_table_free(CtlTable *self)
{
	if (self == NULL)
		return;
	g_free(self->to_the_right);
	g_free(self->widths);
	g_ptr_array_unref(self->cells);
	g_free(self);
}

void ctl_table_add(CtlTable *self, char *text)
{
	guint column = self->cells->len % self->columns;

	self->widths[column] = MAX(self->widths[column], (guint)strlen(text));
	g_ptr_array_add(self->cells, text);
}

void ctl_table_print(const CtlTable *self)
{
	for (guint i = 0; i < self->cells->len; i++) {
		const char *text = self->cells->pdata[i];
		guint column = i % self->columns;
		gboolean last = column == self->columns - 1;
		int width = (int)self->widths[column];

		if (self->to_the_right[column])
			ctl_output_print("%*s", width, text);
		else
			ctl_output_print("%-*s", last ? 0 : width, text);
		ctl_output_print("%s", last ? "\n" : BETWEEN);
	}
}
