/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-table.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

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

static void print_line(const CtlTable *self, char *const *cells)
{
	for (guint column = 0; column < self->columns; column++) {
		gboolean last = column == self->columns - 1;
		int width = (int)self->widths[column];

		if (self->to_the_right[column])
			ctl_output_print("%*s", width, cells[column]);
		else
			ctl_output_print("%-*s", last ? 0 : width, cells[column]);
		ctl_output_print("%s", last ? "\n" : BETWEEN);
	}
}

void ctl_table_print(const CtlTable *self, guint max_lines)
{
	guint n_lines = self->cells->len / self->columns;
	guint n_shown = n_lines <= max_lines ? n_lines : MAX(max_lines, 2) - 1;

	for (guint i = 0; i < n_shown; i++)
		print_line(self, (char *const *)&self->cells->pdata[i * self->columns]);
	if (n_shown < n_lines)
		ctl_output_print("... and %u more\n", n_lines - n_shown);
}

guint ctl_table_room(void)
{
	const char *environment = g_getenv("COLUMNS");
	struct winsize size = {0};
	guint64 columns = 0;

	if (!isatty(STDOUT_FILENO))
		return G_MAXUINT;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	if (environment != NULL)
		g_ascii_string_to_unsigned(environment, 10, 1, G_MAXUSHORT, &columns, NULL);
	return columns > 0 ? (guint)columns : G_MAXUINT;
}

gboolean ctl_table_fits(const CtlTable *self)
{
	gsize width = (self->columns - 1) * strlen(BETWEEN);

	for (guint i = 0; i < self->columns; i++)
		width += self->widths[i];
	return width <= ctl_table_room();
}
