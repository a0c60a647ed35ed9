/* SPDX-License-Identifier: Apache-2.0 */
#include <glib.h>

#include "load/tally.h"
#include "tests/unit/unit-test.h"

TEST("/load-id-log/check", test_check)
{
	static const struct {
		gint64 first[4], second[4]; /* IDs given to two logs, up to a 0 */
		LoadIdLogVerdict verdict;
	} cases[] = {
		{{0}, {0}, {.checked = 0}},
		{{3, 1, 2}, {0}, {.checked = 3}},
		{{1, 3}, {2, 4}, {.checked = 4}},
		{{0}, {7}, {.checked = 1}},
		{{1, 9}, {9}, {.checked = 3, .duplicates = 1, .duplicate = 9}},
		{{9, 9, 9}, {0}, {.checked = 3, .duplicates = 2, .duplicate = 9}},
		{{G_MININT64, G_MAXINT64}, {G_MININT64}, {3, 0, 1, G_MININT64}},
		/* each has room for three */
		{{1, 2, 3, 4}, {5, 6, 7, 1}, {.checked = 6, .left_out = 2}},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		LoadIdLog *logs = load_id_log_new_all(2, 7);
		LoadIdLogVerdict verdict;

		for (gsize k = 0; k < 4 && cases[i].first[k] != 0; k++)
			load_id_log_add(&logs[0], cases[i].first[k]);
		for (gsize k = 0; k < 4 && cases[i].second[k] != 0; k++)
			load_id_log_add(&logs[1], cases[i].second[k]);
		verdict = load_id_log_check_all(logs, 2);
		g_assert_cmpuint(verdict.checked, ==, cases[i].verdict.checked);
		g_assert_cmpuint(verdict.left_out, ==, cases[i].verdict.left_out);
		g_assert_cmpuint(verdict.duplicates, ==, cases[i].verdict.duplicates);
		g_assert_cmpint(verdict.duplicate, ==, cases[i].verdict.duplicate);
		load_id_log_free_all(logs);
	}
}
