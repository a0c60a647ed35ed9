/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "options/options-table.h"
#include "tests/unit/unit-test.h"

/* Returns @text with single blanks between its words, so that line breaks do not matter. */
static char *one_line(const char *text)
{
	g_auto(GStrv) words = g_strsplit_set(text, " \n", -1);
	g_autoptr(GString) line = g_string_new(NULL);

	for (char **word = words; *word != NULL; word++)
		if (**word != '\0')
			g_string_append_printf(line, "%s%s", line->len > 0 ? " " : "", *word);
	return g_string_free(g_steal_pointer(&line), FALSE);
}

static void assert_fits_columns(const char *text)
{
	g_auto(GStrv) lines = g_strsplit(text, "\n", -1);

	for (char **line = lines; *line != NULL; line++) {
		g_assert_cmpuint(strlen(*line), <=, 80);
		g_assert_false(g_str_has_suffix(*line, " "));
	}
}

/* Returns: (transfer full): the text in brackets after the help of an option; "" if there is none.
 * The option must be in --help. */
static char *limits_in_help(const OptionSpec *spec)
{
	g_autofree char *help = options_table_help();
	g_autofree char *line = one_line(help);
	g_autofree char *usage = g_strjoin(" ", spec->name, spec->argument, NULL);
	g_autofree char *expected = g_strconcat("--", usage, " ", spec->help, NULL);
	const char *entry = strstr(line, expected);

	g_test_message("%s", expected);
	g_assert_nonnull(entry);
	entry += strlen(expected);
	return g_str_has_prefix(entry, " (") ? g_strndup(entry + 2, strcspn(entry + 2, ")"))
					     : g_strdup("");
}

TEST("/options-table/help", test_help)
{
	g_autofree char *help = options_table_help();

	assert_fits_columns(help);
	g_assert_true(g_str_has_suffix(help, "\n"));
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		g_autofree char *limits = limits_in_help(spec);
		g_autofree char *range = options_table_range(spec);

		g_assert_true(g_str_has_prefix(limits, range));
		g_assert_nonnull(strstr(limits, spec->default_text ? spec->default_text : ""));
	}
}

/* Parses one argument. Returns: (transfer full): the error, "" if none */
static char *parse_argument(const char *argument)
{
	char *argv[] = {(char *)"snowflaked", (char *)argument, NULL};
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = options_new_from_args(2, argv, &error);

	return g_strdup(options == NULL ? error->message : "");
}

/* The parser knows the options that --help shows, and no others: both are made from the table. */
TEST("/options-table/parser", test_parser)
{
	g_autofree char *help = options_table_help();
	g_auto(GStrv) lines = g_strsplit(help, "\n  --", -1);

	g_assert_cmpuint(g_strv_length(lines), ==, OPTIONS_TABLE_LENGTH + 1);
	for (char **line = lines + 1; *line != NULL; line++) {
		g_autofree char *name = g_strndup(*line, strcspn(*line, " \n"));
		g_autofree char *bare = g_strconcat("--", name, NULL);
		g_autofree char *valued = g_strconcat(bare, "=?", NULL);
		g_autofree char *fault = parse_argument(valued);
		g_autofree char *fault_without_value = parse_argument(bare);

		/* "NAME" or "NAME ARGUMENT", then at least two blanks or a new line */
		g_test_message("%s: %s; %s", name, fault, fault_without_value);
		g_assert_null(strstr(fault, "unknown option"));
		g_assert_cmpint(strstr(fault_without_value, "Missing argument") != NULL, ==,
				(*line)[strlen(name)] == ' ' && (*line)[strlen(name) + 1] != ' ');
	}
}

TEST("/options-table/limits", test_limits)
{
	static const struct {
		const char *name;
		const char *limits;
	} CASES[] = {
		{"max-ahead", "0 to 60000 ms, default 10"},
		{"max-frame", "256 to 16777215 bytes, default 65536"},
		{"max-depth", "1 to 1000, default 64"},
		{"threads", "1 to 256, default half of the cores, at least 1"},
		{"worker-id", "0 to the layout's limit, or mac or ip or ordinal, default none, "
			      "which means 0, or any free worker ID with a shared registry"},
		{"sequence-start", "1 to the layout's limit, or continue, default 1"},
		{"reservation", "1000 to 86400000 ms, default 600000"},
		{"zookeeper", "default none, so reservations are stored in the state directory"},
		{"listen", "default 127.0.0.1:7609"},
		{"help", ""},
	};
	guint found = 0;

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++)
		for (gsize j = 0; j < G_N_ELEMENTS(CASES); j++)
			if (strcmp(OPTIONS_TABLE[i].name, CASES[j].name) == 0) {
				g_autofree char *limits = limits_in_help(&OPTIONS_TABLE[i]);

				g_assert_cmpstr(limits, ==, CASES[j].limits);
				found++;
			}
	g_assert_cmpuint(found, ==, G_N_ELEMENTS(CASES));
}

static char *read_source(const char *folder, const char *name)
{
	g_autofree char *path = g_test_build_filename(G_TEST_DIST, folder, name, NULL);
	g_autoptr(GError) error = NULL;
	char *text = NULL;

	g_file_get_contents(path, &text, NULL, &error);
	g_assert_no_error(error);
	return text;
}

TEST("/options-table/sample-config", test_sample_config)
{
	g_autofree char *sample = options_table_sample_config();
	g_autofree char *deployed = read_source("deploy", "snowflaked.conf");

	g_assert_cmpstr(sample, ==, deployed);
	assert_fits_columns(sample);
}

/* Returns @text without roff escapes. */
static char *plain(const char *text)
{
	g_autoptr(GString) stripped = g_string_new(text);

	g_string_replace(stripped, "\\-", "-", 0);
	g_string_replace(stripped, "\\(aq", "'", 0);
	g_string_replace(stripped, "\"", "", 0);
	return one_line(stripped->str);
}

/* Returns the paragraph of the manual that begins with the option, or NULL. */
static const char *manual_entry(char **paragraphs, const OptionSpec *spec)
{
	g_autofree char *begin =
		spec->argument ? g_strdup_printf(".BI --%s %s ", spec->name, spec->argument)
			       : g_strdup_printf(".B --%s ", spec->name);

	for (char **paragraph = paragraphs; *paragraph != NULL; paragraph++)
		if (g_str_has_prefix(*paragraph, begin))
			return *paragraph;
	return NULL;
}

/* The manual has an entry for each option, with its limits, and for nothing else. */
TEST("/options-table/manual", test_manual)
{
	g_autofree char *manual = read_source("docs/man", "snowflaked.8");
	g_auto(GStrv) paragraphs = g_strsplit(manual, "\n.TP\n", -1);
	guint n_entries = 0;

	for (char **paragraph = paragraphs; *paragraph != NULL; paragraph++) {
		char *text = plain(*paragraph);

		g_free(*paragraph);
		*paragraph = text;
		n_entries += g_regex_match_simple("^\\.BI? --[a-z]", text, 0, 0);
	}
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		g_autofree char *limits = limits_in_help(&OPTIONS_TABLE[i]);
		const char *entry = manual_entry(paragraphs, &OPTIONS_TABLE[i]);

		g_test_message("%s: %s", OPTIONS_TABLE[i].name, limits);
		g_assert_nonnull(entry);
		g_assert_nonnull(strstr(entry, limits));
	}
	g_assert_cmpuint(n_entries, ==, OPTIONS_TABLE_LENGTH);
}
