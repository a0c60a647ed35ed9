/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/table.h"

#include <string.h>

#include "ctl/output.h"
#include "ctl/screen.h"

#define BETWEEN         2 /* blanks */
#define CUT             "..."
#define MIN_CUT_COLUMNS 21 /* 255.255.255.255:65535 */

struct _CtlTable {
	guint columns;
	guint between; /* blanks */
	gboolean *to_the_right;
	guint *widths;
	GPtrArray *cells; /* of char *, line by line */
	GArray *colours;  /* of CtlColour, theirs */
};

static CtlTable *table_new(const char *const *heads, guint between)
{
	CtlTable *self = g_new(CtlTable, 1);

	self->between = between;
	self->columns = g_strv_length((char **)heads);
	self->to_the_right = g_new0(gboolean, self->columns);
	self->widths = g_new0(guint, self->columns);
	self->cells = g_ptr_array_new_with_free_func(g_free);
	self->colours = g_array_new(FALSE, FALSE, sizeof(CtlColour));
	for (guint i = 0; i < self->columns; i++) {
		self->to_the_right[i] = heads[i][0] == '>';
		ctl_table_add(self, g_strdup(heads[i] + self->to_the_right[i]));
	}
	return self;
}

CtlTable *ctl_table_new(const char *const *heads)
{
	return table_new(heads, BETWEEN);
}

CtlTable *ctl_table_new_close(const char *const *heads)
{
	return table_new(heads, 1);
}

void ctl_table_free(CtlTable *self)
{
	if (self == NULL)
		return;
	g_free(self->to_the_right);
	g_free(self->widths);
	g_ptr_array_unref(self->cells);
	g_array_unref(self->colours);
	g_free(self);
}

void ctl_table_add(CtlTable *self, char *text)
{
	ctl_table_add_painted(self, text, CTL_COLOUR_NONE);
}

void ctl_table_add_painted(CtlTable *self, char *text, CtlColour colour)
{
	guint column = self->cells->len % self->columns;

	self->widths[column] = MAX(self->widths[column], (guint)strlen(text));
	g_ptr_array_add(self->cells, text);
	g_array_append_val(self->colours, colour);
}

void ctl_table_paint_head(CtlTable *self, guint column, CtlColour colour)
{
	g_array_index(self->colours, CtlColour, column) = colour;
}

static gsize width_of(const CtlTable *self)
{
	gsize width = (gsize)(self->columns - 1) * self->between;

	for (guint i = 0; i < self->columns; i++)
		width += self->widths[i];
	return width;
}

gboolean ctl_table_fits(const CtlTable *self, guint columns)
{
	return width_of(self) <= columns;
}

/* (transfer full): the width of each column */
static guint *choose_widths(const CtlTable *self, guint columns)
{
	guint *widths = g_memdup2(self->widths, self->columns * sizeof(*self->widths));
	gsize width = width_of(self);
	guint widest = 0;

	for (guint i = 1; i < self->columns; i++) {
		if (widths[i] > widths[widest])
			widest = i;
	}
	if (width > columns && widths[widest] > MIN_CUT_COLUMNS) {
		gsize over = MIN(width - columns, widths[widest] - MIN_CUT_COLUMNS);

		widths[widest] -= (guint)over;
	}
	return widths;
}

/* (transfer full) */
static char *cut_cell(const char *cell, guint width)
{
	return strlen(cell) <= width
		       ? g_strdup(cell)
		       : g_strdup_printf("%.*s" CUT, (int)(width - strlen(CUT)), cell);
}

/* (transfer full): the line that begins with the cell @first */
static char *make_line(const CtlTable *self, guint first, const guint *widths)
{
	GString *line = g_string_new(NULL);

	for (guint column = 0; column < self->columns; column++) {
		gboolean last = column == self->columns - 1;
		g_autofree char *cell =
			cut_cell(self->cells->pdata[first + column], widths[column]);
		g_autofree char *painted = ctl_colour_paint(
			cell, g_array_index(self->colours, CtlColour, first + column));
		int blanks = (int)(widths[column] - strlen(cell));

		if (self->to_the_right[column])
			g_string_append_printf(line, "%*s%s", blanks, "", painted);
		else
			g_string_append_printf(line, "%s%*s", painted, last ? 0 : blanks, "");
		g_string_append_printf(line, "%*s", last ? 0 : (int)self->between, "");
	}
	return g_string_free(line, FALSE);
}

GPtrArray *ctl_table_lines(const CtlTable *self, guint columns)
{
	GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
	g_autofree guint *widths = choose_widths(self, columns);

	for (guint i = 0; i < self->cells->len; i += self->columns)
		g_ptr_array_add(lines, make_line(self, i, widths));
	return lines;
}

void ctl_table_print(const CtlTable *self)
{
	g_autoptr(GPtrArray) lines = ctl_table_lines(self, G_MAXUINT);

	for (guint i = 0; i < lines->len; i++)
		ctl_output_print("%s\n", (const char *)lines->pdata[i]);
}

void ctl_table_print_fitting(CtlTable *full, CtlTable *brief)
{
	ctl_table_print(ctl_table_fits(full, ctl_screen_columns()) ? full : brief);
	ctl_table_free(full);
	ctl_table_free(brief);
}
