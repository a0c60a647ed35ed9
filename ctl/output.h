/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/status.h"

/*
 * What snowflakectl says. When standard output cannot be written, the program ends here: with an
 * error, or quietly if it was a pipe whose reader has had enough.
 *
 * With --json, what is on standard output is JSON in the end, whatever happens. A command that
 * fails before it has printed anything, or is ended by Ctrl-C then, leaves an object there:
 *
 *   {"error":"127.0.0.1:7609: cannot connect: Connection refused","kind":"unreachable"}
 *
 * One that has begun an array leaves it closed.
 */

/* Before and after everything else. @json: as above */
void ctl_output_begin(gboolean json);
void ctl_output_end(CtlStatus status);

/* From now on, if the reader of what is printed ends first, that is CTL_FAILED: the status is a
 * verdict, and there is none yet. Without, it is CTL_OK. */
void ctl_output_needs_reader(void);

/* What is printed is not cut off by Ctrl-C before it is flushed. So whoever then waits flushes
 * first. */
void ctl_output_print(const char *format, ...) G_GNUC_PRINTF(1, 2);
void ctl_output_flush(void);
/* Whether anything was. In any thread. */
gboolean ctl_output_has_printed(void);

/* A line on standard error, after the program's name. The first one is the "error" above; its
 * "kind" is "usage" or "failed". */
void ctl_output_complain(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* After a question on standard error, as what is on standard output may be for a file: says how to
 * agree to it, and returns whether somebody does. %FALSE: the message is out. */
gboolean ctl_output_confirm(void);

/* As ctl_output_complain(), of what has a kind of its own.
 * @retry_after_ms: when it may be otherwise; 0: not known */
void ctl_output_complain_of(const GError *error, gint64 retry_after_ms);
/* Likewise of what ends the command. Returns CTL_FAILED. */
CtlStatus ctl_output_fail(const GError *error);

/* (transfer full): what such a line is, without its end. */
char *ctl_output_complaint(const char *message);

/* Sets the members "error" and "kind". */
void ctl_output_set_error(JsonObject *object, const GError *error);

/* A JSON array on standard output, written element by element, so that it may be long. */
typedef struct {
	gsize count;
} CtlArray;

/* @element: JSON */
void ctl_array_add(CtlArray *self, const char *element);
/* @object: (transfer full) */
void ctl_array_add_object(CtlArray *self, JsonObject *object);
void ctl_array_end(CtlArray *self);
/* Of a command that has failed: an array without an element is none, and the error takes its
 * place. */
void ctl_array_end_failed(CtlArray *self);
