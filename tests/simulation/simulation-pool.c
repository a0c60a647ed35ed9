/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pools and relays in virtual time, against servers that fail or send wrong replies. The checks are
 * those of pool-taker.h and pool-connections.h.
 */
#include <stdio.h>

#include "tests/simulation/driver.h"
#include "tests/simulation/pool-connections.h"
#include "tests/simulation/pool-names.h"
#include "tests/simulation/pool-taker.h"

#define BOUND_MS       9000 /* the longest wait of a take while a server can serve */
#define IDLE_S         60
#define IDLE_PASSES    (IDLE_S * 3)
#define IDLE_CALLS     (IDLE_S * 1)
#define MAX_SERVERS    5
#define LARGE_SERVERS  8
#define LARGE_RELAYS   200
#define LARGE_POOLS    1000
#define LARGE_CONNECTS 40
#define STEP_MESSAGES  10
#define STEP_S         15

static void begin_world(void)
{
	pool_network_init();
	sim_server_init();
	pools_init();
}

static void end_world(void)
{
	driver_count("pools", pools_count());
	pools_clear();
	sim_server_clear();
	pool_network_clear();
}

static void heal_all(void)
{
	for (guint i = 0; i < sim_server_count(); i++)
		sim_server_set_fault(sim_server_get(i), SERVER_IS_HEALTHY);
	pool_names_set(&(NamesAnswer){.delay_us = 1000, .count = sim_server_count()});
}

static void set_all_idle(gboolean are_idle)
{
	for (guint i = 0; i < pools_count(); i++)
		pool_set_idle(pools_get(i), are_idle);
}

/* Servers that have sent wrong IDs are excluded for a while. */
static void wait_until_trusted(void)
{
	gint64 until_us = 0;

	for (guint i = 0; i < sim_server_count(); i++)
		until_us = MAX(until_us, sim_server_get(i)->excluded_until_us);
	if (world_now_us() >= until_us)
		return;
	set_all_idle(TRUE);
	world_run_until(until_us);
}

/* Ends all faults. Fails unless each taker gets IDs again. */
static void check_recovery(void)
{
	gint64 well_us;

	heal_all();
	wait_until_trusted();
	well_us = world_now_us();
	set_all_idle(FALSE);
	world_run_for(BOUND_MS * G_TIME_SPAN_MILLISECOND + 3 * G_USEC_PER_SEC);
	for (guint i = 0; i < pools_count(); i++)
		pool_check_has_taken(pools_get(i), well_us);
}

/* Stops all takers. Fails unless the pools become idle. */
static void check_idleness(void)
{
	g_autofree guint64 *passes = g_new(guint64, pools_count());
	g_autofree guint64 *calls = g_new(guint64, pools_count());

	set_all_idle(TRUE);
	world_run_for(60 * G_USEC_PER_SEC);
	for (guint i = 0; i < pools_count(); i++) {
		passes[i] = pool_host(pools_get(i))->n_passes;
		calls[i] = pool_host(pools_get(i))->n_calls;
	}
	world_run_for(IDLE_S * G_USEC_PER_SEC);
	for (guint i = 0; i < pools_count(); i++) {
		const NetworkHost *host = pool_host(pools_get(i));

		if (host->n_passes - passes[i] > IDLE_PASSES ||
		    host->n_calls - calls[i] > IDLE_CALLS)
			world_fail("%s: idle, but %" G_GUINT64_FORMAT " passes and "
				   "%" G_GUINT64_FORMAT " calls in %d s",
				   host->machine.name, host->n_passes - passes[i],
				   host->n_calls - calls[i], IDLE_S);
	}
}

/* Few servers, few pools, many faults */

static gint64 faults_until_us;
/* If not 0, pools use only the servers from this number on, which are relays, and most faults are
 * late replies. So batch requests go to two servers, and the second reply comes later. */
static guint first_known;

static ServerFault draw_fault(void)
{
	if (first_known > 0 && world_odds(0.7))
		return SERVER_IS_LATE;
	return (ServerFault)world_between(SERVER_DIES, SERVER_N_FAULTS - 1);
}

static void on_fault(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	SimServer *server = data;
	gboolean begins = server->fault == SERVER_IS_HEALTHY || world_odds(0.2);

	if (world_now_us() >= faults_until_us)
		return;
	sim_server_set_fault(server, begins ? draw_fault() : SERVER_IS_HEALTHY);
	world_after(world_scaled(1000, begins ? 10000000 : 20000000), on_fault, server, 0);
}

static void on_names_fault(gpointer data G_GNUC_UNUSED, guint64 tag G_GNUC_UNUSED)
{
	guint n = sim_server_count();

	if (world_now_us() >= faults_until_us)
		return;
	pool_names_set(&(NamesAnswer){
		.delay_us = world_scaled(100, 8000000),
		.has_failed = world_odds(0.2),
		.count =
			world_odds(0.1) ? 0 : n + (guint)world_between(0, world_odds(0.5) ? 0 : 20),
	});
	world_after(world_scaled(100000, 20000000), on_names_fault, NULL, 0);
}

static void on_idle_change(gpointer data, guint64 tag)
{
	if (world_now_us() >= faults_until_us)
		return;
	pool_set_idle(data, tag == 0);
	world_after(world_scaled(100000, 10000000), on_idle_change, data, tag == 0);
}

static void add_pool(guint n_servers)
{
	guint chosen[MAX_SERVERS], n_chosen = 0;
	guint prefetch_ms = (guint)world_scaled(5, 500);

	for (guint i = first_known; i < n_servers; i++)
		if (world_odds(0.6))
			chosen[n_chosen++] = i;
	if (n_chosen == 0)
		chosen[n_chosen++] = (guint)world_between(first_known, n_servers - 1);

	gboolean by_name = first_known == 0 && world_odds(0.3);

	for (guint i = 0; by_name && i < n_servers; i++)
		chosen[i] = i;
	pool_new(&(PoolPlan){
		.servers = chosen,
		.n_servers = by_name ? n_servers : n_chosen,
		.by_name = by_name,
		.discover = first_known == 0 && world_odds(0.3),
		.prefetch_ms = prefetch_ms,
		.max_age_ms = 2 * prefetch_ms + (guint)world_scaled(1, 5000),
		.n_takers = (guint)world_between(1, 4),
		.pause_us = world_scaled(200, 500000),
		.most = (guint)world_scaled(1, 200),
		.bound_ms = BOUND_MS,
	});
}

static void draw_few(void)
{
	guint n_servers = (guint)world_between(1, MAX_SERVERS);
	guint n_relays =
		n_servers > 1 && world_odds(0.5) ? (guint)world_between(1, n_servers - 1) : 0;

	begin_world();
	first_known = n_relays > 0 && world_odds(0.5) ? n_servers - n_relays : 0;
	pool_names_set(&(NamesAnswer){
		.delay_us = 1000, .has_failed = world_odds(0.3), .count = n_servers});
	for (guint i = 0; i < n_servers - n_relays; i++)
		sim_server_new(world_scaled(20, 2000));
	for (guint i = 0; i < n_relays; i++)
		sim_server_new_relay(n_servers - n_relays, (guint)world_scaled(100, 5000));
	for (gint64 n = world_scaled(1, 20); n > 0; n--)
		add_pool(n_servers);
	faults_until_us = world_now_us() + world_scaled(5, 120) * G_USEC_PER_SEC;
	for (guint i = 0; i < n_servers; i++)
		world_after(world_scaled(1000, 10000000), on_fault, sim_server_get(i), 0);
	for (guint i = 0; i < pools_count(); i++)
		world_after(world_scaled(100000, 30000000), on_idle_change, pools_get(i), 0);
	world_after(world_scaled(1000, 10000000), on_names_fault, NULL, 0);
	world_run_until(faults_until_us);
	check_recovery();
	if (world_odds(0.2) && !sim_server_has_misled())
		check_idleness();
	end_world();
}

/* Each fault at each request: for a single server, and for one of two servers. */

static gboolean step_messages(guint step)
{
	ServerFault fault = 1 + step % (SERVER_N_FAULTS - 1);
	guint message = step / (SERVER_N_FAULTS - 1) / 2;
	guint n_servers = 1 + step / (SERVER_N_FAULTS - 1) % 2;

	if (message > STEP_MESSAGES)
		return FALSE;
	begin_world();
	pool_names_set(&(NamesAnswer){.delay_us = 1000, .count = n_servers});
	for (guint i = 0; i < n_servers; i++)
		sim_server_new(100);
	sim_server_get(0)->fault_at = message;
	sim_server_get(0)->fault_then = fault;
	if (message == 0)
		sim_server_set_fault(sim_server_get(0), fault);
	for (guint i = 0; i < 2; i++)
		pool_new(&(PoolPlan){.servers = (const guint[]){0, 1},
				     .n_servers = n_servers,
				     .discover = i == 1,
				     .prefetch_ms = 50,
				     .max_age_ms = 1000,
				     .n_takers = 2,
				     .pause_us = 30000,
				     .most = 20,
				     .bound_ms = BOUND_MS});
	world_run_for(STEP_S * G_USEC_PER_SEC);
	check_recovery();
	if (message == 1 && !sim_server_has_misled())
		check_idleness();
	end_world();
	return TRUE;
}

/* A thousand pools and two hundred relays: one server dies, one drains. */

/* Starts the pools at different times, so that their requests do not stay in phase. */
static void add_large_pools(void)
{
	for (guint i = 0; i < LARGE_POOLS; i++) {
		const guint relay = LARGE_SERVERS + i % LARGE_RELAYS;
		const guint all[LARGE_SERVERS] = {0, 1, 2, 3, 4, 5, 6, 7};
		gboolean is_behind = i % 5 == 4;

		pool_new(&(PoolPlan){.servers = is_behind ? &relay : all,
				     .n_servers = is_behind ? 1 : LARGE_SERVERS,
				     .prefetch_ms = 1000,
				     .max_age_ms = 5000,
				     .n_takers = 1,
				     .pause_us = 50000,
				     .most = 20,
				     .bound_ms = BOUND_MS});
		world_run_for(world_between(1, 2000));
	}
}

static void check_connects(const char *what)
{
	guint worst = pool_network_take_worst_connects();

	printf("%s: %u new connections within 10 ms at most\n", what, worst);
	if (worst > LARGE_CONNECTS)
		world_fail("%s: %u new connections within 10 ms, the limit is %d", what, worst,
			   LARGE_CONNECTS);
}

/* Fails unless connections are spread over the servers: a pool connects to two random servers. */
static void check_shares(void)
{
	guint total = 0;

	for (guint i = 0; i < LARGE_SERVERS; i++)
		total += pool_network_count_connections(i);
	for (guint i = 0; i < LARGE_SERVERS; i++)
		if (pool_network_count_connections(i) < total / LARGE_SERVERS / 2)
			world_fail("server %u has %u of %u connections", i,
				   pool_network_count_connections(i), total);
}

/* Fails unless pools leave a draining server within a second. */
static void check_drain(SimServer *server)
{
	guint before = server->n_draws, drained;

	world_run_for(G_USEC_PER_SEC);
	before = server->n_draws - before;
	sim_server_set_fault(server, SERVER_DRAINS);
	world_run_for(G_USEC_PER_SEC);
	drained = server->n_draws;
	world_run_for(G_USEC_PER_SEC);
	if (server->n_draws - drained > before / 10)
		world_fail("%s drains, but %u batches were taken from it in a second, %u before",
			   server->machine.name, server->n_draws - drained, before);
}

static gboolean step_large(guint step)
{
	if (step > 0)
		return FALSE;
	begin_world();
	for (guint i = 0; i < LARGE_SERVERS; i++)
		sim_server_new(200);
	for (guint i = 0; i < LARGE_RELAYS; i++)
		sim_server_new_relay(LARGE_SERVERS, 1000);
	add_large_pools();
	world_run_for(5 * G_USEC_PER_SEC);
	check_shares();
	pool_network_take_worst_connects();
	sim_server_set_fault(sim_server_get(0), SERVER_DIES);
	world_run_for(5 * G_USEC_PER_SEC);
	check_connects("a server died");
	check_drain(sim_server_get(1));
	sim_server_set_fault(sim_server_get(1), SERVER_DIES);
	world_run_for(3 * G_USEC_PER_SEC);
	check_connects("a server drained, then died");
	check_recovery();
	check_connects("both came back");
	end_world();
	return TRUE;
}

static gboolean step_connections(guint step)
{
	gboolean exists;

	begin_world();
	exists = pool_connections_check(step);
	end_world();
	return exists;
}

int main(int argc, char **argv)
{
	const DriverScenario scenarios[] = {
		{"large", NULL, step_large},
		{"messages", NULL, step_messages},
		{"connections", NULL, step_connections},
		{"few", draw_few, NULL},
		{NULL, NULL, NULL},
	};

	return driver_main(argc, argv, "simulation-pool", scenarios);
}
