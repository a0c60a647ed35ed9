/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "server/metrics.h"
#include "tests/unit/unit-test.h"

/* The manual has an entry for each counter, in order, and for nothing else. */
TEST("/metrics/manual", test_manual)
{
	g_autofree char *path =
		g_test_build_filename(G_TEST_DIST, "docs", "man", "snowflaked.8", NULL);
	g_autofree char *manual = NULL;
	g_auto(GStrv) entries = NULL;

	g_assert_true(g_file_get_contents(path, &manual, NULL, NULL));
	manual[strstr(manual, "\n.SS Others\n") - manual] = '\0';
	entries = g_strsplit(strstr(manual, "\n.SH COUNTERS\n"), "\n.TP\n", -1);
	g_assert_cmpuint(g_strv_length(entries), ==, N_NAMED_COUNTERS + 1);
	for (Counter counter = 0; counter < N_NAMED_COUNTERS; counter++) {
		g_autofree char *begin = g_strdup_printf(".B %s\n", metrics_counter_name(counter));

		g_test_message("%s", begin);
		g_assert_true(g_str_has_prefix(entries[counter + 1], begin));
	}
}

static const MetricsFamily GAUGE = {"a_gauge", METRICS_GAUGE, "What it is."};

TEST("/metrics/begin", test_begin)
{
	static const struct {
		MetricsType type;
		const char *name;
	} CASES[] = {
		{METRICS_COUNTER, "counter"},
		{METRICS_GAUGE, "gauge"},
		{METRICS_HISTOGRAM, "histogram"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const MetricsFamily family = {"one", CASES[i].type, "What it is."};
		g_autofree char *expected =
			g_strdup_printf("# HELP one What it is.\n# TYPE one %s\n", CASES[i].name);
		g_autoptr(GString) text = g_string_new(NULL);

		metrics_family_begin(text, &family);
		g_assert_cmpstr(text->str, ==, expected);
	}
}

TEST("/metrics/labels", test_labels)
{
	static const struct {
		MetricsLabel labels[3];
		const char *sample;
	} CASES[] = {
		{{{0}}, "a_gauge 1\n"},
		{{{"a", "b"}}, "a_gauge{a=\"b\"} 1\n"},
		{{{"a", "b"}, {"c", "d"}}, "a_gauge{a=\"b\",c=\"d\"} 1\n"},
		{{{"a", ""}}, "a_gauge{a=\"\"} 1\n"},
		{{{"a", "\""}}, "a_gauge{a=\"\\\"\"} 1\n"},
		{{{"a", "\\"}}, "a_gauge{a=\"\\\\\"} 1\n"},
		{{{"a", "\n"}}, "a_gauge{a=\"\\n\"} 1\n"},
		{{{"a", "\\n"}}, "a_gauge{a=\"\\\\n\"} 1\n"},
		{{{"a", "{x=\"y\"}, 2\n"}}, "a_gauge{a=\"{x=\\\"y\\\"}, 2\\n\"} 1\n"},
		{{{"a", "\t\303\251\342\202\254"}}, "a_gauge{a=\"\t\303\251\342\202\254\"} 1\n"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GString) text = g_string_new(NULL);

		metrics_family_add(text, &GAUGE, CASES[i].labels, 1);
		g_assert_cmpstr(text->str, ==, CASES[i].sample);
	}
}

TEST("/metrics/numbers", test_numbers)
{
	static const struct {
		gdouble value;
		const char *sample;
	} CASES[] = {
		{0, "a_gauge 0\n"},
		{-1.5, "a_gauge -1.5\n"},
		{0.1, "a_gauge 0.1\n"},
		{4e-6, "a_gauge 4e-06\n"},
		{1795408561.89, "a_gauge 1795408561.89\n"},
		{999999999999999, "a_gauge 999999999999999\n"},
		{1e300, "a_gauge 1e+300\n"},
		{(gdouble)NAN, "a_gauge NaN\n"},
		{(gdouble)INFINITY, "a_gauge +Inf\n"},
		{-(gdouble)INFINITY, "a_gauge -Inf\n"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GString) text = g_string_new(NULL);

		metrics_family_add(text, &GAUGE, NULL, CASES[i].value);
		g_assert_cmpstr(text->str, ==, CASES[i].sample);
	}
}

/* Large counts are exact, although a double would round them. */
TEST("/metrics/counts", test_counts)
{
	static const struct {
		guint64 count;
		const char *sample;
	} CASES[] = {
		{0, "a_total 0\n"},
		{G_GUINT64_CONSTANT(9007199254740993), "a_total 9007199254740993\n"},
		{G_MAXUINT64, "a_total 18446744073709551615\n"},
	};
	static const MetricsFamily COUNTER = {"a_total", METRICS_COUNTER, "What it is."};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GString) text = g_string_new(NULL);

		metrics_family_add_count(text, &COUNTER, NULL, CASES[i].count);
		g_assert_cmpstr(text->str, ==, CASES[i].sample);
	}
}

/* Each bucket includes those before it; the last one, without a bound, includes all. */
TEST("/metrics/histogram", test_histogram)
{
	static const MetricsFamily FAMILY = {"a_seconds", METRICS_HISTOGRAM, "What it is."};
	const gdouble bounds[] = {0.5, 1, 17};
	const guint64 counts[] = {3, 0, G_GUINT64_CONSTANT(9007199254740990)};
	g_autoptr(GString) text = g_string_new(NULL);

	metrics_family_add_histogram(text, &FAMILY, bounds, counts, G_N_ELEMENTS(counts), 2.25);
	g_assert_cmpstr(text->str, ==,
			"a_seconds_bucket{le=\"0.5\"} 3\n"
			"a_seconds_bucket{le=\"1\"} 3\n"
			"a_seconds_bucket{le=\"+Inf\"} 9007199254740993\n"
			"a_seconds_sum 2.25\n"
			"a_seconds_count 9007199254740993\n");
}
