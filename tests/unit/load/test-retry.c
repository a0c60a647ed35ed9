/* SPDX-License-Identifier: Apache-2.0 */
#include "load/driver.h"
#include "tests/unit/unit-test.h"

#define MS 1000000

TEST("/load-retry/pauses", pauses_grow_to_a_bound)
{
	static const struct {
		guint failures;
		guint n_servers;
		guint n_connections;
		gint64 longest_ms;
	} cases[] = {
		{1, 1, 1, 10},
		{2, 1, 1, 20},
		{3, 1, 1, 40},
		{4, 1, 1, 80},
		{5, 1, 1, 100},
		{6, 1, 1000, 100},
		{64, 1, 1, 100},
		{G_MAXUINT, 1, 1, 100},
		/* the other servers are tried first, immediately */
		{1, 2, 1, 0},
		{2, 2, 1, 10},
		{3, 2, 1, 0},
		{4, 2, 1, 20},
		{2, 3, 1, 0},
		{3, 3, 1, 10},
		/* with many servers, each one is tried less often */
		{8, 1, 10000, 1000},
		{G_MAXUINT, 1, 100000, 10000},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		gint64 longest_ns = load_schedule_retry_ns(cases[i].failures, cases[i].n_servers,
							   cases[i].n_connections, 1);
		gint64 shortest_ns = load_schedule_retry_ns(cases[i].failures, cases[i].n_servers,
							    cases[i].n_connections, 0);

		g_test_message("case %zu", i);
		g_assert_cmpint(longest_ns, ==, cases[i].longest_ms * MS);
		g_assert_cmpint(shortest_ns, ==, cases[i].longest_ms * MS / 2);
	}
}
