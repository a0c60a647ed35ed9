/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "audit/entry.h"
#include "tests/unit/unit-test.h"

/* IDs that are their cursors. */
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

/* (transfer full): of the @index-th line */
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

/* Agents of every length, of which several begin alike. Each bit of a tag is there, wherever the
 * tag stands among the groups of base64. */
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
