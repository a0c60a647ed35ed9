/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Colours are used if standard output is a terminal with colours (TERM is set, and not to dumb) and
 * NO_COLOR is not set (see no-color.org). They repeat what the text says. Only colours that every
 * terminal has, and that are readable on white and on black, are used.
 */
typedef enum {
	CTL_COLOUR_NONE,
	CTL_COLOUR_GOOD,
	CTL_COLOUR_PASSING, /* a state that will become good or bad */
	CTL_COLOUR_BAD,
	CTL_COLOUR_HEAD, /* bold: the head of a group, or of the column that a table is sorted by */
} CtlColour;

/* Returns the colour for a state of a server or a worker ID (nullable). */
CtlColour ctl_colour_of_state(const char *state);

/* (transfer full): @text in that colour, if colours are used. */
char *ctl_colour_paint(const char *text, CtlColour colour);

/* Returns the length of the escape sequence that @text begins with, in bytes; 0 if there is none.
 */
gsize ctl_colour_length(const char *text);

/* Ends any colour. */
#define CTL_COLOUR_END "\033[0m"

/*
 * A screen that is drawn again and again, in lines that fit its width and height, so that nothing
 * scrolls. Text is printable UTF-8: a wide character takes two columns; a combining character and a
 * colour take none.
 */

/* The contents, from the top down (element-type utf8). ">" in the last column marks a line that is
 * cut. */
typedef struct {
	const char *top;
	const GPtrArray
		*table; /* the first line is a head; cut to the screen, in both directions */
	const GPtrArray *below; /* wrapped; takes half of the screen at most, if the table needs the
				 * rest; lines without room are left out */
} CtlScreenText;

/* (transfer full): @self in @lines lines, one of which is the cursor's. A line says how many lines
 * are left out. */
char *ctl_screen_draw(const CtlScreenText *self, guint columns, guint lines);

/* Whether standard output is a terminal that can be drawn over: TERM is not dumb. */
gboolean ctl_screen_is_there(void);

/* Returns the size of the terminal on standard output. G_MAXUINT: not known, or not a terminal, so
 * that output for programs does not depend on a width. */
void ctl_screen_size(guint *out_columns, guint *out_lines);
guint ctl_screen_columns(void);
