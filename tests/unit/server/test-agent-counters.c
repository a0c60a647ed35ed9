/* SPDX-License-Identifier: Apache-2.0 */
#include "server/agent-counters.h"
#include "tests/unit/unit-test.h"

#include <pthread.h>

static void keep(const char *agent, guint64 ids, gpointer sums)
{
	g_assert_false(g_hash_table_contains(sums, agent));
	g_hash_table_insert(sums, g_strdup(agent), g_memdup2(&ids, sizeof ids));
}

/* Returns: (transfer full): agent -> IDs */
static GHashTable *sums_of(AgentCounters *counters)
{
	GHashTable *sums = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);

	agent_counters_each(counters, keep, sums);
	return sums;
}

static void assert_ids(GHashTable *sums, const char *agent, guint64 expected)
{
	const guint64 *ids = g_hash_table_lookup(sums, agent);

	g_test_message("%s", agent);
	g_assert_nonnull(ids);
	g_assert_cmpuint(*ids, ==, expected);
}

/* Asserts that all possible agents have @expected IDs each, and that there is no other name except
 * the one for all other agents. */
static void assert_all_ids(GHashTable *sums, guint64 expected)
{
	g_assert_cmpuint(g_hash_table_size(sums), ==, AGENT_COUNTERS_MOST + 1);
	for (guint i = 0; i < AGENT_COUNTERS_MOST; i++) {
		g_autofree char *agent = g_strdup_printf("a%u", i);

		assert_ids(sums, agent, expected);
	}
}

static void add(AgentBlock *block, const char *agent, guint64 ids)
{
	agent_block_add(block, agent, strlen(agent), ids);
}

TEST("/agent-counters/sum", test_sum)
{
	g_autoptr(AgentCounters) counters = agent_counters_new();
	AgentBlock *one = agent_counters_add_block(counters);
	AgentBlock *other = agent_counters_add_block(counters);
	g_autoptr(GHashTable) sums = NULL;

	add(one, "a", 1);
	add(one, "a", 2);
	add(one, "ab", 10);
	add(one, "b", 100);
	add(one, "a", 1000);
	add(other, "b", 10000);
	agent_block_add(other, "abc", 2, 100000); /* not NUL-terminated */
	sums = sums_of(counters);
	g_assert_cmpuint(g_hash_table_size(sums), ==, 4);
	assert_ids(sums, "a", 1003);
	assert_ids(sums, "ab", 100010);
	assert_ids(sums, "b", 10100);
	assert_ids(sums, AGENT_COUNTERS_OTHERS, 0);
}

/* Two rounds: the agents of the first round are known in the second one, those over the limit are
 * not. */
TEST("/agent-counters/limit", test_limit)
{
	g_autoptr(AgentCounters) counters = agent_counters_new();
	AgentBlock *block = agent_counters_add_block(counters);
	g_autoptr(GHashTable) sums = NULL;

	for (guint i = 0; i < 2 * 3 * AGENT_COUNTERS_MOST; i++) {
		g_autofree char *agent = g_strdup_printf("a%u", i % (3 * AGENT_COUNTERS_MOST));

		add(block, agent, 1);
	}
	sums = sums_of(counters);
	assert_all_ids(sums, 2);
	assert_ids(sums, AGENT_COUNTERS_OTHERS, 2 * 2 * AGENT_COUNTERS_MOST);
}

#define THREADS 4
#define ROUNDS  100

/* All threads add the same new agents at the same time. */
static gpointer add_all(gpointer block)
{
	for (guint round = 0; round < ROUNDS; round++)
		for (guint i = 0; i < AGENT_COUNTERS_MOST; i++) {
			char agent[16];

			g_snprintf(agent, sizeof agent, "a%u", i);
			add(block, agent, 1);
		}
	return NULL;
}

TEST("/agent-counters/threads", test_threads)
{
	g_autoptr(AgentCounters) counters = agent_counters_new();
	g_autoptr(GHashTable) sums = NULL;
	pthread_t threads[THREADS];

	for (guint i = 0; i < THREADS; i++)
		g_assert_cmpint(pthread_create(&threads[i], NULL, add_all,
					       agent_counters_add_block(counters)),
				==, 0);
	for (guint i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	sums = sums_of(counters);
	assert_all_ids(sums, THREADS * ROUNDS);
}
