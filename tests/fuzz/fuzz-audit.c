/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes as a file of the audit log. The reader of files has to find the lines that
 * audit_entry_parse() accepts, and no others. An entry that is formatted again is parsed as the
 * same entry. */
#include <string.h>

#include "audit/entry.h"
#include "ctl/audit-reader.h"
#include "ctl/output.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inputs.h"

/* What snowflakectl would print. */

static guint n_complaints;

void ctl_output_complain(const char *format, ...)
{
	g_autofree char *message = NULL;
	va_list arguments;

	va_start(arguments, format);
	message = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	for (const char *at = message; *at != '\0'; at++)
		g_assert_true(g_ascii_isprint(*at) || (guchar)*at >= 0x80);
	n_complaints++;
}

void ctl_output_flush(void)
{
}

static void check_written(const AuditEntry *entry)
{
	AuditDraw draw = {.run = {.first_cursor = (guint64)entry->id, .count = 1},
			  .agent_length = entry->agent_length};
	AuditLines lines;
	AuditEntry again;

	audit_lines_init(&lines);
	if (entry->missing > 0) {
		audit_lines_append_missing(&lines, entry->missing);
	} else {
		memcpy(draw.agent, entry->agent, entry->agent_length);
		audit_lines_append(&lines, &draw, 0, 1);
	}
	g_assert_null(
		audit_entry_parse((const char *)lines.bytes->data, lines.bytes->len - 1, &again));
	g_assert_cmpint(entry->id, ==, again.id);
	g_assert_cmpuint(entry->missing, ==, again.missing);
	g_assert_cmpmem(entry->agent, entry->agent_length, again.agent, again.agent_length);
	audit_lines_clear(&lines);
}

/* The next line that is not empty. */
static gboolean next_line(const guint8 **at, const guint8 *end, const guint8 **out_line,
			  gsize *out_length)
{
	while (*at < end) {
		const guint8 *newline = memchr(*at, '\n', (gsize)(end - *at));

		*out_line = *at;
		*out_length = (gsize)((newline != NULL ? newline : end) - *at);
		*at += *out_length + (newline != NULL);
		if (*out_length > 0)
			return TRUE;
	}
	return FALSE;
}

static void check_same(const AuditEntry *a, const AuditEntry *b)
{
	g_assert_nonnull(b);
	g_assert_cmpint(a->id, ==, b->id);
	g_assert_cmpint(a->tag, ==, b->tag);
	g_assert_cmpuint(a->missing, ==, b->missing);
	g_assert_cmpmem(a->agent, a->agent_length, b->agent, b->agent_length);
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	const char *const files[] = {input_file(data, size), NULL};
	g_autoptr(CtlAuditReader) reader = ctl_audit_reader_new(files);
	const guint8 *at = data, *line;
	guint n_bad = 0;
	gsize length;

	g_assert_nonnull(reader);
	n_complaints = 0;
	while (next_line(&at, data + size, &line, &length)) {
		AuditEntry entry;

		if (audit_entry_parse((const char *)line, length, &entry) != NULL) {
			n_bad++;
			continue;
		}
		check_same(&entry, ctl_audit_reader_next(reader));
		if (entry.agent_length <= AUDIT_AGENT_MAX_BYTES)
			check_written(&entry);
	}
	g_assert_null(ctl_audit_reader_next(reader));
	g_assert_cmpuint(n_complaints, ==, n_bad);
	g_assert_true(reader->any_bad == (n_bad > 0));
	return 0;
}
