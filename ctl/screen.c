/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/screen.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/text.h"
#include "ctl/colour.h"

#define MIN_TABLE_LINES 2 /* its head, and how many more there are */

static guint width_of_character(gunichar character)
{
	if (g_unichar_iszerowidth(character))
		return 0;
	return g_unichar_iswide(character) ? 2 : 1;
}

static const char *skip_colours(const char *text)
{
	gsize length;

	while ((length = ctl_colour_length(text)) > 0)
		text += length;
	return text;
}

static guint width_of_text(const char *text)
{
	guint width = 0;

	for (text = skip_colours(text); *text != '\0'; text = skip_colours(g_utf8_next_char(text)))
		width += width_of_character(g_utf8_get_char(text));
	return width;
}

/* The end of as much of @text as fits, which is one character at least. */
static const char *fit(const char *text, guint columns)
{
	const char *first = skip_colours(text);
	const char *end = first;
	guint width = 0;

	while (*end != '\0') {
		width += width_of_character(g_utf8_get_char(end));
		if (width > columns && end > first)
			break;
		end = skip_colours(g_utf8_next_char(end));
	}
	return end;
}

/* (transfer full): what of it fits. */
static char *cut(const char *text, guint columns)
{
	if (width_of_text(text) <= columns)
		return g_strdup(text);
	if (columns <= 1)
		return g_strdup(">");

	gsize length = (gsize)(fit(text, columns - 1) - text);
	gboolean has_colour = memchr(text, CTL_COLOUR_END[0], length) != NULL;

	return g_strdup_printf("%.*s%s>", (int)length, text, has_colour ? CTL_COLOUR_END : "");
}

static void wrap(const char *text, guint columns, GPtrArray *lines)
{
	do {
		const char *end = fit(text, columns);

		g_ptr_array_add(lines, g_strndup(text, (gsize)(end - text)));
		text = end;
	} while (*text != '\0');
}

/* Of @from, @most lines. @n_heads: that do not count */
static void add(GPtrArray *lines, const GPtrArray *from, guint n_heads, guint most, guint columns)
{
	guint n_shown = from->len <= most ? from->len : MAX(most, 1) - 1;

	for (guint i = 0; i < n_shown; i++)
		g_ptr_array_add(lines, cut(from->pdata[i], columns));
	if (n_shown < from->len && most > 0) {
		g_autofree char *rest =
			g_strdup_printf("... and %u more", from->len - MAX(n_shown, n_heads));

		g_ptr_array_add(lines, cut(rest, columns));
	}
}

static GPtrArray *wrap_all(const GPtrArray *texts, guint columns)
{
	GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);

	for (guint i = 0; i < texts->len; i++)
		wrap(texts->pdata[i], columns, lines);
	return lines;
}

char *ctl_screen_draw(const CtlScreenText *self, guint columns, guint lines)
{
	g_autoptr(GPtrArray) drawn = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GPtrArray) below = wrap_all(self->below, columns);
	GString *text = g_string_new(NULL);
	guint left = MAX(lines, 2) - 2; /* beside the top and the cursor */
	guint for_table = MIN(MIN(self->table->len, MAX(left / 2, MIN_TABLE_LINES)), left);
	guint for_below = MIN(below->len, left - for_table);

	g_ptr_array_add(drawn, cut(self->top, columns));
	add(drawn, self->table, 1, left - for_below, columns);
	add(drawn, below, 0, for_below, columns);
	for (guint i = 0; i < drawn->len; i++)
		g_string_append_printf(text, "%s\n", (const char *)drawn->pdata[i]);
	return g_string_free(text, FALSE);
}

gboolean ctl_screen_is_there(void)
{
	return isatty(STDOUT_FILENO) && g_strcmp0(g_getenv("TERM"), "dumb") != 0;
}

/* G_MAXUINT: not told */
static guint columns_of_environment(void)
{
	const char *text = g_getenv("COLUMNS");
	guint64 columns;

	if (text == NULL || !text_parse_number(text, 10, 1, G_MAXUSHORT, &columns))
		return G_MAXUINT;
	return (guint)columns;
}

void ctl_screen_size(guint *out_columns, guint *out_lines)
{
	struct winsize size = {0};
	gboolean is_terminal = isatty(STDOUT_FILENO);

	if (is_terminal)
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size); /* 0 and 0 if it fails */
	*out_columns = size.ws_col;
	*out_lines = size.ws_row > 0 ? size.ws_row : G_MAXUINT;
	if (size.ws_col == 0)
		*out_columns = is_terminal ? columns_of_environment() : G_MAXUINT;
}

guint ctl_screen_columns(void)
{
	guint columns;
	guint lines;

	ctl_screen_size(&columns, &lines);
	return columns;
}
