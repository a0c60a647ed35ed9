/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/counters.h"

static void test_sum(void)
{
	g_autoptr(CounterSet) set = counter_set_new();
	Counters *one = counter_set_add(set);
	Counters *other = counter_set_add(set);

	g_assert_cmpuint(counter_set_sum(set, COUNTER_CALLS), ==, 0);
	counters_add(one, COUNTER_CALLS, 3);
	counters_add(other, COUNTER_CALLS, 4);
	counters_add(other, COUNTER_WAITS, 1);
	g_assert_cmpuint(counter_set_sum(set, COUNTER_CALLS), ==, 7);
	g_assert_cmpuint(counter_set_sum(set, COUNTER_WAITS), ==, 1);
}

/* The manual has an entry for each counter, in their order, and for nothing else. */
static void test_manual(void)
{
	g_autofree char *path =
		g_test_build_filename(G_TEST_DIST, "docs", "man", "snowflaked.8", NULL);
	g_autofree char *manual = NULL;
	g_auto(GStrv) entries = NULL;

	g_assert_true(g_file_get_contents(path, &manual, NULL, NULL));
	manual[strstr(manual, "\n.SS Others\n") - manual] = '\0';
	entries = g_strsplit(strstr(manual, "\n.SH COUNTERS\n"), "\n.TP\n", -1);
	g_assert_cmpuint(g_strv_length(entries), ==, N_COUNTERS + 1);
	for (Counter counter = 0; counter < N_COUNTERS; counter++) {
		g_autofree char *begin = g_strdup_printf(".B %s\n", counter_name(counter));

		g_test_message("%s", begin);
		g_assert_true(g_str_has_prefix(entries[counter + 1], begin));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/counters/sum", test_sum);
	g_test_add_func("/counters/manual", test_manual);
	return g_test_run();
}
