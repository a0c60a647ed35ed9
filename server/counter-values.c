/* SPDX-License-Identifier: Apache-2.0 */
#include "server/counter-values.h"

void counter_values_put(GHashTable *values, const char *name, gint64 value)
{
	g_hash_table_insert(values, g_strdup(name), g_memdup2(&value, sizeof value));
}

static void put_method(GHashTable *values, CounterSet *counters, const char *prefix, Counter first,
		       CounterMethod method)
{
	g_autofree char *name = g_strconcat(prefix, counter_method_name(method), NULL);

	counter_values_put(values, name, (gint64)counter_set_sum(counters, first + method));
}

static void put_agent(const char *agent, guint64 ids, gpointer values)
{
	g_autofree char *name = g_strconcat(counter_name(COUNTER_IDS_GENERATED), "_", agent, NULL);

	counter_values_put(values, name, (gint64)ids);
}

void counter_values_put_all(GHashTable *values, CounterSet *counters, AgentCounters *agents,
			    const AuditLog *audit)
{
	for (Counter counter = 0; counter < N_NAMED_COUNTERS; counter++)
		counter_values_put(values, counter_name(counter),
				   (gint64)counter_set_sum(counters, counter));
	for (CounterMethod method = 0; method < N_COUNTER_METHODS; method++) {
		put_method(values, counters, "answered_", COUNTER_ANSWERED, method);
		put_method(values, counters, "refused_", COUNTER_REFUSED, method);
	}
	agent_counters_each(agents, put_agent, values);
	counter_values_put(values, "scribe_enqueue_failures", (gint64)audit_log_dropped_ids(audit));
	counter_values_put(values, "reporter_flush_queue", (gint64)audit_log_queued_ids(audit));
}
