/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>
#include <string.h>

/* The number of IDs by agent. The first AGENT_COUNTERS_MOST agents are counted separately, all
 * others together, because clients choose their agent and memory is bounded.
 *
 * Each thread counts into its own block. A block remembers the agent that it counted last. Only a
 * new agent needs a lock; looking up a known agent does not.
 */
typedef struct _AgentCounters AgentCounters;

#define AGENT_COUNTERS_MOST  256
#define AGENT_COUNTERS_SLOTS (2 * AGENT_COUNTERS_MOST) /* a hash table that is half full */

/* The name that represents all other agents. A valid agent contains no underscore. */
#define AGENT_COUNTERS_OTHERS "other_agents"

typedef struct {
	gsize length;
	char text[];
} AgentName;

/* The counts of one thread. */
typedef struct {
	/* NULL if there was none yet, or if the last agent has no separate slot */
	_Alignas(64) const AgentName *last;
	guint last_slot;
	AgentCounters *counters;
	_Atomic guint64 ids[AGENT_COUNTERS_SLOTS + 1];
} AgentBlock;

AgentCounters *agent_counters_new(void);
/* Frees the counters with their blocks. The threads of the blocks must have ended. */
void agent_counters_free(AgentCounters *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(AgentCounters, agent_counters_free)

/* Thread-safe. Returns a new block for one thread. It is borrowed, and lives as long as @self. */
AgentBlock *agent_counters_add_block(AgentCounters *self);

/* Thread-safe. Calls @each with every agent that was counted, then with AGENT_COUNTERS_OTHERS. */
void agent_counters_each(AgentCounters *self,
			 void (*each)(const char *agent, guint64 ids, gpointer user_data),
			 gpointer user_data);

/* Finds or adds the agent, and makes it the block's last agent. */
void agent_block_look_up(AgentBlock *self, const char *agent, gsize length);

/* Counts @ids IDs. Call it only in the block's thread. @agent: @length bytes, 1 or more, without a
 * NUL */
static inline void agent_block_add(AgentBlock *self, const char *agent, gsize length, guint64 ids)
{
	const AgentName *last = self->last;
	guint64 value;

	if (G_UNLIKELY(last == NULL || last->length != length ||
		       memcmp(last->text, agent, length) != 0))
		agent_block_look_up(self, agent, length);
	value = atomic_load_explicit(&self->ids[self->last_slot], memory_order_relaxed);
	atomic_store_explicit(&self->ids[self->last_slot], value + ids, memory_order_relaxed);
}
