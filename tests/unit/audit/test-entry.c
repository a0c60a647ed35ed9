/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/entry.h"

#include <string.h>

#include "common/thrift/byte-writer.h"
#include "tests/unit/unit-test.h"

#define LINE "CgABAAAAAAAAAAELAAIAAAAJdXNlcmFnZW50CgADAAAAAAAAAAEA"

static void assert_damaged(const char *line, gsize length, const char *expected)
{
	AuditEntry entry;
	const char *fault = audit_entry_parse(line, length, &entry);

	g_assert_nonnull(fault);
	if (expected != NULL)
		g_assert_cmpstr(fault, ==, expected);
}

/* Returns: (transfer full): an entry as a Thrift library writes it. */
static char *make_line(gint64 id, const char *agent, gsize agent_length, gint64 tag)
{
	g_autoptr(GByteArray) bytes = g_byte_array_new();

	byte_writer_field(bytes, BINARY_I64, 1);
	byte_writer_be64(bytes, (guint64)id);
	byte_writer_field(bytes, BINARY_STRING, 2);
	byte_writer_be32(bytes, (guint32)agent_length);
	g_byte_array_append(bytes, (const guint8 *)agent, (guint)agent_length);
	byte_writer_field(bytes, BINARY_I64, 3);
	byte_writer_be64(bytes, (guint64)tag);
	byte_writer_u8(bytes, BINARY_STOP);
	return g_base64_encode(bytes->data, bytes->len);
}

TEST("/audit-entry/good", test_good)
{
	static const struct {
		gint64 id;
		const char *agent;
		gsize agent_length;
		gint64 tag;
	} cases[] = {
		{1, "useragent", 9, 1},
		{0, "a", 1, 0},
		{G_MAXINT64, "ab", 2, G_MININT64},
		{5, "abc", 3, -1},
		{5, "a\0\n\xff", 4, G_MAXINT64},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *line =
			make_line(cases[i].id, cases[i].agent, cases[i].agent_length, cases[i].tag);
		AuditEntry entry;

		g_assert_true(i != 0 || strcmp(line, LINE) == 0);
		g_assert_null(audit_entry_parse(line, strlen(line), &entry));
		g_assert_cmpint(entry.id, ==, cases[i].id);
		g_assert_cmpint(entry.tag, ==, cases[i].tag);
		g_assert_cmpmem(entry.agent, entry.agent_length, cases[i].agent,
				cases[i].agent_length);
		g_assert_cmpuint(entry.missing, ==, 0);
	}
}

TEST("/audit-entry/gap", test_gap)
{
	g_autofree char *line = make_line(0, "", 0, 12);
	AuditEntry entry;

	g_assert_null(audit_entry_parse(line, strlen(line), &entry));
	g_assert_cmpuint(entry.missing, ==, 12);
	g_assert_cmpint(entry.id, ==, 0);
	g_assert_cmpint(entry.tag, ==, 0);
	g_assert_cmpuint(entry.agent_length, ==, 0);
}

TEST("/audit-entry/bad-values", test_bad_values)
{
	static const struct {
		gint64 id;
		const char *agent;
		gint64 tag;
		const char *reason;
	} cases[] = {
		{0, "", 0, "a gap with fewer than one missing ID"},
		{0, "", -1, "a gap with fewer than one missing ID"},
		{1, "", 12, "an ID without a useragent"},
		{-1, "a", 1, "a negative ID"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *line = make_line(cases[i].id, cases[i].agent,
						  strlen(cases[i].agent), cases[i].tag);

		assert_damaged(line, strlen(line), cases[i].reason);
	}
}

TEST("/audit-entry/base64", test_base64)
{
	static const char *const lines[] = {
		"",
		" " LINE,
		LINE " ",
		LINE "\r",
		LINE "=",
		LINE LINE "====",
		"x",
		"....",
		"CgAB\n",
		/* bits after the last byte */
		"AB==",
	};

	for (gsize i = 0; i < G_N_ELEMENTS(lines); i++) {
		g_test_message("%s", lines[i]);
		assert_damaged(lines[i], strlen(lines[i]), i == 0 ? NULL : "not base64");
	}
}

/* Truncated entries, entries with more bytes, and each flipped bit outside the values are refused.
 */
TEST("/audit-entry/struct", test_struct)
{
	gsize length;
	g_autofree guchar *bytes = g_base64_decode(LINE, &length);

	for (gsize cut = 0; cut < length; cut++) {
		g_autofree char *line = g_base64_encode(bytes, cut);

		assert_damaged(line, strlen(line), "not an AuditLogEntry");
	}
	assert_damaged(LINE "AAAA", strlen(LINE) + 4, "not an AuditLogEntry");
	for (gsize i = 0; i < length; i++) {
		gboolean is_value =
			(i >= 3 && i < 11) || (i >= 18 && i < 27) || (i >= 30 && i < 38);

		for (guint bit = 0; bit < 8 && !is_value; bit++) {
			g_autofree guchar *turned = g_memdup2(bytes, length);
			g_autofree char *line = NULL;

			turned[i] ^= (guchar)(1u << bit);
			line = g_base64_encode(turned, length);
			assert_damaged(line, strlen(line), "not an AuditLogEntry");
		}
	}
}

TEST("/audit-entry/long", test_long)
{
	g_autofree char *agent = g_strnfill(3200, 'a');
	g_autofree char *longest = make_line(1, agent, 3072 - 30, 1);
	g_autofree char *longer = make_line(1, agent, 3072 - 29, 1);
	AuditEntry entry;

	g_assert_cmpuint(strlen(longest), ==, AUDIT_ENTRY_MAX_LINE_BYTES);
	g_assert_null(audit_entry_parse(longest, strlen(longest), &entry));
	g_assert_cmpuint(entry.agent_length, ==, 3072 - 30);
	assert_damaged(longer, strlen(longer), "longer than 4096 bytes");
}

/* The IDs are equal to their cursors. */
static AuditDraw draw_of(guint64 first, guint count, const char *agent)
{
	AuditDraw draw = {
		.run = {.first_cursor = first,
			.count = count,
			.sequence_bits = 12,
			.time_shift = 12},
		.tags = first * 1000,
		.agent_length = (guint)strlen(agent),
	};

	memcpy(draw.agent, agent, draw.agent_length);
	return draw;
}

static guint64 number_at(const guchar *at)
{
	guint64 number;

	memcpy(&number, at, sizeof number);
	return GUINT64_FROM_BE(number);
}

/* Returns: (transfer full): the bytes of the @index-th line */
static guchar *decode(const AuditLines *lines, guint index, gsize *out_length)
{
	g_autofree char *text = g_strndup((const char *)lines->bytes->data, lines->bytes->len);
	g_auto(GStrv) split = g_strsplit(text, "\n", -1);

	g_assert_cmpuint(g_strv_length(split), ==, lines->n_lines + 1);
	return g_base64_decode(split[index], out_length);
}

/* The entry (1, "useragent", 1) has the bytes that the original wrote, except for the mixed tag. */
TEST("/lines/as-of-2010", test_as_of_2010)
{
	const AuditDraw draw = draw_of(1, 1, "useragent");
	gsize length, expected_length;
	g_autofree guchar *expected = g_base64_decode(
		"CgABAAAAAAAAAAELAAIAAAAJdXNlcmFnZW50CgADAAAAAAAAAAEA", &expected_length);
	g_autofree guchar *entry = NULL;
	AuditLines lines;

	audit_lines_init(&lines);
	g_assert_cmpuint(audit_lines_append(&lines, &draw, 0, 10), ==, 1);
	entry = decode(&lines, 0, &length);
	memcpy(entry + length - 9, expected + expected_length - 9, 8);
	g_assert_cmpmem(entry, length, expected, expected_length);
	g_assert_cmpuint(lines.n_ids, ==, 1);
	audit_lines_clear(&lines);
}

TEST("/lines/missing", test_missing)
{
	AuditLines lines;

	audit_lines_init(&lines);
	audit_lines_append_missing(&lines, 258);
	g_assert_cmpmem(lines.bytes->data, lines.bytes->len,
			"CgABAAAAAAAAAAALAAIAAAAACgADAAAAAAAAAQIA\n", 41);
	g_assert_cmpuint(lines.n_lines, ==, 1);
	g_assert_cmpuint(lines.n_ids, ==, 0);
	audit_lines_clear(&lines);
}

/* Agents of each length, some with a common prefix. No bit of a tag is lost at any offset in the
 * base64 groups. */
TEST("/lines/agents", test_agents)
{
	guint64 ones[3] = {0}, zeros[3] = {0};
	AuditLines lines;

	audit_lines_init(&lines);
	for (guint i = 1; i <= AUDIT_AGENT_MAX_BYTES; i++) {
		g_autofree char *agent = g_strnfill(i, i % 2 ? 'a' : 'b');
		const AuditDraw draw = draw_of(i, 2, agent);

		audit_lines_empty(&lines);
		audit_lines_append(&lines, &draw, 0, 2);
		for (guint k = 0; k < 2; k++) {
			gsize length;
			g_autofree guchar *entry = decode(&lines, k, &length);

			g_assert_cmpuint(number_at(entry + 3), ==, i + k);
			g_assert_cmpmem(entry + 11, 3, "\13\0\2", 3);
			g_assert_cmpmem(entry + 18, length - 18 - 12, agent, i);
			g_assert_cmpmem(entry + length - 12, 3, "\12\0\3", 3);
			ones[i % 3] |= number_at(entry + length - 9);
			zeros[i % 3] |= ~number_at(entry + length - 9);
			g_assert_cmpuint(entry[length - 1], ==, 0);
		}
	}
	for (guint i = 0; i < 3; i++) {
		g_assert_cmpuint(ones[i], ==, G_MAXUINT64);
		g_assert_cmpuint(zeros[i], ==, G_MAXUINT64);
	}
	audit_lines_clear(&lines);
}

TEST("/lines/in-parts", test_in_parts)
{
	const AuditDraw draw = draw_of(100, 10, "agent");
	g_autoptr(GHashTable) tags =
		g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
	AuditLines lines;
	guint at = 0;

	audit_lines_init(&lines);
	for (guint part = 0; part < 4; part++) {
		guint from = at;

		audit_lines_empty(&lines);
		at = audit_lines_append(&lines, &draw, from, 3);
		g_assert_cmpuint(at, ==, MIN(from + 3, 10));
		for (guint i = from; i < at; i++) {
			gsize length;
			g_autofree guchar *entry = decode(&lines, i - from, &length);
			guint64 tag = number_at(entry + length - 9);

			g_assert_cmpuint(number_at(entry + 3), ==, 100 + i);
			g_assert_true(g_hash_table_add(tags, g_memdup2(&tag, sizeof tag)));
		}
	}
	g_assert_cmpuint(at, ==, 10);
	audit_lines_clear(&lines);
}
