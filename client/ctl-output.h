/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* What snowflakectl says. When standard output cannot be written, the program ends here: with an
 * error, or quietly if it was a pipe whose reader has had enough. */

void ctl_output_print(const char *format, ...) G_GNUC_PRINTF(1, 2);
void ctl_output_flush(void);

/* A line on standard error, after the program's name. */
void ctl_output_complain(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* A JSON array on standard output, written element by element, so that it may be long. */
typedef struct {
	gsize count;
} CtlArray;

/* @element: JSON */
void ctl_array_add(CtlArray *self, const char *element);
void ctl_array_end(CtlArray *self);
