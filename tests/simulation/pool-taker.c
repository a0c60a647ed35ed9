/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/pool-taker.h"

#include <string.h>

#include "tests/simulation/driver.h"
#include "tests/simulation/id-set.h"
#include "tests/simulation/pool-names.h"

#define MAX_TAKERS    4
#define MAX_SERVERS   16
#define MAX_WORKERS   1024
#define SHORT_MS      300 /* time limit of takes that may fail */
#define AGE_SLACK_MS  2   /* a tick, and the lateness of a thread */
#define MAX_AHEAD_MS  11
#define WAKE_US       30
#define NAME          "fleet.example"
#define RENEW_NAME_MS 11000 /* two lookups of a known name */

typedef struct {
	SimPool *pool;
	guint number;
	PoolSlot *slot;
	guint64 tag; /* tag of its events, which changes with each step */
	guint64 round;
	gboolean is_waiting;
	guint most;
	gint64 since_us, deadline_us; /* start and deadline of the current take */
	gint64 taken_us;              /* time of the last take */
	gint64 last_ids[MAX_WORKERS]; /* the last ID of each worker ID */
	gint64 last_id;
} Taker;

struct _SimPool {
	NetworkHost *host;
	PoolPlan plan;
	guint servers[MAX_SERVERS];
	PoolConfig *config;
	PoolBuffer *hand;
	PoolRefill *refill;
	gboolean is_idle;
	gboolean has_order; /* IDs of a worker ID increase, because the world has no relay */
	guint upstream_age_ms;
	Taker takers[MAX_TAKERS];
};

static struct {
	GPtrArray *all;
	IdSet taken;
} pools;

static void pool_free(SimPool *self)
{
	pool_buffer_free(self->hand);
	pool_config_free(self->config);
	g_free(self);
}

void pools_init(void)
{
	pools.all = g_ptr_array_new_with_free_func((GDestroyNotify)pool_free);
	id_set_init(&pools.taken);
}

void pools_clear(void)
{
	g_ptr_array_unref(pools.all);
	id_set_clear(&pools.taken);
}

guint pools_count(void)
{
	return pools.all->len;
}

SimPool *pools_get(guint index)
{
	return pools.all->pdata[index];
}

const NetworkHost *pool_host(const SimPool *self)
{
	return self->host;
}

/* Checks */

static void taker_fail(Taker *self, const char *what, gint64 id)
{
	self->pool->host->machine.is_involved = TRUE;
	for (guint i = 0; i < self->pool->plan.n_servers; i++)
		sim_server_get(self->pool->servers[i])->machine.is_involved = TRUE;
	world_fail("%s, taker %u: %s %" G_GINT64_FORMAT, self->pool->host->machine.name,
		   self->number, what, id);
}

static void check_id(Taker *self, gint64 id)
{
	LayoutParts parts = layout_decode(&LAYOUT_TWITTER, id);
	gint64 *last_id = &self->last_ids[parts.datacenter_id << 5 | parts.worker_id];
	gint64 age_ms = world_true_ms() - parts.time_ms;

	if (sim_server_has_poisoned(id))
		taker_fail(self, "took an ID from a wrong answer:", id);
	if (!id_set_add(&pools.taken, id))
		taker_fail(self, "took an ID a second time:", id);
	if (self->pool->has_order && id <= *last_id)
		taker_fail(self, "took an ID below the last one of its worker ID:", id);
	*last_id = id;
	if (age_ms > self->pool->plan.max_age_ms + self->pool->upstream_age_ms + AGE_SLACK_MS &&
	    !sim_server_has_repeated(id))
		taker_fail(self, "took an ID that is too old, in ms:", age_ms);
	if (age_ms < -MAX_AHEAD_MS)
		taker_fail(self, "took an ID of the future, in ms:", age_ms);
}

/* Returns: since when a server that the pool can reach can serve; WORLD_NEVER_US if none can */
static gint64 servable_since_us(const SimPool *self)
{
	gint64 since_us = WORLD_NEVER_US;

	for (guint i = 0; i < self->plan.n_servers; i++)
		since_us = MIN(since_us,
			       sim_server_servable_since_us(sim_server_get(self->servers[i])));
	if (self->plan.by_name && since_us != WORLD_NEVER_US)
		since_us = MAX(since_us, pool_names_good_since_us());
	return since_us;
}

static gboolean is_misled(const SimPool *self)
{
	return self->plan.discover && sim_server_has_misled();
}

static void check_wait(Taker *self)
{
	gint64 since_us = MAX(servable_since_us(self->pool), self->since_us);
	gint64 waited_us = world_now_us() - since_us;

	if (since_us == WORLD_NEVER_US || is_misled(self->pool))
		return;
	driver_count("waits beyond 1 s", waited_us > G_USEC_PER_SEC);
	driver_count("waits beyond 4 s", waited_us > 4 * G_USEC_PER_SEC);
	if (waited_us > self->pool->plan.bound_ms * G_TIME_SPAN_MILLISECOND)
		taker_fail(self, "waited although a server can serve, for ms:", waited_us / 1000);
}

/* Takes */

static void on_take(gpointer data, guint64 tag);

static void taker_pause(Taker *self)
{
	self->is_waiting = FALSE;
	world_after(world_scaled(1, 2 * self->pool->plan.pause_us), on_take, self, ++self->tag);
}

static void taker_receive(Taker *self, const PoolRun *run)
{
	for (guint i = 0; i < run->count; i++)
		check_id(self, run->first + i);
	if (self->is_waiting)
		check_wait(self);
	self->taken_us = world_now_us();
	driver_count("IDs", run->count);
	taker_pause(self);
}

static gboolean taker_try(Taker *self)
{
	PoolRun run;

	if (!pool_buffer_take(self->pool->hand, self->slot, self->most, &run))
		return FALSE;
	if (self->is_waiting)
		pool_wait_end(&self->pool->hand->wait);
	taker_receive(self, &run);
	return TRUE;
}

static void on_deadline(gpointer data, guint64 tag)
{
	Taker *self = data;

	if (tag != self->tag || !self->is_waiting)
		return;
	pool_network_enter(self->pool->host);
	pool_wait_end(&self->pool->hand->wait);
	driver_count("takes in vain", 1);
	check_wait(self);
	taker_pause(self);
}

/* Waits as wait_and_take() of client/snowflake-pool.c does. */
static void taker_wait(Taker *self)
{
	PoolBuffer *hand = self->pool->hand;
	guint timeout_ms = world_odds(0.3) ? SHORT_MS : 3 * self->pool->plan.bound_ms;

	atomic_fetch_add_explicit(&hand->empty_buffer, 1, memory_order_relaxed);
	self->round = pool_wait_begin(&hand->wait);
	self->is_waiting = TRUE;
	if (taker_try(self))
		return;
	pool_refill_wake(self->pool->refill);
	self->deadline_us = world_now_us() + timeout_ms * G_TIME_SPAN_MILLISECOND;
	world_at(self->deadline_us, on_deadline, self, self->tag);
}

static void on_take(gpointer data, guint64 tag)
{
	Taker *self = data;

	if (tag != self->tag)
		return;
	if (self->pool->is_idle) {
		self->taken_us = world_now_us();
		world_after(G_USEC_PER_SEC / 4, on_take, self, ++self->tag);
		return;
	}
	pool_network_enter(self->pool->host);
	self->since_us = world_now_us();
	self->most = (guint)world_scaled(1, self->pool->plan.most);
	if (!taker_try(self))
		taker_wait(self);
}

static void on_wake(gpointer data, guint64 tag)
{
	Taker *self = data;

	if (tag != self->tag || !self->is_waiting)
		return;
	pool_network_enter(self->pool->host);
	self->round = self->pool->hand->wait.round;
	if (!taker_try(self))
		pool_refill_wake(self->pool->refill);
}

static void on_passed(gpointer user_data)
{
	SimPool *self = user_data;

	for (guint i = 0; i < self->plan.n_takers; i++) {
		Taker *taker = &self->takers[i];

		if (taker->is_waiting && taker->round != self->hand->wait.round)
			world_after(world_between(1, WAKE_US), on_wake, taker, taker->tag);
	}
}

/* Pools */

static void add_takers(SimPool *self)
{
	for (guint i = 0; i < self->plan.n_takers; i++) {
		Taker *taker = &self->takers[i];

		taker->pool = self;
		taker->number = i;
		taker->slot = world_odds(0.8) ? pool_buffer_claim_slot(self->hand) : NULL;
		taker_pause(taker);
	}
}

static PoolConfig *make_config(const SimPool *self)
{
	SnowflakePoolConfig public = SNOWFLAKE_POOL_CONFIG_INIT("a-pool");
	g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GError) error = NULL;
	PoolConfig *config;

	if (self->plan.by_name)
		g_ptr_array_add(texts, g_strdup(NAME));
	for (guint i = 0; i < self->plan.n_servers && !self->plan.by_name; i++)
		g_ptr_array_add(texts, pool_names_text(self->servers[i]));
	g_ptr_array_add(texts, NULL);
	public.servers = (const char *const *)texts->pdata;
	public.discover = self->plan.discover;
	public.prefetch_ms = self->plan.prefetch_ms;
	public.max_age_ms = self->plan.max_age_ms;
	config = pool_config_new(&public, &error);
	g_assert_no_error(error);
	return config;
}

SimPool *pool_new(const PoolPlan *plan)
{
	SimPool *self = g_new0(SimPool, 1);
	g_autofree char *name = g_strdup_printf("pool %u", pools.all->len);

	g_assert_cmpuint(plan->n_servers, <=, MAX_SERVERS);
	g_assert_cmpuint(plan->n_takers, <=, MAX_TAKERS);
	self->plan = *plan;
	memcpy(self->servers, plan->servers, plan->n_servers * sizeof(guint));
	self->plan.servers = self->servers;
	for (guint i = 0; i < sim_server_count(); i++)
		self->upstream_age_ms = MAX(self->upstream_age_ms, sim_server_get(i)->max_age_ms);
	self->has_order = self->upstream_age_ms == 0;
	self->host = pool_network_host_new(name, world_scaled(20, 2000));
	self->host->passed = on_passed;
	self->host->user_data = self;
	pool_network_enter(self->host);
	self->config = make_config(self);
	self->hand = pool_buffer_new(NULL);
	self->refill = pool_refill_new(self->config, self->hand, NULL, NULL);
	add_takers(self);
	g_ptr_array_add(pools.all, self);
	return self;
}

void pool_set_idle(SimPool *self, gboolean is_idle)
{
	self->is_idle = is_idle;
}

void pool_check_has_taken(const SimPool *self, gint64 since_us)
{
	for (guint i = 0; i < self->plan.n_takers && !is_misled(self); i++)
		if (self->takers[i].taken_us < since_us)
			taker_fail((Taker *)&self->takers[i],
				   "has got no ID since the end of all faults, for ms:",
				   (world_now_us() - self->takers[i].taken_us) / 1000);
}
