/* SPDX-License-Identifier: Apache-2.0 */
#include "client/pool/seen.h"

#include "client/snowflake-client.h"

static const SnowflakeClientIdRun *run_at(const GArray *runs, guint index)
{
	return &g_array_index(runs, SnowflakeClientIdRun, index);
}

static gint64 last_of(const SnowflakeClientIdRun *run)
{
	return run->first + (run->count - 1);
}

static void remove_oldest(PoolSeen *self)
{
	PoolSeenReply *reply = &self->replies[self->oldest];

	self->n_runs -= reply->runs->len;
	g_clear_pointer(&reply->runs, g_array_unref);
	g_clear_pointer(&reply->server, g_free);
	self->oldest = (self->oldest + 1) % POOL_SEEN_REPLIES;
	self->count--;
}

void pool_seen_clear(PoolSeen *self)
{
	while (self->count > 0)
		remove_oldest(self);
}

/* @runs and @others increase. Returns: %FALSE if no ID is in both */
static gboolean find_common(const GArray *runs, const GArray *others, gint64 *out_id)
{
	guint i = 0, j = 0;

	while (i < runs->len && j < others->len) {
		const SnowflakeClientIdRun *one = run_at(runs, i);
		const SnowflakeClientIdRun *other = run_at(others, j);

		if (last_of(one) < other->first) {
			i++;
		} else if (last_of(other) < one->first) {
			j++;
		} else {
			*out_id = MAX(one->first, other->first);
			return TRUE;
		}
	}
	return FALSE;
}

const char *pool_seen_find(const PoolSeen *self, const GArray *runs, gint64 *out_id)
{
	gint64 first = run_at(runs, 0)->first;
	gint64 last = last_of(run_at(runs, runs->len - 1));

	for (guint i = 0; i < self->count; i++) {
		const PoolSeenReply *reply = &self->replies[(self->oldest + i) % POOL_SEEN_REPLIES];

		if (reply->first <= last && reply->last >= first &&
		    find_common(runs, reply->runs, out_id))
			return reply->server;
	}
	return NULL;
}

void pool_seen_add(PoolSeen *self, const char *server, const GArray *runs)
{
	PoolSeenReply *reply;

	while (self->count == POOL_SEEN_REPLIES ||
	       (self->count > 0 && self->n_runs + runs->len > POOL_SEEN_RUNS))
		remove_oldest(self);
	reply = &self->replies[(self->oldest + self->count) % POOL_SEEN_REPLIES];
	*reply = (PoolSeenReply){
		.first = run_at(runs, 0)->first,
		.last = last_of(run_at(runs, runs->len - 1)),
		.runs = g_array_sized_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun), runs->len),
		.server = g_strdup(server),
	};
	g_array_append_vals(reply->runs, runs->data, runs->len);
	self->n_runs += runs->len;
	self->count++;
}
