/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "audit/audit-log.h"
#include "common/counters.h"
#include "server/agent-counters.h"

/* What get_counters answers with, as generated code takes it: names to gint64, both allocated. */

void counter_values_put(GHashTable *values, const char *name, gint64 value);

/* All that is counted, by its names in snowflaked(8); of the gauges of 2010 those of the audit log.
 * Any thread. @audit: NULL if there is none. */
void counter_values_put_all(GHashTable *values, CounterSet *counters, AgentCounters *agents,
			    const AuditLog *audit);
