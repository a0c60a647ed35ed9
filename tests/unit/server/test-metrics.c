/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "server/metrics.h"
#include "tests/unit/unit-test.h"

/* The manual has an entry for each counter, in their order, and for nothing else. */
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
