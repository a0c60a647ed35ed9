/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/audit-sort.h"

/* With the least memory a run has some 10,000 records at most, and a pass merges 16 of them. */

#define AGENT_BYTES 3000

static char agents[AGENT_BYTES];

static int compare(gconstpointer a, gconstpointer b)
{
	return ctl_audit_record_compare(*(const CtlAuditRecord *const *)a,
					*(const CtlAuditRecord *const *)b);
}

/* (transfer full): many records of few IDs, and a few of many; some with the same tag. */
static CtlAuditRecord *make_record(GRand *random, guint line, guint max_agent)
{
	gsize agent_length = 1 + g_rand_int(random) % max_agent;
	CtlAuditRecord *record = g_malloc0(sizeof(*record) + agent_length);

	*record = (CtlAuditRecord){
		.id = g_rand_boolean(random) ? g_rand_int_range(random, 0, 100)
					     : (gint64)g_rand_int(random) << 31 | line,
		.tag = g_rand_int_range(random, -2, 3),
		.line = line,
		.file = g_rand_int(random) % 3,
		.agent_length = (guint32)agent_length,
	};
	memcpy(record->agent, agents, agent_length);
	record->agent[agent_length - 1] = (char)g_rand_int_range(random, 'a', 'c');
	return record;
}

static void check(guint count, guint max_agent)
{
	g_autoptr(GRand) random = g_rand_new_with_seed(count);
	g_autoptr(GPtrArray) expected = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(CtlAuditSort) sort = ctl_audit_sort_new(CTL_AUDIT_SORT_MIN_BYTES);
	g_autoptr(GError) error = NULL;

	for (guint i = 0; i < count; i++) {
		CtlAuditRecord *record = make_record(random, i, max_agent);

		g_ptr_array_add(expected, record);
		g_assert_true(ctl_audit_sort_add(sort, record, record->agent, &error));
	}
	g_ptr_array_sort(expected, compare);
	g_assert_true(ctl_audit_sort_finish(sort, &error));
	for (guint i = 0; i < count; i++) {
		const CtlAuditRecord *wanted = expected->pdata[i];
		const CtlAuditRecord *found = ctl_audit_sort_next(sort, &error);

		g_assert_no_error(error);
		g_assert_nonnull(found);
		g_assert_cmpmem(found, sizeof(*found) + found->agent_length, wanted,
				sizeof(*wanted) + wanted->agent_length);
	}
	for (guint i = 0; i < 2; i++)
		g_assert_null(ctl_audit_sort_next(sort, &error));
	g_assert_no_error(error);
}

static void test_sort(void)
{
	static const struct {
		guint count;
		guint max_agent;
	} cases[] = {
		{0, 1},
		{1, 1},
		{100, 40},
		{20000, 1},          /* two runs */
		{300000, 9},         /* two passes */
		{9000, AGENT_BYTES}, /* records that end in another block */
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check(cases[i].count, cases[i].max_agent);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	memset(agents, 'a', sizeof(agents));
	g_test_add_func("/ctl-audit-sort/sort", test_sort);
	return g_test_run();
}
