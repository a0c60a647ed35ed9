/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/colour.h"

#include <string.h>
#include <unistd.h>

#define BEGIN "\033["

/* What stands between BEGIN and an m. */
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

static gboolean has_text(const char *variable)
{
	const char *text = g_getenv(variable);

	return text != NULL && text[0] != '\0';
}

static gboolean are_wanted(void)
{
	return isatty(STDOUT_FILENO) && !has_text("NO_COLOR") && has_text("TERM") &&
	       strcmp(g_getenv("TERM"), "dumb") != 0;
}

char *ctl_colour_paint(const char *text, CtlColour colour)
{
	if (colour == CTL_COLOUR_NONE || !are_wanted())
		return g_strdup(text);
	return g_strdup_printf(BEGIN "%sm%s" CTL_COLOUR_END, CODES[colour], text);
}

gsize ctl_colour_length(const char *text)
{
	gsize length = strlen(BEGIN);

	if (strncmp(text, BEGIN, length) != 0)
		return 0;
	length += strspn(text + length, "0123456789;");
	return text[length] == 'm' ? length + 1 : 0;
}
