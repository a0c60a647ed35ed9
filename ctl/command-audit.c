/* SPDX-License-Identifier: Apache-2.0 */

/* "audit": shows the entries of audit logs, or the IDs that were issued more than once. To find
 * these IDs, it sorts the entries with sort(1), which uses bounded memory and temporary files. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/layout.h"
#include "ctl/audit-reader.h"
#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"

#define DEFAULT_MEMORY_MIB 64
#define MAX_MEMORY_MIB     65536

static struct {
	char *layout;
	char *agent;
	char *from;
	char *to;
	char *memory;
	gboolean duplicates;
} given;

static const GOptionEntry entries[] = {
	{"agent", 0, 0, G_OPTION_ARG_STRING, &given.agent, "Only entries with this useragent", "A"},
	{"from", 0, 0, G_OPTION_ARG_STRING, &given.from,
	 "Only IDs from this time on, as RFC 3339 or in milliseconds since 1970", "TIME"},
	{"to", 0, 0, G_OPTION_ARG_STRING, &given.to, "Only IDs up to this time", "TIME"},
	{"layout", 0, 0, G_OPTION_ARG_STRING, &given.layout,
	 "Layout of the IDs: a name from snowflakectl layouts, or all fields (default twitter)",
	 "LAYOUT"},
	{"duplicates", 0, 0, G_OPTION_ARG_NONE, &given.duplicates,
	 "Print only IDs that were issued twice; exit status 1 if there are any", NULL},
	{"memory", 0, 0, G_OPTION_ARG_STRING, &given.memory,
	 "Memory for --duplicates; further entries are stored in $TMPDIR (default 64)", "MIB"},
	G_OPTION_ENTRY_NULL,
};

/* Rows on standard output */

/* Each row is printed as soon as it is known, so column widths do not depend on later rows. */
typedef struct {
	const Layout *layout;
	gboolean json;
	gboolean with_place; /* show the file and the line */
	gboolean has_head;
} Rows;

static void print_cells(Rows *self, const char *id, const char *time, const char *tag,
			const char *agent, const char *place)
{
	if (!self->has_head) {
		self->has_head = TRUE;
		print_cells(self, "id", "time (UTC)", "tag", "agent", "file and line");
	}
	ctl_output_print("%19s  %-24s  %20s  ", id, time, tag);
	if (self->with_place)
		ctl_output_print("%-16s  %s\n", agent, place);
	else
		ctl_output_print("%s\n", agent);
}

/* @file: (nullable): only if the position is shown, like @line */
static void print_entry(Rows *self, const AuditEntry *entry, const char *file, guint64 line)
{
	gboolean has_time = layout_check_id(self->layout, entry->id, NULL);
	gint64 time_ms = has_time ? layout_decode(self->layout, entry->id).time_ms : 0;
	g_autofree char *agent = ctl_format_agent(entry->agent, entry->agent_length);
	g_autofree char *shown = ctl_format_path(file);

	if (!self->json) {
		g_autofree char *id = g_strdup_printf("%" G_GINT64_FORMAT, entry->id);
		g_autofree char *tag = g_strdup_printf("%" G_GINT64_FORMAT, entry->tag);
		g_autofree char *time = ctl_format_time(time_ms);
		g_autofree char *place = g_strdup_printf("%s:%" G_GUINT64_FORMAT, shown, line);

		print_cells(self, id, time, tag, agent, place);
		return;
	}

	JsonObject *object = json_object_new();

	ctl_format_json_id(object, "id", entry->id);
	ctl_format_json_time(object, "time", time_ms);
	ctl_format_json_id(object, "tag", entry->tag);
	json_object_set_string_member(object, "agent", agent);
	if (self->with_place) {
		json_object_set_string_member(object, "file", shown);
		json_object_set_int_member(object, "line", (gint64)line);
	}
	ctl_output_add_object(object);
}

/* Sorting */

/* The lines for sort(1) consist of hex digits, in fields of fixed width, so that they sort in the
 * order of the numbers: ID, tag, length of the agent, agent, file, line. */
#define ID_DIGITS     16
#define TAG_DIGITS    16
#define LENGTH_DIGITS 4
#define FILE_DIGITS   8
#define LINE_DIGITS   12
/* inverted in the tag, so that negative tags sort first */
#define SIGN_BIT      (G_GUINT64_CONSTANT(1) << 63)
#define AGENT_AT      (ID_DIGITS + TAG_DIGITS + LENGTH_DIGITS)
#define MAX_AGENT     AUDIT_ENTRY_MAX_LINE_BYTES
#define MAX_LINE      (AGENT_AT + 2 * MAX_AGENT + FILE_DIGITS + LINE_DIGITS + 1)

typedef struct {
	GPid pid;     /* process ID of sort; 0 if it does not run */
	FILE *input;  /* NULL after it was closed, as is output */
	FILE *output; /* the sorted lines */
	FILE *errors;
} Sorter;

/* Runs in the child. Makes the kernel terminate sort if this program is killed. Otherwise sort
 * would interpret the end of its input as the end of the entries. When sort is terminated, it
 * removes its files. */
static void prepare_sort(G_GNUC_UNUSED gpointer data)
{
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static gboolean start_sort(Sorter *self, guint64 memory_mib, GError **error)
{
	g_autofree char *memory = g_strdup_printf("%" G_GUINT64_FORMAT "M", memory_mib);
	char *command[] = {"sort", "-S", memory, NULL};
	g_auto(GStrv) environment = g_environ_setenv(g_get_environ(), "LC_ALL", "C", TRUE);
	int input, output, errors;

	if (!g_spawn_async_with_pipes(NULL, command, environment,
				      G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD, prepare_sort,
				      NULL, &self->pid, &input, &output, &errors, error)) {
		g_prefix_error(error, "--duplicates needs sort(1): ");
		return FALSE;
	}
	self->input = fdopen(input, "w");
	self->output = fdopen(output, "r");
	self->errors = fdopen(errors, "r");
	return TRUE;
}

/* Waits until sort has ended. Its input must have been closed and its output read, or sort must
 * have closed one of them. Returns %FALSE with an error set if sort has failed. */
static gboolean wait_sort(Sorter *self, GError **error)
{
	char said[512];
	gsize length = fread(said, 1, sizeof(said) - 1, self->errors);
	int status = 0;

	said[length] = '\0';
	said[strcspn(said, "\n")] = '\0';
	waitpid(self->pid, &status, 0);
	self->pid = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return TRUE;
	if (said[0] != '\0')
		g_set_error(error, G_SPAWN_ERROR, G_SPAWN_ERROR_FAILED,
			    "cannot sort the entries: %s; set TMPDIR to another directory", said);
	else
		g_set_error(error, G_SPAWN_ERROR, G_SPAWN_ERROR_FAILED,
			    "cannot sort the entries: sort ended with %s %d",
			    WIFSIGNALED(status) ? "signal" : "status",
			    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	return FALSE;
}

static char *append_hex(char *at, guint64 number, guint digits)
{
	for (guint i = digits; i > 0; i--, number >>= 4)
		at[i - 1] = "0123456789abcdef"[number & 15];
	return at + digits;
}

static const char *read_hex(const char *at, guint digits, guint64 *out_number)
{
	*out_number = 0;
	for (guint i = 0; i < digits; i++)
		*out_number = *out_number << 4 | (guint64)g_ascii_xdigit_value(at[i]);
	return at + digits;
}

/* The command */

typedef struct {
	Layout layout;
	gint64 from_ms;
	gint64 to_ms;
	guint64 memory_mib;
	CtlAuditReader *reader;
	Rows rows;

	/* for --duplicates only */
	Sorter sorter;
	guint64 n_gaps;
	guint64 n_missing;
	guint64 n_entries;
	guint64 n_ids;        /* number of different IDs */
	guint64 n_again;      /* number of entries that are identical to another one */
	guint64 n_duplicates; /* number of IDs that were issued more than once */
} Audit;

static void audit_clear(Audit *self)
{
	FILE *const streams[] = {self->sorter.input, self->sorter.output, self->sorter.errors};

	ctl_audit_reader_free(self->reader);
	for (gsize i = 0; i < G_N_ELEMENTS(streams); i++)
		if (streams[i] != NULL)
			fclose(streams[i]);
	if (self->sorter.pid == 0)
		return;
	kill(self->sorter.pid, SIGTERM);
	waitpid(self->sorter.pid, NULL, 0);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Audit, audit_clear)

static CtlStatus parse_options(Audit *self)
{
	self->memory_mib = DEFAULT_MEMORY_MIB;
	if (given.agent != NULL && given.agent[0] == '\0')
		return ctl_output_misuse("--agent \"\": no entry has an empty useragent");
	if (given.agent != NULL && given.duplicates)
		return ctl_output_misuse("--agent would hide duplicates that other useragents "
					 "received; remove --agent or --duplicates");
	if (!ctl_options_layout(given.layout, &self->layout) ||
	    !ctl_options_time("--from TIME", given.from, &self->from_ms) ||
	    !ctl_options_time("--to TIME", given.to, &self->to_ms))
		return CTL_USAGE;
	if (self->from_ms > self->to_ms)
		return ctl_output_misuse("--from is after --to");
	if (given.memory != NULL && !given.duplicates)
		return ctl_output_misuse("--memory has no effect without --duplicates; remove it");
	return ctl_options_number("--memory MIB", given.memory, 1, MAX_MEMORY_MIB,
				  &self->memory_mib)
		       ? CTL_OK
		       : CTL_USAGE;
}

/* Returns whether the options select the entry. A gap is always selected, because it is not known
 * which IDs are missing. */
static gboolean is_wanted(const Audit *self, const AuditEntry *entry)
{
	gint64 time_ms;

	if (entry->missing > 0)
		return TRUE;
	if (given.agent != NULL && (strlen(given.agent) != entry->agent_length ||
				    memcmp(given.agent, entry->agent, entry->agent_length) != 0))
		return FALSE;
	if (!layout_check_id(&self->layout, entry->id, NULL))
		return given.from == NULL && given.to == NULL;
	time_ms = layout_decode(&self->layout, entry->id).time_ms;
	/* the tick may have begun before --from */
	return time_ms > self->from_ms - self->layout.tick_ms && time_ms <= self->to_ms;
}

/* Returns: (nullable) */
static const AuditEntry *next_entry(Audit *self)
{
	const AuditEntry *entry;

	do
		entry = ctl_audit_reader_next(self->reader);
	while (entry != NULL && !is_wanted(self, entry));
	return entry;
}

static CtlStatus list_entries(Audit *self)
{
	const AuditEntry *entry;

	while ((entry = next_entry(self)) != NULL) {
		if (entry->missing == 0) {
			print_entry(&self->rows, entry, NULL, 0);
		} else if (self->rows.json) {
			JsonObject *object = json_object_new();

			json_object_set_int_member(object, "missing", (gint64)entry->missing);
			ctl_output_add_object(object);
		} else {
			g_autofree char *text = g_strdup_printf(
				"(%" G_GUINT64_FORMAT " missing here)", entry->missing);

			print_cells(&self->rows, "-", "-", "-", text, "");
		}
	}
	ctl_output_end_array(self->rows.json, !self->reader->any_bad);
	return self->reader->any_bad ? CTL_FAILED : CTL_OK;
}

static gboolean sort_entries(Audit *self, GError **error)
{
	const AuditEntry *entry;

	while ((entry = next_entry(self)) != NULL) {
		char text[MAX_LINE];
		char *at = append_hex(text, (guint64)entry->id, ID_DIGITS);

		self->n_gaps += entry->missing > 0;
		self->n_missing += entry->missing;
		if (entry->missing > 0)
			continue;
		self->n_entries++;
		at = append_hex(at, (guint64)entry->tag ^ SIGN_BIT, TAG_DIGITS);
		at = append_hex(at, entry->agent_length, LENGTH_DIGITS);
		for (gsize i = 0; i < entry->agent_length; i++)
			at = append_hex(at, (guchar)entry->agent[i], 2);
		at = append_hex(at, self->reader->file, FILE_DIGITS);
		at = append_hex(at, self->reader->line, LINE_DIGITS);
		*at++ = '\n';
		if (fwrite_unlocked(text, (gsize)(at - text), 1, self->sorter.input) != 1)
			return wait_sort(&self->sorter, error);
	}
	return fclose(g_steal_pointer(&self->sorter.input)) == 0 || wait_sort(&self->sorter, error);
}

/* Prints an occurrence of a duplicate. @line: a line of sort's output */
static void print_issue(Audit *self, const char *line)
{
	guint64 id, tag, length, file, number;
	const char *at = read_hex(line, ID_DIGITS, &id);
	AuditEntry entry;

	at = read_hex(at, TAG_DIGITS, &tag);
	at = read_hex(at, LENGTH_DIGITS, &length);
	g_assert(length <= sizeof(entry.bytes));
	for (gsize i = 0; i < length; i++) {
		guint64 byte;

		at = read_hex(at, 2, &byte);
		entry.bytes[i] = (guint8)byte;
	}
	at = read_hex(at, FILE_DIGITS, &file);
	read_hex(at, LINE_DIGITS, &number);
	entry.id = (gint64)id;
	entry.tag = (gint64)(tag ^ SIGN_BIT);
	entry.agent = (const char *)entry.bytes;
	entry.agent_length = (guint)length;
	print_entry(&self->rows, &entry, ctl_audit_reader_file_name(self->reader, (guint)file),
		    number);
}

/* Compares each line of sort's output with the previous one. */
static gboolean compare_entries(Audit *self, GError **error)
{
	char *lines[2] = {NULL, NULL}; /* the current and the previous line, alternating */
	gsize sizes[2] = {0, 0};
	gboolean is_known = FALSE; /* several issues of the previous line's ID were found */
	guint64 length;

	for (guint64 n_seen = 0;; n_seen++) {
		guint current = n_seen % 2;
		const char *line, *before;

		if (getline(&lines[current], &sizes[current], self->sorter.output) < 0)
			break;
		line = lines[current];
		before = lines[1 - current];
		if (n_seen == 0 || strncmp(line, before, ID_DIGITS) != 0) {
			self->n_ids++;
			is_known = FALSE;
			continue;
		}
		read_hex(line + ID_DIGITS + TAG_DIGITS, LENGTH_DIGITS, &length);
		/* equal tags and agents mean that a single occurrence was delivered twice */
		if (strncmp(line, before, AGENT_AT + 2 * length) == 0) {
			self->n_again++;
			continue;
		}
		if (!is_known) {
			self->n_duplicates++;
			print_issue(self, before);
		}
		is_known = TRUE;
		print_issue(self, line);
		ctl_output_flush();
	}
	free(lines[0]);
	free(lines[1]);
	return wait_sort(&self->sorter, error);
}

static CtlStatus find_duplicates(Audit *self)
{
	gboolean json = self->rows.json;
	g_autoptr(GError) error = NULL;
	g_autofree char *line = NULL;

	ctl_output_needs_reader();
	if (!start_sort(&self->sorter, self->memory_mib, &error) || !sort_entries(self, &error) ||
	    !compare_entries(self, &error)) {
		ctl_output_end_array(json, FALSE);
		return ctl_output_fail(error);
	}
	ctl_output_end_array(json, TRUE);
	line = g_strdup_printf("%" G_GUINT64_FORMAT " entries, %" G_GUINT64_FORMAT
			       " of them repeated; %" G_GUINT64_FORMAT " IDs, %" G_GUINT64_FORMAT
			       " of them issued more than once",
			       self->n_entries, self->n_again, self->n_ids, self->n_duplicates);
	if (json) /* standard output contains only JSON */
		ctl_output_complain("%s", line);
	else
		ctl_output_print("%s\n", line);
	ctl_output_flush();
	if (self->n_gaps > 0)
		ctl_output_complain("%" G_GUINT64_FORMAT
				    " IDs are missing from the log, in %" G_GUINT64_FORMAT
				    " gaps; they may be duplicates too",
				    self->n_missing, self->n_gaps);
	return self->n_duplicates > 0 || self->reader->any_bad ? CTL_FAILED : CTL_OK;
}

static CtlStatus run_audit(const CtlOptions *options, const char *const *arguments)
{
	g_auto(Audit) self = {.layout = LAYOUT_TWITTER, .to_ms = G_MAXINT64};

	if (parse_options(&self) != CTL_OK)
		return CTL_USAGE;
	self.reader = ctl_audit_reader_new(arguments);
	if (self.reader == NULL)
		return CTL_USAGE;
	self.rows = (Rows){
		.layout = &self.layout,
		.json = options->json,
		.with_place = given.duplicates,
	};
	return given.duplicates ? find_duplicates(&self) : list_entries(&self);
}

const CtlCommand ctl_audit_command = {
	.name = "audit",
	.arguments = "[FILE...]",
	.summary = "Prints audit logs, and finds IDs that were issued twice.",
	.details = "Without arguments, or for -, reads standard input. If a line is damaged, "
		   "reports it and exits with status 1.",
	.takes_no_server = TRUE,
	.entries = entries,
	.run = run_audit,
};
