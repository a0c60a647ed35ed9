/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Colours are used if standard output is a terminal with colours (TERM is set, and not to dumb) and
 * NO_COLOR is not set (see no-color.org). Colours never carry information that is not in the text.
 * Every terminal supports these colours, and they are readable on white and on black. */
typedef enum {
	CTL_COLOUR_NONE,
	CTL_COLOUR_GOOD,
	CTL_COLOUR_PASSING, /* a temporary state */
	CTL_COLOUR_BAD,
	/* bold: the heading of a group, or of the column by which a table is sorted */
	CTL_COLOUR_HEAD,
} CtlColour;

/* Returns the colour for a state of a server or a worker ID (nullable). */
CtlColour ctl_colour_of_state(const char *state);

/* Returns: (transfer full): @text in this colour, if colours are used. */
char *ctl_colour_paint(const char *text, CtlColour colour);

/* A screen that is redrawn repeatedly, in lines that fit its width and height, so that nothing
 * scrolls. Text is printable UTF-8: a wide character takes two columns; a combining character and a
 * colour take none. */

/* The contents, from the top down (element-type utf8). ">" in the last column marks a truncated
 * line. */
typedef struct {
	const char *top;
	const GPtrArray
		/* its first line is a heading; truncated to the screen's width and height */
		*table;
	/* wrapped; takes at most half of the screen if the table needs the space; further lines are
	 * omitted */
	const GPtrArray *below;
} CtlScreenText;

/* Returns: (transfer full): text that fills @lines lines, including the cursor's line. If lines
 * were omitted, one line contains their number. */
char *ctl_screen_draw(const CtlScreenText *self, guint columns, guint lines);

/* Gets the size of the terminal on standard output; G_MAXUINT if it is unknown. */
void ctl_screen_size(guint *out_columns, guint *out_lines);
