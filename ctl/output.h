/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

/* What snowflakectl ends with. */
typedef enum {
	CTL_OK = 0,
	CTL_FAILED = 1,        /* refused, not reachable, or input that makes no sense */
	CTL_USAGE = 2,         /* wrong options or arguments */
	CTL_INTERRUPTED = 130, /* by Ctrl-C */
} CtlStatus;

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

/* Progress of a long command: a line on standard error that is written over itself. It is due a few
 * times a second if standard error is a terminal, else never. A complaint clears it. */
gboolean ctl_output_is_progress_due(void);
void ctl_output_show_progress(const char *format, ...) G_GNUC_PRINTF(1, 2);
void ctl_output_clear_progress(void);

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
/* Likewise of a command that can ask servers in the place of ZooKeeper: it says so if ZooKeeper
 * does not answer. */
CtlStatus ctl_output_fail_zookeeper(const GError *error);

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

/*
 * SIGINT and SIGTERM end the program as they always do, by the signal, but not in the middle of
 * what is printed. Before it ends, the last words are written, which complete the output. A second
 * signal ends the program at once: the reader may have stopped. An ignored signal stays ignored.
 */

/* Ends the program by the signal @number, after the last words if @is_whole. */
G_NORETURN void ctl_output_end_by_signal(int number, gboolean is_whole);

/* @text: (transfer full) (nullable): the last words, for @descriptor. Call it while signals are
 * held only. */
void ctl_output_set_last_words(int descriptor, char *text);
