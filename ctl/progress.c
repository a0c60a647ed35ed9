/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/progress.h"

#include <stdio.h>
#include <unistd.h>

#define INTERVAL_US 250000
#define CLEAR_LINE  "\r\033[K"

static gint64 shown_us; /* 0: nothing is shown */

gboolean ctl_progress_is_due(void)
{
	return isatty(STDERR_FILENO) && g_get_monotonic_time() - shown_us >= INTERVAL_US;
}

void ctl_progress_show(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs(CLEAR_LINE, stderr);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fflush(stderr);
	shown_us = g_get_monotonic_time();
}

void ctl_progress_clear(void)
{
	if (shown_us != 0)
		fputs(CLEAR_LINE, stderr);
	shown_us = 0;
}
