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
