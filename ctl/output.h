/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "ctl/screen.h"

/* The exit statuses of snowflakectl. */
typedef enum {
	CTL_OK = 0,
	CTL_FAILED = 1,        /* refused, unreachable, or invalid input */
	CTL_USAGE = 2,         /* invalid options or arguments */
	CTL_INTERRUPTED = 130, /* interrupted by Ctrl-C */
} CtlStatus;

/* Output of snowflakectl. If standard output cannot be written, the program exits with an error
 * message; if the reader of a pipe has ended, it exits without a message.
 *
 * With --json, standard output is always JSON. A command that fails, or is interrupted, before it
 * has printed anything, prints an object:
 *
 *   {"error":"127.0.0.1:7609: cannot connect: Connection refused","kind":"unreachable"}
 *
 * A command that has started an array ends it. */

/* Call these two functions first and last. @json: --json is given */
void ctl_output_begin(gboolean json);
void ctl_output_end(CtlStatus status);

/* From now on, the exit status is CTL_FAILED instead of CTL_OK if the reader of a pipe ends early.
 * For commands that report a result by their exit status. */
void ctl_output_needs_reader(void);

/* Prints text. Signals are held from a print to the next flush, so flush before anything that can
 * block. */
void ctl_output_print(const char *format, ...) G_GNUC_PRINTF(1, 2);
void ctl_output_flush(void);
/* Returns whether anything was printed. Any thread can call it. */
gboolean ctl_output_has_printed(void);

/* Prints a line on standard error, with the program's name. With --json, the first one is the
 * "error" in the object above, with the "kind" "usage" or "failed". */
void ctl_output_complain(const char *format, ...) G_GNUC_PRINTF(1, 2);

/* Like ctl_output_complain(), for wrong options or arguments. Returns CTL_USAGE. */
#define ctl_output_misuse(...) (ctl_output_complain(__VA_ARGS__), CTL_USAGE)

/* Reads the user's answer to a question that was printed on standard error. Returns whether it is
 * yes; if not, prints a message. */
gboolean ctl_output_confirm(void);

/* Like ctl_output_complain(), with the kind of @error.
 * @retry_after_ms: when to try again; 0 if unknown */
void ctl_output_complain_of(const GError *error, gint64 retry_after_ms);
/* Prints the error with which the command ends. Returns CTL_FAILED. */
CtlStatus ctl_output_fail(const GError *error);
/* Like ctl_output_fail(), for a command that can query servers instead of the registry. If the
 * registry does not answer, the message suggests asking servers. */
CtlStatus ctl_output_fail_store(const GError *error);

/* Returns: (transfer full): the line that ctl_output_complain() prints, without its newline. */
char *ctl_output_complaint(const char *message);

/* Sets the members "error" and "kind". */
void ctl_output_set_error(JsonObject *object, const GError *error);

/* Prints an object on a line. @object: (transfer full) */
void ctl_output_print_object(JsonObject *object);

/* With --json, a list is an array, which is written element by element because it can be long. Adds
 * an element. @object: (transfer full). @text: printable ASCII without quotes and backslashes */
void ctl_output_add_object(JsonObject *object);
void ctl_output_add_text(const char *text);
/* Ends the array, if @json, after the last element. @complete: the command has not failed; if it
 * has and the array is empty, the error is printed instead. */
void ctl_output_end_array(gboolean json, gboolean complete);

/* SIGINT and SIGTERM end the program with the signal's status, but not between a print and a flush.
 * The program first writes the closing text, which completes the output. A second signal ends the
 * program immediately, because the reader may have stopped reading. An ignored signal stays
 * ignored. */

/* Ends the program with the signal @number, after the closing text if @is_whole. */
G_NORETURN void ctl_output_end_by_signal(int number, gboolean is_whole);

/* Sets the closing text. @text: (transfer full) (nullable): for @descriptor. Call it only between a
 * print and the next flush, while signals are held. */
void ctl_output_set_last_words(int descriptor, char *text);

/* A table of text. A column is as wide as its widest cell. */
typedef struct _CtlTable CtlTable;

/* @heads: the column headings, NULL-terminated. A column whose heading begins with ">" is
 * right-aligned; the ">" is not printed. */
CtlTable *ctl_table_new(const char *const *heads);
void ctl_table_free(CtlTable *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlTable, ctl_table_free)

/* Adds the next cell, and begins a new line if necessary. @text: (transfer full): printable ASCII,
 * for example from text_escape() */
void ctl_table_add(CtlTable *self, char *text);
void ctl_table_add_painted(CtlTable *self, char *text, CtlColour colour);

/* Sets the colour of a column heading. @column: counted from 0 */
void ctl_table_paint_head(CtlTable *self, guint column, CtlColour colour);

/* Prints the table on standard output. */
void ctl_table_print(const CtlTable *self);

/* Returns: (transfer full) (element-type utf8): the lines. @between: the number of spaces between
 * columns. If a line would be longer than @columns, the widest column is truncated, but not below
 * 21 characters, the length of an IPv4 address with a port. So a line may still be longer. */
GPtrArray *ctl_table_lines(const CtlTable *self, guint between, guint columns);
