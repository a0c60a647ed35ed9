/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/output.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/snowflake-client.h"
#include "ctl/format.h"
#include "ctl/store.h"

#define PROGRAM "snowflakectl: "

static gboolean is_json;
static atomic_bool has_printed;
static gsize n_elements; /* elements of the JSON array so far */
static CtlStatus status_without_reader = CTL_OK;

/* The first error message. */
static struct {
	char *message;    /* NULL if none */
	const char *kind; /* NULL if derived from the exit status */
	gint64 retry_after_ms;
} failure;

/* Interruption */

/* States of interrupt_state. A positive value is the number of a signal that is pending until
 * FREE. */
enum { FREE = 0, HELD = -1, ENDING = -2 };

static atomic_int interrupt_state = FREE;

static struct {
	int descriptor;
	char *text;
} last_words;

/* A signal handler calls these, so they use only async-signal-safe functions. */

void ctl_output_end_by_signal(int number, gboolean is_whole)
{
	const char *text = is_whole ? last_words.text : NULL;
	gsize left = text != NULL ? strlen(text) : 0;
	ssize_t written;
	sigset_t set;

	while (left > 0 && (written = write(last_words.descriptor, text, left)) > 0) {
		text += written;
		left -= (gsize)written;
	}
	signal(number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(number);
	/* a signal whose default action does not end the program */
	_exit(CTL_FAILED);
}

/* Runs in any thread, once for each signal. */
static void on_signal(int number)
{
	int seen = atomic_load(&interrupt_state);

	while (seen == FREE || seen == HELD) {
		if (atomic_compare_exchange_weak(&interrupt_state, &seen,
						 seen == FREE ? ENDING : number)) {
			if (seen == FREE)
				ctl_output_end_by_signal(number, TRUE);
			return;
		}
	}
	/* this is the second signal, and the first one is still pending */
	ctl_output_end_by_signal(number, FALSE);
}

void ctl_output_set_last_words(int descriptor, char *text)
{
	g_free(last_words.text);
	last_words.descriptor = descriptor;
	last_words.text = text;
}

/* Output */

/* Returns: (transfer full): a line. @kind: (nullable): %NULL for no kind */
static char *failure_to_json(const char *message, const char *kind, gint64 retry_after_ms)
{
	JsonObject *object = json_object_new();

	json_object_set_string_member(object, "error", message);
	json_object_set_string_member(object, "kind", kind);
	if (retry_after_ms > 0)
		json_object_set_int_member(object, "retry_after_ms", retry_after_ms);

	g_autofree char *json = ctl_format_json(object);

	return g_strconcat(json, "\n", NULL);
}

void ctl_output_begin(gboolean json)
{
	static const int NUMBERS[] = {SIGINT, SIGTERM};
	/* a second signal has its default action, even while the handler runs */
	struct sigaction action = {
		.sa_handler = on_signal,
		.sa_flags = SA_RESTART | SA_RESETHAND | SA_NODEFER,
	};

	is_json = json;
	if (json)
		ctl_output_set_last_words(STDOUT_FILENO,
					  failure_to_json("interrupted", "interrupted", 0));
	sigemptyset(&action.sa_mask);
	for (gsize i = 0; i < G_N_ELEMENTS(NUMBERS); i++) {
		struct sigaction before;

		sigaction(NUMBERS[i], NULL, &before);
		if (before.sa_handler != SIG_IGN)
			sigaction(NUMBERS[i], &action, NULL);
	}
}

void ctl_output_needs_reader(void)
{
	status_without_reader = CTL_FAILED;
}

static G_NORETURN void output_failed(void)
{
	int error = errno;

	if (error == EPIPE)
		exit((int)status_without_reader);
	ctl_output_complain("cannot write to standard output: %s", g_strerror(error));
	exit(CTL_FAILED);
}

void ctl_output_print(const char *format, ...)
{
	int seen = FREE;
	va_list arguments;

	/* another thread may be ending the program */
	if (!atomic_compare_exchange_strong(&interrupt_state, &seen, HELD))
		while (seen == ENDING)
			pause();
	if (!atomic_load(&has_printed))
		ctl_output_set_last_words(STDOUT_FILENO, NULL);
	atomic_store(&has_printed, TRUE);
	va_start(arguments, format);

	int written = vfprintf(stdout, format, arguments);

	va_end(arguments);
	if (written < 0)
		output_failed();
}

void ctl_output_flush(void)
{
	int seen = HELD;

	if (fflush(stdout) != 0)
		output_failed();
	if (!atomic_compare_exchange_strong(&interrupt_state, &seen, FREE) && seen > 0)
		ctl_output_end_by_signal(seen, TRUE);
}

gboolean ctl_output_has_printed(void)
{
	return atomic_load(&has_printed);
}

void ctl_output_end(CtlStatus status)
{
	/* a reader that has ended does not make a failure a success */
	if (status != CTL_OK)
		status_without_reader = status;
	if (is_json && !ctl_output_has_printed() && status != CTL_OK && failure.message != NULL) {
		const char *general = status == CTL_USAGE ? "usage" : "failed";
		const char *kind = failure.kind != NULL ? failure.kind : general;
		g_autofree char *json =
			failure_to_json(failure.message, kind, failure.retry_after_ms);

		ctl_output_print("%s", json);
	}
	ctl_output_flush();
}

/* Writes each byte of an unprintable character as \xNN. */
char *ctl_output_complaint(const char *message)
{
	GString *out = g_string_new(PROGRAM);

	while (*message != '\0') {
		gunichar character = g_utf8_get_char_validated(message, -1);
		gboolean is_text = character < 0x110000;
		const char *next = is_text ? g_utf8_next_char(message) : message + 1;

		if (is_text && g_unichar_isprint(character))
			g_string_append_len(out, message, next - message);
		for (; message < next && !(is_text && g_unichar_isprint(character)); message++)
			g_string_append_printf(out, "\\x%02x", (guchar)*message);
		message = next;
	}
	return g_string_free(out, FALSE);
}

static void complain_with_kind(const char *message, const char *kind, gint64 retry_after_ms)
{
	g_autofree char *line = ctl_output_complaint(message);

	fprintf(stderr, "%s\n", line);
	if (failure.message != NULL)
		return;
	failure.message = g_strdup(line + strlen(PROGRAM));
	failure.kind = kind;
	failure.retry_after_ms = retry_after_ms;
}

void ctl_output_complain(const char *format, ...)
{
	g_autofree char *message = NULL;
	va_list arguments;

	va_start(arguments, format);
	message = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	complain_with_kind(message, NULL, 0);
}

static const char *kind_of(const GError *error)
{
	static const char *const KINDS[] = {
		[SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT] = "invalid_argument",
		[SNOWFLAKE_CLIENT_ERROR_CLOCK] = "clock",
		[SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE] = "unavailable",
		[SNOWFLAKE_CLIENT_ERROR_UNREACHABLE] = "unreachable",
		[SNOWFLAKE_CLIENT_ERROR_TIMEOUT] = "timeout",
		[SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED] = "unsupported",
		[SNOWFLAKE_CLIENT_ERROR_PROTOCOL] = "protocol",
	};

	if (ctl_store_is_lost(error))
		return "unreachable";
	if (error->domain == SNOWFLAKE_CLIENT_ERROR && error->code < (int)G_N_ELEMENTS(KINDS))
		return KINDS[error->code];
	if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_TIMED_OUT))
		return "timeout";
	if (g_error_matches(error, G_IO_ERROR, G_IO_ERROR_CONNECTION_REFUSED) ||
	    g_error_matches(error, G_IO_ERROR, G_IO_ERROR_HOST_UNREACHABLE) ||
	    g_error_matches(error, G_IO_ERROR, G_IO_ERROR_NETWORK_UNREACHABLE))
		return "unreachable";
	return NULL;
}

gboolean ctl_output_confirm(void)
{
	char line[16] = "";

	fputs("Type yes to continue: ", stderr);
	fflush(stderr);
	if (fgets(line, sizeof(line), stdin) != NULL && strcmp(g_strstrip(line), "yes") == 0)
		return TRUE;
	ctl_output_complain("nothing was changed");
	return FALSE;
}

void ctl_output_complain_of(const GError *error, gint64 retry_after_ms)
{
	complain_with_kind(error->message, kind_of(error), retry_after_ms);
}

CtlStatus ctl_output_fail(const GError *error)
{
	ctl_output_complain_of(error, 0);
	return CTL_FAILED;
}

CtlStatus ctl_output_fail_store(const GError *error)
{
	const char *hint = ctl_store_is_lost(error)
				   ? "; to ask servers without the registry, use --server HOST:PORT"
				   : "";
	g_autoptr(GError) complete =
		g_error_new(error->domain, error->code, "%s%s", error->message, hint);

	return ctl_output_fail(complete);
}

void ctl_output_set_error(JsonObject *object, const GError *error)
{
	const char *kind = kind_of(error);

	json_object_set_string_member(object, "error", error->message);
	json_object_set_string_member(object, "kind", kind != NULL ? kind : "failed");
}

void ctl_output_print_object(JsonObject *object)
{
	g_autofree char *line = ctl_format_json(object);

	ctl_output_print("%s\n", line);
}

/* @quote: "\"" around a string, otherwise "" */
static void add_element(const char *element, const char *quote)
{
	ctl_output_print("%s%s%s%s", n_elements++ > 0 ? ",\n " : "[\n ", quote, element, quote);
	if (n_elements == 1)
		ctl_output_set_last_words(STDOUT_FILENO, g_strdup("\n]\n"));
}

void ctl_output_add_object(JsonObject *object)
{
	g_autofree char *element = ctl_format_json(object);

	add_element(element, "");
}

void ctl_output_add_text(const char *text)
{
	add_element(text, "\"");
}

void ctl_output_end_array(gboolean json, gboolean complete)
{
	if (!json || (!complete && n_elements == 0))
		return;
	ctl_output_print(n_elements > 0 ? "\n]\n" : "[]\n");
	ctl_output_set_last_words(STDOUT_FILENO, NULL);
}

/* Tables */

#define CUT             "..."
#define MIN_CUT_COLUMNS 21 /* length of 255.255.255.255:65535 */

struct _CtlTable {
	guint columns;
	gboolean *to_the_right;
	guint *widths;
	GPtrArray *cells; /* (element-type utf8): the cells, line by line */
	GArray *colours;  /* (element-type CtlColour): their colours */
};

CtlTable *ctl_table_new(const char *const *heads)
{
	CtlTable *self = g_new(CtlTable, 1);

	self->columns = g_strv_length((char **)heads);
	self->to_the_right = g_new0(gboolean, self->columns);
	self->widths = g_new0(guint, self->columns);
	self->cells = g_ptr_array_new_with_free_func(g_free);
	self->colours = g_array_new(FALSE, FALSE, sizeof(CtlColour));
	for (guint i = 0; i < self->columns; i++) {
		self->to_the_right[i] = heads[i][0] == '>';
		ctl_table_add(self, g_strdup(heads[i] + self->to_the_right[i]));
	}
	return self;
}

void ctl_table_free(CtlTable *self)
{
	if (self == NULL)
		return;
	g_free(self->to_the_right);
	g_free(self->widths);
	g_ptr_array_unref(self->cells);
	g_array_unref(self->colours);
	g_free(self);
}

void ctl_table_add(CtlTable *self, char *text)
{
	ctl_table_add_painted(self, text, CTL_COLOUR_NONE);
}

void ctl_table_add_painted(CtlTable *self, char *text, CtlColour colour)
{
	guint column = self->cells->len % self->columns;

	self->widths[column] = MAX(self->widths[column], (guint)strlen(text));
	g_ptr_array_add(self->cells, text);
	g_array_append_val(self->colours, colour);
}

void ctl_table_paint_head(CtlTable *self, guint column, CtlColour colour)
{
	g_array_index(self->colours, CtlColour, column) = colour;
}

GPtrArray *ctl_table_lines(const CtlTable *self, guint between, guint columns)
{
	GPtrArray *lines = g_ptr_array_new_with_free_func(g_free);
	g_autofree guint *widths = g_memdup2(self->widths, self->columns * sizeof(*self->widths));
	gsize width = (gsize)(self->columns - 1) * between;
	guint widest = 0;

	for (guint i = 0; i < self->columns; i++) {
		width += widths[i];
		if (widths[i] > widths[widest])
			widest = i;
	}
	if (width > columns && widths[widest] > MIN_CUT_COLUMNS)
		widths[widest] -= (guint)MIN(width - columns, widths[widest] - MIN_CUT_COLUMNS);
	for (guint first = 0; first < self->cells->len; first += self->columns) {
		GString *line = g_string_new(NULL);

		for (guint i = 0; i < self->columns; i++) {
			const char *text = self->cells->pdata[first + i];
			gboolean is_last = i == self->columns - 1;
			g_autofree char *cell =
				strlen(text) <= widths[i]
					? g_strdup(text)
					: g_strdup_printf("%.*s" CUT,
							  (int)(widths[i] - strlen(CUT)), text);
			g_autofree char *painted = ctl_colour_paint(
				cell, g_array_index(self->colours, CtlColour, first + i));
			int blanks = (int)(widths[i] - strlen(cell));

			if (self->to_the_right[i])
				g_string_append_printf(line, "%*s%s", blanks, "", painted);
			else
				g_string_append_printf(line, "%s%*s", painted, is_last ? 0 : blanks,
						       "");
			g_string_append_printf(line, "%*s", is_last ? 0 : (int)between, "");
		}
		g_ptr_array_add(lines, g_string_free(line, FALSE));
	}
	return lines;
}

void ctl_table_print(const CtlTable *self)
{
	g_autoptr(GPtrArray) lines = ctl_table_lines(self, 2, G_MAXUINT);

	for (guint i = 0; i < lines->len; i++)
		ctl_output_print("%s\n", (const char *)lines->pdata[i]);
}
