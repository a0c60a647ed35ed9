/* SPDX-License-Identifier: Apache-2.0 */

/* "audit": what the audit log's files have, and whether an ID was issued twice. */

#include <string.h>

#include "core/layout.h"
#include "ctl/audit-reader.h"
#include "ctl/audit-rows.h"
#include "ctl/audit-sort.h"
#include "ctl/command.h"
#include "ctl/output.h"
#include "ctl/progress.h"

#define DEFAULT_MEMORY_MIB 64
#define MAX_MEMORY_MIB     65536
#define LOOK_ENTRIES       4096 /* between two looks at the clock */

static struct {
	char *layout;
	char *agent;
	char *from;
	char *to;
	char *memory;
	gboolean duplicates;
} given;

static const GOptionEntry entries[] = {
	{"agent", 0, 0, G_OPTION_ARG_STRING, &given.agent, "Only entries of this useragent", "A"},
	{"from", 0, 0, G_OPTION_ARG_STRING, &given.from,
	 "Only IDs from then on: RFC 3339, or milliseconds since 1970", "TIME"},
	{"to", 0, 0, G_OPTION_ARG_STRING, &given.to, "Only IDs up to then", "TIME"},
	{"layout", 0, 0, G_OPTION_ARG_STRING, &given.layout,
	 "How the IDs divide: a name, as layouts shows them, or all fields (default twitter)",
	 "LAYOUT"},
	{"duplicates", 0, 0, G_OPTION_ARG_NONE, &given.duplicates,
	 "Print only IDs that were issued twice; status 1 if there are any", NULL},
	{"memory", 0, 0, G_OPTION_ARG_STRING, &given.memory,
	 "For --duplicates, about so much; the rest goes to $TMPDIR (default 64)", "MIB"},
	G_OPTION_ENTRY_NULL,
};

typedef struct {
	Layout layout;
	gint64 from_ms;
	gint64 to_ms;
	gsize memory_bytes;
	CtlAuditReader *reader;
	CtlAuditRows rows;

	/* for --duplicates */
	CtlAuditSort *sort;
	guint64 n_gaps;
	guint64 n_missing;
	guint64 n_entries;
	guint64 n_ids;        /* different ones */
	guint64 n_again;      /* entries that are the same as another one */
	guint64 n_duplicates; /* IDs that were issued more than once */
} Audit;

static void audit_clear(Audit *self)
{
	ctl_audit_reader_free(self->reader);
	ctl_audit_sort_free(self->sort);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Audit, audit_clear)

static gboolean parse_times(Audit *self)
{
	if (!ctl_options_time("--from TIME", given.from, &self->from_ms) ||
	    !ctl_options_time("--to TIME", given.to, &self->to_ms))
		return FALSE;
	if (self->from_ms > self->to_ms) {
		ctl_output_complain("--from is after --to");
		return FALSE;
	}
	return TRUE;
}

static gboolean parse_memory(Audit *self)
{
	guint64 memory_mib = DEFAULT_MEMORY_MIB;

	if (given.memory != NULL && !given.duplicates) {
		ctl_output_complain("--memory is for --duplicates");
		return FALSE;
	}
	if (!ctl_options_number("--memory MIB", given.memory, 1, MAX_MEMORY_MIB, &memory_mib))
		return FALSE;
	self->memory_bytes = (gsize)memory_mib << 20;
	return TRUE;
}

static gboolean parse_options(Audit *self)
{
	if (given.agent != NULL && given.agent[0] == '\0') {
		ctl_output_complain("--agent \"\": no entry has an empty useragent");
		return FALSE;
	}
	if (given.agent != NULL && given.duplicates) {
		ctl_output_complain("--agent hides who else was issued an ID: not with "
				    "--duplicates");
		return FALSE;
	}
	return ctl_options_layout(given.layout, &self->layout) && parse_times(self) &&
	       parse_memory(self);
}

/* A gap does: nobody knows whose IDs are missing there. */
static gboolean passes(const Audit *self, const AuditEntry *entry)
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
	/* its tick may have begun before */
	return time_ms > self->from_ms - self->layout.tick_ms && time_ms <= self->to_ms;
}

/* (nullable) */
static const AuditEntry *next_entry(Audit *self)
{
	const AuditEntry *entry;

	do
		entry = ctl_audit_reader_next(self->reader);
	while (entry != NULL && !passes(self, entry));
	return entry;
}

static CtlStatus list(Audit *self)
{
	const AuditEntry *entry;
	gboolean failed;

	while ((entry = next_entry(self)) != NULL) {
		const CtlAuditRow row = {
			.id = entry->id,
			.tag = entry->tag,
			.agent = entry->agent,
			.agent_length = entry->agent_length,
		};

		if (entry->missing > 0)
			ctl_audit_rows_add_gap(&self->rows, entry->missing);
		else
			ctl_audit_rows_add(&self->rows, &row);
	}
	failed = ctl_audit_reader_any_bad(self->reader);
	ctl_audit_rows_end(&self->rows, failed);
	return failed ? CTL_FAILED : CTL_OK;
}

static void show_reading(const Audit *self)
{
	guint64 all = ctl_audit_reader_all_bytes(self->reader);
	guint64 read_mib = ctl_audit_reader_read_bytes(self->reader) >> 20;

	if (all > 0)
		ctl_progress_show("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " MiB read",
				  read_mib, all >> 20);
	else
		ctl_progress_show("%" G_GUINT64_FORMAT " MiB read", read_mib);
}

static gboolean add(Audit *self, const AuditEntry *entry, GError **error)
{
	const CtlAuditRecord record = {
		.id = entry->id,
		.tag = entry->tag,
		.line = ctl_audit_reader_get_line(self->reader),
		.file = ctl_audit_reader_get_file(self->reader),
		.agent_length = entry->agent_length,
	};

	if (self->n_entries++ % LOOK_ENTRIES == 0 && ctl_progress_is_due())
		show_reading(self);
	return ctl_audit_sort_add(self->sort, &record, entry->agent, error);
}

static gboolean collect(Audit *self, GError **error)
{
	const AuditEntry *entry;

	while ((entry = next_entry(self)) != NULL) {
		self->n_gaps += entry->missing > 0;
		self->n_missing += entry->missing;
		if (entry->missing == 0 && !add(self, entry, error))
			return FALSE;
	}
	ctl_progress_clear();
	return ctl_audit_sort_finish(self->sort, error);
}

static void print_issue(Audit *self, const CtlAuditRecord *record)
{
	const CtlAuditRow row = {
		.id = record->id,
		.tag = record->tag,
		.agent = record->agent,
		.agent_length = record->agent_length,
		.file = ctl_audit_reader_file_name(self->reader, record->file),
		.line = record->line,
	};

	ctl_progress_clear();
	ctl_audit_rows_add(&self->rows, &row);
}

static void keep(GByteArray *kept, const CtlAuditRecord *record)
{
	g_byte_array_set_size(kept, 0);
	g_byte_array_append(kept, (const guint8 *)record, (guint)ctl_audit_record_bytes(record));
}

/* @before: the issue before it, of the same ID. @is_known: that this ID has more than one */
static void compare(Audit *self, const CtlAuditRecord *before, const CtlAuditRecord *record,
		    gboolean *is_known)
{
	if (ctl_audit_record_compare_issue(before, record) == 0) {
		self->n_again++;
		return;
	}
	if (!*is_known) {
		self->n_duplicates++;
		print_issue(self, before);
	}
	*is_known = TRUE;
	print_issue(self, record);
	ctl_output_flush();
}

static gboolean find(Audit *self, GError **error)
{
	g_autoptr(GByteArray) kept = g_byte_array_new();
	g_autoptr(GError) failure = NULL;
	const CtlAuditRecord *record;
	gboolean is_known = FALSE;
	guint64 n_seen = 0;

	while ((record = ctl_audit_sort_next(self->sort, &failure)) != NULL) {
		const CtlAuditRecord *before = (const CtlAuditRecord *)(const void *)kept->data;

		if (n_seen++ % LOOK_ENTRIES == 0 && ctl_progress_is_due())
			ctl_progress_show("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
					  " entries compared",
					  n_seen, self->n_entries);
		if (kept->len == 0 || before->id != record->id) {
			self->n_ids++;
			is_known = FALSE;
		} else
			compare(self, before, record, &is_known);
		keep(kept, record);
	}
	ctl_progress_clear();
	if (failure == NULL)
		return TRUE;
	g_propagate_error(error, g_steal_pointer(&failure));
	return FALSE;
}

/* In a line, beside JSON on standard error. */
static void print_summary(const Audit *self, gboolean json)
{
	g_autofree char *line =
		g_strdup_printf("%" G_GUINT64_FORMAT " entries, %" G_GUINT64_FORMAT
				" of them delivered again; %" G_GUINT64_FORMAT
				" IDs, %" G_GUINT64_FORMAT " of them issued more than once",
				self->n_entries, self->n_again, self->n_ids, self->n_duplicates);

	if (json)
		ctl_output_complain("%s", line);
	else
		ctl_output_print("%s\n", line);
	ctl_output_flush();
	if (self->n_gaps > 0)
		ctl_output_complain("%" G_GUINT64_FORMAT
				    " IDs are not in the log, in %" G_GUINT64_FORMAT
				    " gaps: one of them may be a duplicate too",
				    self->n_missing, self->n_gaps);
}

static CtlStatus find_duplicates(Audit *self, gboolean json)
{
	g_autoptr(GError) error = NULL;

	ctl_output_needs_reader();
	self->sort = ctl_audit_sort_new(self->memory_bytes);
	if (self->sort == NULL) {
		ctl_output_complain("there is no memory of %" G_GSIZE_FORMAT
				    " MiB; --memory takes less",
				    self->memory_bytes >> 20);
		return CTL_FAILED;
	}
	if (!collect(self, &error) || !find(self, &error)) {
		ctl_progress_clear();
		ctl_audit_rows_end(&self->rows, TRUE);
		return ctl_output_fail(error);
	}
	ctl_audit_rows_end(&self->rows, FALSE);
	print_summary(self, json);
	return self->n_duplicates > 0 || ctl_audit_reader_any_bad(self->reader) ? CTL_FAILED
										: CTL_OK;
}

static CtlStatus run(const CtlOptions *options, const char *const *arguments)
{
	g_auto(Audit) self = {.layout = LAYOUT_TWITTER, .to_ms = G_MAXINT64};

	if (!parse_options(&self))
		return CTL_USAGE;
	self.reader = ctl_audit_reader_new(arguments);
	if (self.reader == NULL)
		return CTL_USAGE;
	ctl_audit_rows_init(&self.rows, &self.layout, options->json, given.duplicates);
	return given.duplicates ? find_duplicates(&self, options->json) : list(&self);
}

const CtlCommand ctl_audit_command = {
	.name = "audit",
	.arguments = "[FILE...]",
	.summary = "Reads audit logs back, and finds IDs that were issued twice.",
	.details = "Without arguments, or of -, reads standard input. A line that is damaged is "
		   "named, and the exit status is 1.",
	.takes_no_server = TRUE,
	.entries = entries,
	.run = run,
};
