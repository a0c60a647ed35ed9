/* SPDX-License-Identifier: Apache-2.0 */

/* The ranges of those options that are numbers. */
#include <string.h>
#include <unistd.h>

#include "options/options-table.h"
#include "options/options.h"
#include "tests/unit/unit-test.h"

/* Without these the option does nothing, or not all of its range is allowed. */
static const char *const *needs_of(const OptionSpec *spec)
{
	static const char *const NOTHING[] = {NULL};
	static const char *const ZOOKEEPER[] = {"zookeeper=a", "datacenter-id=0", NULL};
	static const char *const RELAY[] = {"relay=a", "relay-max-age=3600000", NULL};
	static const char *const MAX_AGE[] = {"relay=a", "relay-prefetch=1", NULL};

	if (spec->of_zookeeper)
		return ZOOKEEPER;
	if (!spec->of_relay)
		return NOTHING;
	return strcmp(spec->name, "relay-max-age") == 0 ? MAX_AGE : RELAY;
}

static Options *parse_words(GPtrArray *words, GError **error)
{
	return options_new_from_args((int)words->len, (char **)words->pdata, error);
}

static Options *parse_file(const char *text)
{
	g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
	char *path;
	Options *options;

	close(g_file_open_tmp("options-XXXXXX", &path, NULL));
	g_assert_true(g_file_set_contents(path, text, -1, NULL));
	g_ptr_array_add(words, g_strdup("snowflaked"));
	g_ptr_array_add(words, g_strdup("--config"));
	g_ptr_array_add(words, path);
	options = parse_words(words, NULL);
	unlink(path);
	return options;
}

/* @value for the option, on the command line and in a file. Both agree. */
static Options *parse_number(const OptionSpec *spec, const char *value, GError **error)
{
	g_autoptr(GString) text = g_string_new("[snowflaked]\n");
	g_autoptr(GPtrArray) words = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(Options) from_file = NULL;
	Options *from_args;

	g_ptr_array_add(words, g_strdup("snowflaked"));
	g_ptr_array_add(words, g_strdup_printf("--%s=%s", spec->name, value));
	g_string_append_printf(text, "%s=%s\n", spec->name, value);
	for (const char *const *need = needs_of(spec); *need != NULL; need++) {
		g_ptr_array_add(words, g_strconcat("--", *need, NULL));
		g_string_append_printf(text, "%s\n", *need);
	}
	g_test_message("%s", (const char *)words->pdata[1]);
	from_file = parse_file(text->str);
	from_args = parse_words(words, error);
	g_assert_cmpint(from_file != NULL, ==, from_args != NULL);
	return from_args;
}

static void assert_number(const OptionSpec *spec, gint64 value)
{
	g_autofree char *text = g_strdup_printf("%" G_GINT64_FORMAT, value);
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = parse_number(spec, text, &error);

	g_assert_no_error(error);
	g_assert_cmpint(G_STRUCT_MEMBER(gint64, options, spec->offset), ==, value);
}

static void assert_no_number(const OptionSpec *spec, const char *text)
{
	g_autofree char *range = options_table_range(spec);
	g_autofree char *message = g_strdup_printf(
		"--%s: \"%s\" is not a whole number in the range %s", spec->name, text, range);
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = parse_number(spec, text, &error);

	g_assert_null(options);
	g_assert_cmpstr(error->message, ==, message);
}

/* Both ends of every range, one past them, and what is no number. */
TEST("/options-numbers/ranges", test_numbers)
{
	static const char *const BAD[] = {
		"",
		"x",
		"1x",
		"1.0",
		"1e3",
		"0x10",
		"-1",
		"+1",
		"1,000",
		"1_000",
		"1 2",
		"--1",
		"inf",
		"9223372036854775808",
		"-9223372036854775809",
		"18446744073709551615",
		"18446744073709551616",
		"18446744073709551617",
		"99999999999999999999999999999999",
	};

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];

		if (spec->type != OPTION_NUMBER)
			continue;
		for (gsize j = 0; j < G_N_ELEMENTS(BAD); j++)
			assert_no_number(spec, BAD[j]);
		assert_number(spec, spec->min);
		if (spec->min > 0) {
			g_autofree char *below =
				g_strdup_printf("%" G_GINT64_FORMAT, spec->min - 1);

			assert_no_number(spec, below);
		}
		if (spec->max < G_MAXINT64) {
			g_autofree char *above =
				g_strdup_printf("%" G_GINT64_FORMAT, spec->max + 1);

			assert_number(spec, spec->max);
			assert_no_number(spec, above);
		}
	}
}
