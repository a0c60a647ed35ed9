/* SPDX-License-Identifier: Apache-2.0 */
#include "client/ctl-output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/ctl.h"

static G_NORETURN void output_failed(void)
{
	int error = errno;

	if (error == EPIPE)
		exit(CTL_OK);
	ctl_output_complain("cannot write to standard output: %s", g_strerror(error));
	exit(CTL_FAILED);
}

void ctl_output_print(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);

	int written = vfprintf(stdout, format, arguments);

	va_end(arguments);
	if (written < 0)
		output_failed();
}

void ctl_output_flush(void)
{
	if (fflush(stdout) != 0)
		output_failed();
}

void ctl_output_complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);

	g_autofree char *message = g_strdup_vprintf(format, arguments);

	va_end(arguments);
	fprintf(stderr, "snowflakectl: %s\n", message);
}

void ctl_array_add(CtlArray *self, const char *element)
{
	ctl_output_print("%s%s", self->count++ > 0 ? ",\n " : "[\n ", element);
}

void ctl_array_end(CtlArray *self)
{
	ctl_output_print(self->count > 0 ? "\n]\n" : "[]\n");
}
