/* SPDX-License-Identifier: Apache-2.0 */
#include "server/agent-counters.h"

#include <pthread.h>

#define OTHERS AGENT_COUNTERS_SLOTS /* the slot for all other agents */

struct _AgentCounters {
	/* A hash table with open addressing. Names are never removed. */
	_Atomic(AgentName *) names[AGENT_COUNTERS_SLOTS];
	_Atomic guint n_names; /* changed only under the lock, as are the names */
	pthread_mutex_t lock;
	GPtrArray *blocks; /* (element-type AgentBlock): protected by the lock */
};

AgentCounters *agent_counters_new(void)
{
	AgentCounters *self = g_new0(AgentCounters, 1);

	pthread_mutex_init(&self->lock, NULL);
	self->blocks = g_ptr_array_new_with_free_func(g_aligned_free);
	return self;
}

void agent_counters_free(AgentCounters *self)
{
	if (self == NULL)
		return;
	for (guint slot = 0; slot < AGENT_COUNTERS_SLOTS; slot++)
		g_free(self->names[slot]);
	g_ptr_array_unref(self->blocks);
	pthread_mutex_destroy(&self->lock);
	g_free(self);
}

AgentBlock *agent_counters_add_block(AgentCounters *self)
{
	AgentBlock *block = g_aligned_alloc0(1, sizeof *block, _Alignof(AgentBlock));

	block->counters = self;
	pthread_mutex_lock(&self->lock);
	g_ptr_array_add(self->blocks, block);
	pthread_mutex_unlock(&self->lock);
	return block;
}

static AgentName *name_in(const AgentCounters *self, guint slot)
{
	return atomic_load_explicit(&self->names[slot], memory_order_acquire);
}

/* Returns the agent's slot, or the empty slot into which the agent would be put. */
static guint find_slot(const AgentCounters *self, const char *agent, gsize length)
{
	guint32 hash = 2166136261; /* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
	const AgentName *name;
	guint slot;

	for (gsize i = 0; i < length; i++)
		hash = (hash ^ (guint8)agent[i]) * 16777619;
	slot = hash % AGENT_COUNTERS_SLOTS;
	while ((name = name_in(self, slot)) != NULL &&
	       (name->length != length || memcmp(name->text, agent, length) != 0))
		slot = (slot + 1) % AGENT_COUNTERS_SLOTS;
	return slot;
}

static gboolean is_full(const AgentCounters *self)
{
	return atomic_load_explicit(&self->n_names, memory_order_relaxed) >= AGENT_COUNTERS_MOST;
}

void agent_block_look_up(AgentBlock *self, const char *agent, gsize length)
{
	AgentCounters *counters = self->counters;
	guint slot = find_slot(counters, agent, length);

	if (name_in(counters, slot) == NULL && !is_full(counters)) {
		pthread_mutex_lock(&counters->lock);
		slot = find_slot(counters, agent, length);
		if (name_in(counters, slot) == NULL && !is_full(counters)) {
			AgentName *name = g_malloc(sizeof *name + length + 1);

			name->length = length;
			memcpy(name->text, agent, length);
			name->text[length] = '\0';
			atomic_store_explicit(&counters->names[slot], name, memory_order_release);
			counters->n_names++;
		}
		pthread_mutex_unlock(&counters->lock);
	}
	self->last = name_in(counters, slot);
	self->last_slot = self->last != NULL ? slot : OTHERS;
}

/* The caller holds the lock. */
static guint64 sum_slot(const AgentCounters *self, guint slot)
{
	guint64 ids = 0;

	for (guint i = 0; i < self->blocks->len; i++) {
		const AgentBlock *block = self->blocks->pdata[i];

		ids += atomic_load_explicit(&block->ids[slot], memory_order_relaxed);
	}
	return ids;
}

void agent_counters_each(AgentCounters *self,
			 void (*each)(const char *agent, guint64 ids, gpointer user_data),
			 gpointer user_data)
{
	pthread_mutex_lock(&self->lock);
	for (guint slot = 0; slot < AGENT_COUNTERS_SLOTS; slot++) {
		const AgentName *name = name_in(self, slot);

		if (name != NULL)
			each(name->text, sum_slot(self, slot), user_data);
	}
	each(AGENT_COUNTERS_OTHERS, sum_slot(self, OTHERS), user_data);
	pthread_mutex_unlock(&self->lock);
}
