/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/screen.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Colours */

#define COLOUR_BEGIN "\033["
#define COLOUR_END   "\033[0m" /* ends any colour */

/* The part of the escape sequence between COLOUR_BEGIN and "m". */
static const char *const CODES[] = {
	[CTL_COLOUR_GOOD] = "32",    /* green */
	[CTL_COLOUR_PASSING] = "35", /* magenta */
	[CTL_COLOUR_BAD] = "1;31",   /* bold, red */
	[CTL_COLOUR_HEAD] = "1",
};

CtlColour ctl_colour_of_state(const char *state)
{
	static const struct {
		const char *state;
		CtlColour colour;
	} STATES[] = {
		{"serving", CTL_COLOUR_GOOD},        {"starting", CTL_COLOUR_PASSING},
		{"waiting", CTL_COLOUR_PASSING},     {"reclaiming", CTL_COLOUR_PASSING},
		{"draining", CTL_COLOUR_PASSING},    {"unavailable", CTL_COLOUR_BAD},
		{"unreachable", CTL_COLOUR_BAD},     {"held", CTL_COLOUR_GOOD},
		{"quarantined", CTL_COLOUR_PASSING}, {"damaged", CTL_COLOUR_BAD},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(STATES); i++) {
		if (g_strcmp0(state, STATES[i].state) == 0)
			return STATES[i].colour;
	}
	return CTL_COLOUR_NONE;
}

char *ctl_colour_paint(const char *text, CtlColour colour)
{
	const char *no_colour = g_getenv("NO_COLOR");
	const char *terminal = g_getenv("TERM");

	if (colour == CTL_COLOUR_NONE || !isatty(STDOUT_FILENO) ||
	    (no_colour != NULL && no_colour[0] != '\0') || terminal == NULL ||
	    terminal[0] == '\0' || strcmp(terminal, "dumb") == 0)
		return g_strdup(text);
	return g_strdup_printf(COLOUR_BEGIN "%sm%s" COLOUR_END, CODES[colour], text);
}

static const char *skip_colours(const char *text)
{
	while (g_str_has_prefix(text, COLOUR_BEGIN)) {
		const char *end = text + strlen(COLOUR_BEGIN);

		end += strspn(end, "0123456789;");
		if (*end != 'm')
			break;
		text = end + 1;
	}
	return text;
}

/* The screen */

#define MIN_TABLE_LINES 2 /* the heading, and the number of omitted lines */

static guint width_of_character(gunichar character)
{
	if (g_unichar_iszerowidth(character))
		return 0;
	return g_unichar_iswide(character) ? 2 : 1;
}

/* Returns the end of the part of @text that fits; the part has at least one character. */
static const char *find_end(const char *text, guint columns)
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

/* Returns: (transfer full): @text, cut to the columns */
static char *cut_text(const char *text, guint columns)
{
	guint width = 0;

	for (const char *c = skip_colours(text); *c != '\0'; c = skip_colours(g_utf8_next_char(c)))
		width += width_of_character(g_utf8_get_char(c));
	if (width <= columns)
		return g_strdup(text);
	if (columns <= 1)
		return g_strdup(">");

	gsize length = (gsize)(find_end(text, columns - 1) - text);
	gboolean has_colour = memchr(text, COLOUR_END[0], length) != NULL;

	return g_strdup_printf("%.*s%s>", (int)length, text, has_colour ? COLOUR_END : "");
}

/* Adds at most @most lines of @from. @n_heads: number of its lines that are not counted as
 * omitted */
static void add_lines(GPtrArray *lines, const GPtrArray *from, guint n_heads, guint most,
		      guint columns)
{
	guint n_shown = from->len <= most ? from->len : MAX(most, 1) - 1;

	for (guint i = 0; i < n_shown; i++)
		g_ptr_array_add(lines, cut_text(from->pdata[i], columns));
	if (n_shown < from->len && most > 0) {
		g_autofree char *rest =
			g_strdup_printf("... and %u more", from->len - MAX(n_shown, n_heads));

		g_ptr_array_add(lines, cut_text(rest, columns));
	}
}

char *ctl_screen_draw(const CtlScreenText *self, guint columns, guint lines)
{
	g_autoptr(GPtrArray) drawn = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GPtrArray) below = g_ptr_array_new_with_free_func(g_free);
	GString *text = g_string_new(NULL);
	guint left = MAX(lines, 2) - 2; /* without the top line and the cursor's line */
	guint for_table = MIN(MIN(self->table->len, MAX(left / 2, MIN_TABLE_LINES)), left);
	guint for_below;

	for (guint i = 0; i < self->below->len; i++) {
		const char *line = self->below->pdata[i];

		do {
			const char *end = find_end(line, columns);

			g_ptr_array_add(below, g_strndup(line, (gsize)(end - line)));
			line = end;
		} while (*line != '\0');
	}
	for_below = MIN(below->len, left - for_table);
	g_ptr_array_add(drawn, cut_text(self->top, columns));
	add_lines(drawn, self->table, 1, left - for_below, columns);
	add_lines(drawn, below, 0, for_below, columns);
	for (guint i = 0; i < drawn->len; i++)
		g_string_append_printf(text, "%s\n", (const char *)drawn->pdata[i]);
	return g_string_free(text, FALSE);
}

void ctl_screen_size(guint *out_columns, guint *out_lines)
{
	struct winsize size = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size); /* the size remains 0 if this fails */
	*out_columns = size.ws_col > 0 ? size.ws_col : G_MAXUINT;
	*out_lines = size.ws_row > 0 ? size.ws_row : G_MAXUINT;
}
