/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Colours, where standard output is a terminal that has them (TERM is set, and not to dumb) and
 * nobody has said that there are to be none (NO_COLOR, see no-color.org). They say nothing that the
 * text does not. They are of the eight that every terminal has, and of those the ones that can be
 * read on white as on black.
 */
typedef enum {
	CTL_COLOUR_NONE,
	CTL_COLOUR_GOOD,
	CTL_COLOUR_PASSING, /* neither good nor bad: it will be one of them */
	CTL_COLOUR_BAD,
	CTL_COLOUR_HEAD, /* bold: of a table, or of what it is sorted by */
} CtlColour;

/* Of a server or a worker ID; (nullable). */
CtlColour ctl_colour_of_state(const char *state);

/* (transfer full): @text in that colour, if there are any. */
char *ctl_colour_paint(const char *text, CtlColour colour);

/* How many bytes of @text are no text but begin or end a colour. */
gsize ctl_colour_length(const char *text);

/* Ends any colour. */
#define CTL_COLOUR_END "\033[0m"

/*
 * What is drawn again and again in the place of what was there: in lines that are no longer than
 * the screen is wide, and no more than it has, so that nothing moves.
 *
 * Text is printable UTF-8: a terminal has two columns for a wide character, none for one that
 * stands on the one before, and none for a colour.
 */

/* What there is to draw, from the top down; lines are of char *. Where one is cut, ">" in the last
 * column says that there is more. */
typedef struct {
	const char *top;
	const GPtrArray
		*table; /* its first line is a head; cut to the screen, in both directions */
	const GPtrArray *below; /* wrapped; leaves the table half of the screen, two lines at the
				 * least, as far as it is that long; what then has no room is left
				 * out */
} CtlScreenText;

/* (transfer full): @self in @lines lines, one of which is the cursor's. Where some are left out, a
 * line in their place says how many. */
char *ctl_screen_draw(const CtlScreenText *self, guint columns, guint lines);

/* Whether standard output is a terminal where what is there can be drawn over: TERM is not dumb. */
gboolean ctl_screen_is_there(void);

/* Of the terminal that standard output is; G_MAXUINT where it does not tell, or is none, so that
 * what others read does not depend on who looks. */
void ctl_screen_size(guint *out_columns, guint *out_lines);
guint ctl_screen_columns(void);
