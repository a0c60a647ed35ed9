/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/pool-connections.h"

#include "tests/simulation/pool-names.h"
#include "tests/simulation/pool-taker.h"

#define SECOND_US   G_USEC_PER_SEC
#define LONG_S      600 /* until backoffs are at their longest */
#define NEAR_US     100
#define N_SILENT    12 /* three times as many as a pool connects to at once */
#define N_SPREAD    20
#define BOUND_MS    9000
#define MAX_SERVERS 16

static const guint ALL[MAX_SERVERS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static SimPool *add_pool_with(const guint *servers, guint n_servers, gboolean discover,
			      guint prefetch_ms, gint64 pause_us)
{
	return pool_new(&(PoolPlan){.servers = servers,
				    .n_servers = n_servers,
				    .discover = discover,
				    .prefetch_ms = prefetch_ms,
				    .max_age_ms = 4 * prefetch_ms,
				    .n_takers = 1,
				    .pause_us = pause_us,
				    .most = 1,
				    .bound_ms = BOUND_MS});
}

static SimPool *add_pool(const guint *servers, guint n_servers, gboolean discover)
{
	return add_pool_with(servers, n_servers, discover, 500, 20000);
}

/* A pool whose rate is so even that it needs only one server. */
static SimPool *add_even_pool(guint n_servers)
{
	return add_pool_with(ALL, n_servers, FALSE, 500, 1000);
}

static void add_servers(guint count)
{
	for (guint i = 0; i < count; i++)
		sim_server_new(NEAR_US);
	pool_names_set(&(NamesAnswer){.delay_us = 1000, .count = count});
}

static void set_fault(guint server, ServerFault fault)
{
	sim_server_set_fault(sim_server_get(server), fault);
}

static void check_range(const char *what, gint64 number, gint64 least, gint64 most)
{
	if (number < least || number > most)
		world_fail("%s: %" G_GINT64_FORMAT ", not %" G_GINT64_FORMAT
			   " to %" G_GINT64_FORMAT,
			   what, number, least, most);
}

static guint count_all(void)
{
	guint count = 0;

	for (guint i = 0; i < sim_server_count(); i++)
		count += pool_network_count_connections(i);
	return count;
}

static guint64 count_failovers(const SimPool *pool)
{
	SnowflakePoolStatistics statistics = {0};

	pool_refill_get_statistics(pool_host(pool)->refill, &statistics);
	return statistics.failovers;
}

/* A pool without takers tries dead servers at a steady rate, and uses the first one that recovers.
 */
static void check_comes_back(guint n_servers)
{
	SimPool *pool;

	add_servers(n_servers);
	for (guint i = 0; i < n_servers; i++)
		set_fault(i, SERVER_DIES);
	pool = add_pool(ALL, n_servers, FALSE);
	pool_set_idle(pool, TRUE);
	world_run_for(LONG_S * SECOND_US);
	check_range("us between two tries", pool_host(pool)->longest_gap_us, 0, 760000);
	check_range("tries", (gint64)pool_host(pool)->n_begun, LONG_S, LONG_S * 3 * n_servers);
	set_fault(n_servers - 1, SERVER_IS_HEALTHY);
	world_run_for(SECOND_US);
	check_range("connections", count_all(), 1, 1);
}

/* The backoff from a dead server grows while another one serves, and is short again after the
 * server has recovered. */
static void check_one_stays_away(guint argument G_GNUC_UNUSED)
{
	guint before;

	add_servers(2);
	set_fault(1, SERVER_DIES);
	add_pool(ALL, 2, FALSE);
	world_run_for(LONG_S * SECOND_US);
	check_range("connections to the one that serves", sim_server_get(0)->n_connects, 1, 1);
	before = sim_server_get(1)->n_connects;
	check_range("tries of the one that is away", before, 10, LONG_S / 2 + 10);
	set_fault(1, SERVER_IS_HEALTHY);
	world_run_for(10 * SECOND_US);
	set_fault(1, SERVER_DIES);
	world_run_for(2 * SECOND_US);
	check_range("new tries", sim_server_get(1)->n_connects - before, 4, 40);
}

/* A relay probes its servers. Counts the probes in a minute. */
static void check_probes(guint number)
{
	static const struct {
		gboolean has_relay, is_idle;
		guint least, most;
	} cases[] = {
		{FALSE, TRUE, 1, 2},
		{FALSE, FALSE, 110, 121},
		{TRUE, TRUE, 28, 31},
		{TRUE, FALSE, 40, 121},
	};
	gboolean has_relay = cases[number].has_relay;
	const guint relay = 1;
	SimPool *pool;

	add_servers(1);
	if (has_relay)
		sim_server_new_relay(1, 1000);
	pool = add_pool(has_relay ? &relay : ALL, 1, FALSE);
	pool_set_idle(pool, cases[number].is_idle);
	world_run_for(60 * SECOND_US);
	check_range("probes", sim_server_get(0)->n_probes, cases[number].least, cases[number].most);
	check_range("connections", sim_server_get(0)->n_connects, 1, 1);
}

/* A take wakes an idle relay at once, not with its next probe. */
static void check_relay_wakes(guint fault)
{
	const guint relay = 1;
	SimPool *pool;

	add_servers(1);
	sim_server_new_relay(1, 1000);
	set_fault(relay, fault);
	pool = add_pool(&relay, 1, FALSE);
	for (guint round = 0; round < 10; round++) {
		gint64 since_us;

		pool_set_idle(pool, TRUE);
		world_run_for(10 * SECOND_US);
		since_us = world_now_us();
		pool_set_idle(pool, FALSE);
		world_run_for(SECOND_US / 3); /* a taker checks every quarter of a second */
		pool_check_has_taken(pool, since_us);
	}
}

/* Servers that never reply delay the use of the one that serves only for a limited time, regardless
 * of their number. */
static void check_gives_way(guint argument G_GNUC_UNUSED)
{
	add_servers(N_SILENT + 1);
	for (guint i = 0; i < N_SILENT; i++)
		set_fault(i, SERVER_HANGS);
	for (guint i = 0; i < 10; i++)
		add_pool(ALL, N_SILENT + 1, FALSE);
	world_run_for(4 * SECOND_US);
	for (guint i = 0; i < pools_count(); i++)
		pool_check_has_taken(pools_get(i), world_now_us() - SECOND_US);
}

/* A server that cannot list the others is asked again, but rarely. */
static void check_lists(guint argument G_GNUC_UNUSED)
{
	add_servers(1);
	set_fault(0, SERVER_IS_LEGACY);
	pool_set_idle(add_pool(ALL, 1, TRUE), TRUE);
	world_run_for(60 * SECOND_US);
	check_range("questions for the list", sim_server_get(0)->n_lists, 1, 2 * 60 + 2);
}

/* Two addresses of one process get one connection. */
static void check_twins(guint argument G_GNUC_UNUSED)
{
	add_servers(2);
	for (guint i = 0; i < 2; i++)
		sim_server_get(i)->is_twin = TRUE;
	add_pool(ALL, 2, FALSE);
	for (guint second = 0; second < 50; second++) {
		world_run_for(SECOND_US);
		check_range("connections", count_all(), 1, 1);
	}
	for (guint i = 0; i < 2; i++)
		check_range("tries", sim_server_get(i)->n_connects, 1, 1);
}

/* Returns: the number of the server that the pool takes IDs from */
static guint find_first(void)
{
	guint n_draws[MAX_SERVERS], first = 0;

	for (guint i = 0; i < sim_server_count(); i++)
		n_draws[i] = sim_server_get(i)->n_draws;
	world_run_for(SECOND_US);
	for (guint i = 0; i < sim_server_count(); i++)
		if (sim_server_get(i)->n_draws - n_draws[i] >
		    sim_server_get(first)->n_draws - n_draws[first])
			first = i;
	return first;
}

/* Returns: the number of the server that is connected in addition to @first */
static guint find_spare(guint first)
{
	for (guint i = 0; i < sim_server_count(); i++)
		if (i != first && pool_network_count_connections(i) > 0)
			return i;
	world_fail("the pool has no spare");
	return 0;
}

/* A pool leaves a draining server for another one, unless that one drains too. This counts as a
 * switch. */
static void check_drains(guint argument G_GNUC_UNUSED)
{
	SimPool *pool;
	guint first;

	add_servers(2);
	pool = add_even_pool(2);
	world_run_for(SECOND_US);
	first = find_first();
	set_fault(first, SERVER_DRAINS);
	world_run_for(SECOND_US);
	check_range("the server that is left", find_first(), 1 - first, 1 - first);
	check_range("failovers", (gint64)count_failovers(pool), 1, 1);
	set_fault(1 - first, SERVER_DRAINS);
	world_run_for(SECOND_US);
	check_range("the server that still serves", find_first(), 1 - first, 1 - first);
	check_range("failovers", (gint64)count_failovers(pool), 1, 1);
}

/* A lost spare is replaced within a second, at a random time. */
static void check_replaces_later(guint argument G_GNUC_UNUSED)
{
	gint64 least_us = SECOND_US, most_us = 0;
	guint n_measured = 0;
	SimPool *pool;

	add_servers(3);
	pool = add_even_pool(3);
	for (guint round = 0; round < 20; round++) {
		gint64 lost_us, took_us;
		guint spare;

		world_run_for(5 * SECOND_US);
		spare = find_spare(find_first());
		if (count_all() != 2) /* more IDs were needed for a moment */
			continue;
		n_measured++;
		lost_us = world_now_us();
		set_fault(spare, SERVER_DIES);
		world_run_for(SECOND_US + SECOND_US / 5);
		check_range("connections", count_all(), 2, 2);
		took_us = pool_host(pool)->begun_us - lost_us;
		least_us = MIN(least_us, took_us);
		most_us = MAX(most_us, took_us);
		set_fault(spare, SERVER_IS_HEALTHY);
	}
	check_range("replacements", n_measured, 5, 20);
	check_range("us until the earliest replacement", least_us, 0, SECOND_US / 2);
	check_range("us until the latest replacement", most_us, SECOND_US / 2,
		    SECOND_US + SECOND_US / 5);
}

/* A lost spare is replaced at once if the server that serves is also lost, and soon if that server
 * hangs and IDs are needed. */
static void check_replaces_at_once(guint fault)
{
	gint64 limit_us = fault == SERVER_DIES ? SECOND_US / 20 : SECOND_US * 4 / 10;
	guint n_measured = 0;

	add_servers(3);
	add_pool_with(ALL, 3, FALSE, 200, 300);
	for (guint round = 0; round < 20; round++) {
		guint first, spare, third;

		world_run_for(5 * SECOND_US);
		first = find_first();
		spare = find_spare(first);
		third = 3 - first - spare;
		if (count_all() != 2) /* more IDs were needed for a moment */
			continue;
		n_measured++;
		set_fault(spare, SERVER_DIES);
		set_fault(first, fault);
		world_run_for(limit_us);
		check_range("connections to the third", pool_network_count_connections(third), 1,
			    1);
		set_fault(spare, SERVER_IS_HEALTHY);
		set_fault(first, SERVER_IS_HEALTHY);
	}
	check_range("replacements", n_measured, 5, 20);
}

/* Pools keep any two of three servers that have about the same latency. */
static void check_closes_any(guint argument G_GNUC_UNUSED)
{
	for (guint i = 0; i < 3; i++)
		sim_server_new(NEAR_US + 2 * i);
	for (guint i = 0; i < N_SPREAD; i++)
		add_even_pool(3);
	world_run_for(5 * SECOND_US);
	check_range("connections", count_all(), 2 * N_SPREAD, 2 * N_SPREAD + N_SPREAD / 2);
	for (guint i = 0; i < 3; i++)
		check_range("connections to one of three", pool_network_count_connections(i), 1,
			    N_SPREAD - 1);
}

/* Without takers, a pool tries another server in place of its spare every one or two minutes. */
static void check_rotates(guint fault)
{
	guint taken_s = 0;
	guint64 begun;
	SimPool *pool;

	add_servers(3);
	set_fault(2, SERVER_DIES);
	pool = add_pool(ALL, 3, FALSE);
	pool_set_idle(pool, TRUE);
	world_run_for(10 * SECOND_US);
	set_fault(2, fault);
	begun = pool_host(pool)->n_begun;
	for (guint second = 0; second < 3600; second++) {
		world_run_for(SECOND_US);
		taken_s += pool_network_count_connections(2);
		check_range("connections", count_all(), 2, 3);
	}
	if ((taken_s > 3600 / 10) != (fault == SERVER_IS_HEALTHY))
		world_fail("the third server was connected for %u s", taken_s);
	check_range("failovers", (gint64)count_failovers(pool), 0, 0);
	check_range("connections", (gint64)(pool_host(pool)->n_begun - begun), 3600 / 120,
		    3600 / 60);
}

/* Without a third server, the pool does not rotate. */
static void check_has_none_to_rotate(guint argument G_GNUC_UNUSED)
{
	SimPool *pool;

	add_servers(2);
	pool = add_pool(ALL, 2, FALSE);
	world_run_for(LONG_S * SECOND_US);
	check_range("connections", (gint64)pool_host(pool)->n_begun, 2, 2);
}

static const struct {
	void (*check)(guint argument);
	guint argument;
} CASES[] = {
	{check_comes_back, 1},
	{check_comes_back, 2},
	{check_comes_back, 3},
	{check_comes_back, 4},
	{check_one_stays_away, 0},
	{check_probes, 0},
	{check_probes, 1},
	{check_probes, 2},
	{check_probes, 3},
	{check_relay_wakes, SERVER_IS_HEALTHY}, /* batches */
	{check_relay_wakes, SERVER_IS_LEGACY},  /* single IDs */
	{check_gives_way, 0},
	{check_lists, 0},
	{check_twins, 0},
	{check_drains, 0},
	{check_replaces_later, 0},
	{check_replaces_at_once, SERVER_DIES},
	{check_replaces_at_once, SERVER_HANGS},
	{check_closes_any, 0},
	{check_rotates, SERVER_IS_HEALTHY},
	{check_rotates, SERVER_DRAINS},
	{check_rotates, SERVER_IS_UNFIT},
	{check_rotates, SERVER_DIES},
	{check_has_none_to_rotate, 0},
};

gboolean pool_connections_check(guint number)
{
	if (number >= G_N_ELEMENTS(CASES))
		return FALSE;
	CASES[number].check(CASES[number].argument);
	return TRUE;
}
