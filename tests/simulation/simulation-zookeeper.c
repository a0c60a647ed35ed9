/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/reservation-record.h"
#include "common/zookeeper/znodes.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/driver.h"
#include "tests/simulation/ensemble.h"
#include "tests/simulation/issued.h"
#include "tests/simulation/sessions.h"

/*
 * Tests servers that register in ZooKeeper against the guarantees of docs/explanation/uniqueness.md
 * and docs/internals/registration.md.
 */

#define LENGTH_US SECONDS(900)
#define IDLE_US   SECONDS(120)
#define HOUR_MS   G_GINT64_CONSTANT(3600000)

/* Number of requests of a server while ZooKeeper answers none: two tries, of three requests
 * each. */
#define MAX_TRIES_PER_S 6

static ClusterConfig draw_config(guint worker_bits, gint64 least_servers, gint64 most_servers)
{
	ClusterConfig config = cluster_draw_config();

	config.worker_bits = worker_bits;
	config.n_servers = (guint)world_between(least_servers, most_servers);
	return config;
}

/* Starts the first @n servers, and waits until they have worker IDs. No fault occurs. */
static void start_undisturbed(const ClusterConfig *config, guint n)
{
	cluster_init(config);
	sessions_set_odds(0, 0.4, 0.5);
	for (guint i = 0; i < n; i++)
		server_start(cluster_server(i));
	cluster_start_draws();
	world_run_for(SECONDS(40));
}

static void check_serving(Server *server, const char *when)
{
	g_autofree char *why = server_why_not_serving(server);

	if (why != NULL)
		world_fail_machine(&server->machine, "does not serve %s: %s", when, why);
}

/* Fails unless the first @n servers serve, and have never lost their worker IDs. */
static void check_undisturbed(guint n)
{
	for (guint i = 0; i < n; i++) {
		Server *server = cluster_server(i);

		check_serving(server, "undisturbed");
		if (cluster_n_lost(server) > 0)
			world_fail_machine(&server->machine, "has lost its worker ID");
	}
}

static void end_scenario(void)
{
	cluster_end_faults();
	cluster_check_recovered(cluster_recovery_us());
	cluster_check_idle(IDLE_US);
	cluster_clear();
}

static void on_restore(gpointer data, guint64 tag)
{
	if (world_now_us() > LENGTH_US)
		return;
	cluster_restore(TRUE);
	world_after(world_between(SECONDS(30), SECONDS(200)), on_restore, data, tag);
}

static void run_faults(const ClusterConfig *config)
{
	cluster_init(config);
	cluster_start(world_odds(0.5) ? 1000 : SECONDS(1));
	cluster_begin_faults(world_odds(0.3) ? MS(200) : SECONDS(3));
	if (world_odds(0.5))
		world_after(SECONDS(20), on_restore, NULL, 0);
	world_run_until(WORLD_BEGIN_US + LENGTH_US);
	end_scenario();
}

/* All faults, except operator errors that the documentation excludes. */
static void run_everything(void)
{
	const ClusterConfig config = cluster_draw_config();

	run_faults(&config);
}

/* All faults, for servers that are started with the same --worker-id. */
static void run_same_worker_id(void)
{
	ClusterConfig config = cluster_draw_config();

	config.n_servers = (guint)world_between(2, 3);
	config.worker_id = world_between(0, 1);
	config.reclaim_odds = 0;
	run_faults(&config);
}

/* All faults, with requests that mostly arrive late, after newer ones. */
static void run_late_requests(void)
{
	ClusterConfig config = draw_config(1, 2, 4);

	cluster_init(&config);
	sessions_set_odds(0.01, 0.1, 0.95);
	cluster_start(1000);
	cluster_begin_faults(MS(200));
	world_run_until(WORLD_BEGIN_US + LENGTH_US / 5);
	end_scenario();
}

/* Restores from old backups. After each backup, a server is cut off until its worker ID goes to a
 * server whose clock is ahead. Then the backup is restored, in which the first server still has the
 * worker ID. */
static void run_lost_history(void)
{
	ClusterConfig config = draw_config(1, 2, 4);
	gint64 skew_ms = config.max_clock_skew_ms * 9 / 10;

	config.reservation_ms = world_scaled(1000, 20000);
	config.session_timeout_ms = world_between(500, 2000);
	config.skips_sanity_checks = TRUE;
	cluster_init(&config);
	for (guint i = 0; i < config.n_servers; i++)
		cluster_server(i)->machine.wall_offset_ns =
			(i % 2 == 0 ? -1 : 1) * world_between(0, skew_ms) * 1000000;
	cluster_start(1000);
	for (guint i = 0; i < 20; i++) {
		Server *victim = cluster_any_server();
		/* until the end of its reservation; or the end of its claim, with which other
		 * clocks can see the end of its reservation, too */
		gint64 away_ms = world_odds(0.5) ? config.reservation_ms + world_between(0, 3000)
						 : config.session_timeout_ms * world_between(1, 3);
		gint64 away_us = MS(away_ms);

		/* the first backup may be from before the datacenter existed */
		world_run_for(i == 0 ? world_scaled(MS(1), SECONDS(30))
				     : world_between(0, SECONDS(30)));
		cluster_back_up();
		if (world_odds(0.5))
			server_pause(victim, away_us);
		else
			sessions_cut(&victim->machine, away_us, FALSE);
		world_run_for(away_us - world_between(0, MIN(away_us, MS(500))));
		sessions_cut(NULL, MS(100), FALSE);
		if (ensemble_has_backup())
			ensemble_restore();
		cluster_quarantine();
	}
	end_scenario();
}

/* Creates a registry without a datacenter, as snowflakectl registry init does, and backs it up. */
static void create_registry(void)
{
	const ZnodeHistory history = znode_history_of("history 0");
	g_autofree char *registry = cluster_path("registry"), *layout = cluster_path("layout");
	g_autofree char *identity =
		znode_registry_to_json("7d4e1c0a-5f3b-4c57-9a25-0f1e2d3c4b5a", &history);
	g_autofree char *json = znode_layout_to_json(cluster_server(0)->config.layout);

	ensemble_write(registry, identity);
	ensemble_write(layout, json);
	ensemble_back_up();
}

/* Fails over to a standby that lacks the last commits, as run_lost_history() restores backups: but
 * the servers themselves raise the floor. */
static void run_failovers(void)
{
	ClusterConfig config = draw_config((guint)world_between(1, 2), 2, 5);
	gboolean lacks_datacenter;
	gint64 skew_ms = config.max_clock_skew_ms * 9 / 10;

	config.has_history = TRUE;
	config.reservation_ms = world_scaled(1000, 20000);
	config.session_timeout_ms = world_between(500, 2000);
	config.skips_sanity_checks = TRUE;
	cluster_init(&config);
	for (guint i = 0; i < config.n_servers; i++)
		cluster_server(i)->machine.wall_offset_ns =
			(i % 2 == 0 ? -1 : 1) * world_between(0, skew_ms) * 1000000;
	lacks_datacenter = world_odds(0.5);
	if (lacks_datacenter)
		create_registry();
	cluster_start(1000);
	for (guint i = 0; i < 20; i++) {
		Server *victim = cluster_any_server();
		gint64 lag_ms = world_odds(0.5) ? config.reservation_ms + world_between(0, 3000)
						: world_scaled(1, 5000);

		world_run_for(i == 0 ? world_scaled(MS(1), SECONDS(30))
				     : world_between(0, SECONDS(30)));
		if (i > 0 || !lacks_datacenter)
			cluster_back_up();
		if (world_odds(0.3))
			server_pause(victim, MS(lag_ms));
		else if (world_odds(0.5))
			sessions_cut(&victim->machine, MS(lag_ms), FALSE);
		else if (world_odds(0.3))
			server_kill(victim, world_between(0, MS(500)));
		world_run_for(MS(lag_ms) - world_between(0, MIN(MS(lag_ms), MS(500))));
		cluster_fail_over();
	}
	end_scenario();
}

static void on_fail_over(gpointer data, guint64 tag)
{
	if (world_now_us() > LENGTH_US)
		return;
	cluster_fail_over();
	world_after(world_between(SECONDS(30), SECONDS(200)), on_fail_over, data, tag);
}

/* All faults, and failovers that lose commits. */
static void run_faults_and_failovers(void)
{
	ClusterConfig config = cluster_draw_config();

	config.has_history = TRUE;
	cluster_init(&config);
	cluster_start(world_odds(0.5) ? 1000 : SECONDS(1));
	cluster_begin_faults(world_odds(0.3) ? MS(200) : SECONDS(3));
	world_after(SECONDS(20), on_fail_over, NULL, 0);
	world_run_until(WORLD_BEGIN_US + LENGTH_US);
	end_scenario();
}

static guint count_lost(void)
{
	guint n = 0;

	for (guint i = 0; i < cluster_config()->n_servers; i++)
		n += cluster_n_lost(cluster_server(i));
	return n;
}

/* Short outages: connections break, sometimes silently, and sessions expire. Each server keeps its
 * worker ID, and no draw is refused. */
static void run_short_outages(void)
{
	ClusterConfig config = draw_config(3, 1, 4);

	config.reservation_ms = world_between(20000, 120000);
	config.session_timeout_ms = world_between(500, 1000);
	config.reclaim_odds = 0;
	cluster_init(&config);
	sessions_set_odds(0.0002, 0.4, 0);
	cluster_start(1000);
	world_run_for(SECONDS(15));
	for (guint i = 0; i < 100; i++) {
		const WorldMachine *machine =
			world_odds(0.2) ? NULL : &cluster_any_server()->machine;
		gint64 for_us = world_between(0, SECONDS(1));

		if (world_odds(0.3))
			sessions_expire(machine);
		else
			sessions_cut(machine, for_us, world_odds(0.3));
		world_run_for(SECONDS(world_between(3, 6)));
	}
	for (guint i = 0; i < config.n_servers; i++) {
		Server *server = cluster_server(i);

		if (cluster_n_lost(server) > 0 || server->n_refused > 0)
			world_fail_machine(&server->machine,
					   "has lost its worker ID %u times, and refused %u draws",
					   cluster_n_lost(server), server->n_refused);
	}
	end_scenario();
}

static void check_limits(const ClusterConfig *config)
{
	g_autofree char *path = cluster_path("limits");
	const char *json = ensemble_read(path);
	ZnodeLimits limits = {0};

	if (json == NULL || !znode_limits_from_json(json, strlen(json), &limits, NULL) ||
	    limits.reservation_ms != config->reservation_ms ||
	    limits.max_clock_skew_ms != config->max_clock_skew_ms)
		world_fail("%s are not the largest limits of all servers: %s", path, json);
}

/* Many servers start together without faults: each gets its own worker ID at once. */
static void run_start_together(void)
{
	ClusterConfig config = cluster_draw_config();

	config.worker_bits = (guint)world_between(2, 3);
	config.n_servers = (guint)world_between(2, 1 << config.worker_bits);
	cluster_init(&config);
	for (guint i = 0; i < config.n_servers; i++) {
		cluster_server(i)->config.reservation_ms -= i;
		cluster_server(i)->config.max_clock_skew_ms -= config.n_servers - 1 - i;
	}
	sessions_set_odds(0, 0.4, 0.5);
	cluster_start(world_between(0, 20000));
	world_run_until(WORLD_BEGIN_US + SECONDS(20));
	check_limits(&config);
	if (cluster_n_serving() != config.n_servers)
		world_fail("%u of %u servers serve after 20 s", cluster_n_serving(),
			   config.n_servers);
	cluster_check_idle(IDLE_US);
	cluster_clear();
}

/* A server with another layout logs that and ends. The other servers keep serving. */
static void run_other_layout(void)
{
	static const Layout OTHER = {
		.epoch_ms = 1288834974657,
		.tick_ms = 1,
		.time_bits = 41,
		.datacenter_bits = 4,
		.worker_bits = 5,
		.sequence_bits = 12,
	};
	ClusterConfig config = draw_config(2, 2, 4);
	gboolean was_logged = FALSE;
	Server *stranger;

	cluster_init(&config);
	stranger = cluster_server(config.n_servers - 1);
	stranger->config.layout = &OTHER;
	for (guint i = 0; i + 1 < config.n_servers; i++)
		server_start(cluster_server(i));
	world_run_for(SECONDS(5));
	cluster_start(1000);
	for (guint i = 0; i < 40; i++) {
		world_run_for(MS(500));
		if (stranger->is_up && generator_lease(stranger->generator) != NULL)
			world_fail("a server with another layout has got a worker ID");
		was_logged |= stranger->ended_why != NULL &&
			      strstr(stranger->ended_why, "layout in ZooKeeper is") != NULL;
	}
	if (!was_logged)
		world_fail("a server with another layout does not log that");
	stranger->config.layout = cluster_server(0)->config.layout;
	end_scenario();
}

/* Servers without --create-registry write nothing while there is no registry, from the start or
 * after it was deleted. They serve when there is one. */
static void run_no_registry(void)
{
	ClusterConfig config = draw_config(3, 1, 4);
	gboolean is_start = world_odds(0.5);
	g_autofree char *path = cluster_path("layout"), *json = NULL;
	guint64 n_commits;

	config.creates_registry = FALSE;
	cluster_init(&config);
	json = znode_layout_to_json(cluster_server(0)->config.layout);
	if (!is_start) {
		ensemble_write(path, json);
		cluster_start(1000);
		world_run_for(SECONDS(40));
		sessions_cut(NULL, world_scaled(1000, SECONDS(10)), FALSE);
		ensemble_delete(CLUSTER_ROOT);
	} else {
		cluster_start(1000);
	}
	n_commits = cluster_n_commits();
	/* all reservations of the lost history end */
	world_run_for(MS(config.reservation_ms + config.max_clock_skew_ms) + SECONDS(30));
	if (cluster_n_commits() != n_commits)
		world_fail("something is written without a registry");
	for (guint i = 0; i < config.n_servers; i++)
		if (cluster_server(i)->is_up &&
		    generator_lease(cluster_server(i)->generator) != NULL)
			world_fail_machine(&cluster_server(i)->machine,
					   "has a worker ID without a registry");
	ensemble_write(path, json);
	end_scenario();
}

/* Operator errors that the documentation says are detected */

#define STRANGER "ffffffff-0000-4000-8000-000000000000" /* a nonce of no server */

static void read_record(const char *path, ReservationRecord *out_record)
{
	const char *json = ensemble_read(path);

	g_assert_true(reservation_record_from_json(json, strlen(json), out_record, NULL));
}

static void write_record(const char *path, const ReservationRecord *record)
{
	g_autofree char *json = reservation_record_to_json(record);

	ensemble_write(path, json);
}

/* Returns: what the log must say */
static const char *break_record(const char *path)
{
	g_auto(ReservationRecord) record = {0};
	const char *why = "was ZooKeeper restored from a backup";

	read_record(path, &record);
	switch (world_between(0, 4)) {
	case 0:
		ensemble_delete(path);
		return "is missing or damaged";
	case 1: /* it ends sooner */
		record.end_tick -= world_between(1, 1000);
		break;
	case 2: /* another owner */
		g_free(record.owner);
		record.owner = g_strdup(STRANGER);
		why = "owner " STRANGER;
		break;
	case 3: /* the same text, in a version that this server has not written */
		break;
	default:
		ensemble_write(path, "{}");
		return "damaged";
	}
	write_record(path, &record);
	return why;
}

/* A record is edited or deleted while its server runs. The server detects it within a quarter of
 * its reservation, logs worker-lost and issues no more IDs from that lease. */
static void run_edited_record(void)
{
	ClusterConfig config = cluster_draw_config();
	g_autofree char *path = cluster_reservation_path(0);
	const Lease *lease;
	const char *why;
	Server *holder = NULL;

	config.n_servers = 2;
	config.reservation_ms = MAX(config.reservation_ms, 5000);
	cluster_init(&config);
	sessions_set_odds(0, 0, 0);
	cluster_start(1000);
	world_run_for(SECONDS(60));
	for (guint i = 0; holder == NULL && i < config.n_servers; i++) {
		lease = generator_lease(cluster_server(i)->generator);
		if (lease != NULL && lease->worker_id == 0)
			holder = cluster_server(i);
	}
	if (holder == NULL)
		world_fail("no server has worker ID 0 after a minute");
	issued_set_lenient(TRUE);
	world_note(NULL, "an operator breaks %s", path);
	why = break_record(path);
	/* the holder meets it on a new connection; or else with its next extension */
	if (world_odds(0.5))
		sessions_cut(&holder->machine, 0, FALSE);
	world_run_for(MS(config.reservation_ms / 4 + 2000));
	cluster_check_lost(holder, why);
	if (generator_lease(holder->generator) == lease)
		world_fail_machine(&holder->machine, "goes on with a lease that it has lost");
	cluster_clear();
}

/* ZooKeeper is restored from a backup without a quarantine. Each server that has written since the
 * backup detects it on its new connection. */
static void run_unguarded_restore(void)
{
	ClusterConfig config = draw_config(3, 1, 4);
	guint n_serving;

	config.reservation_ms = MAX(config.reservation_ms, 20000);
	cluster_init(&config);
	sessions_set_odds(0, 0, 0);
	cluster_start(1000);
	world_run_for(SECONDS(30));
	ensemble_back_up();
	world_run_for(SECONDS(40));
	issued_set_lenient(TRUE);
	n_serving = cluster_n_serving();
	sessions_cut(NULL, MS(500), FALSE);
	ensemble_restore();
	world_run_for(MS(5000 + 5 * config.session_timeout_ms));
	if (count_lost() < n_serving)
		world_fail("%u of %u servers have detected that ZooKeeper was restored",
			   count_lost(), n_serving);
	cluster_clear();
}

/* An operator raises the floor while servers run. The servers keep serving, although their
 * reservations end below it. A server that starts waits. */
static void run_quarantine(void)
{
	ClusterConfig config = draw_config(3, 2, 5);
	Server *late;

	start_undisturbed(&config, config.n_servers - 1);
	cluster_quarantine();
	late = cluster_server(config.n_servers - 1);
	server_start(late);
	world_run_for(SECONDS(8));
	if (generator_lease(late->generator) != NULL)
		world_fail_machine(&late->machine, "has not waited for the floor");
	if (cluster_last_warning(late) != LOG_WORKER_WAITING)
		world_fail_machine(&late->machine, "does not log that it waits for the floor");
	world_run_for(MS(60000 + config.reservation_ms));
	check_undisturbed(config.n_servers - 1);
	end_scenario();
}

/* A floor that was deleted and made again has the version that servers know. A server that was
 * disconnected meanwhile must still detect it: its worker ID may have had another owner. */
static void run_recreated_floor(void)
{
	ClusterConfig config = draw_config(3, 1, 3);
	g_autofree char *path = znode_in_datacenter(CLUSTER_ROOT, CLUSTER_DATACENTER, ZNODES_FLOOR),
			*floor = NULL;
	Server *away;

	config.reservation_ms = 5000;
	config.session_timeout_ms = world_between(500, 3000);
	start_undisturbed(&config, config.n_servers);
	away = cluster_server(0);
	sessions_cut(&away->machine, MS(500), FALSE);
	cluster_quarantine();
	floor = g_strdup(ensemble_read(path));
	ensemble_delete(path);
	ensemble_write(path, floor);
	world_run_for(SECONDS(15));
	cluster_check_lost(away, "quarantined");
	end_scenario();
}

/* A server whose clock is far ahead of ZooKeeper's loses its worker ID, and claims no other. */
static void check_claims_nothing(const ClusterConfig *config, Server *server)
{
	const Lease *lease = generator_lease(server->generator);
	g_autofree char *path = cluster_reservation_path(lease->worker_id);
	g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);
	g_auto(ReservationRecord) record = {0};

	read_record(path, &record);
	write_record(path, &record); /* in a version that the server has not written */
	for (guint id = 0; id < 1u << config->worker_bits; id++) {
		g_autofree char *of_id = cluster_reservation_path(id);

		g_ptr_array_add(texts, g_strdup(ensemble_read(of_id)));
	}
	sessions_cut(&server->machine, 0, FALSE);
	world_run_for(SECONDS(30));
	cluster_check_lost(server, "was ZooKeeper restored from a backup");
	for (guint id = 0; id < texts->len; id++) {
		g_autofree char *of_id = cluster_reservation_path(id);

		if (g_strcmp0(ensemble_read(of_id), texts->pdata[id]) != 0)
			world_fail("%s is written while ZooKeeper's clock is behind", of_id);
	}
}

/* ZooKeeper's clock is an hour off. If it is ahead, the servers do not follow it. If it is behind,
 * they can neither extend nor claim again, and the log says why. */
static void run_zookeeper_clock(void)
{
	ClusterConfig config = draw_config(3, 1, 4);
	gboolean is_ahead = world_odds(0.5);

	config.reservation_ms = world_between(1000, 5000);
	start_undisturbed(&config, config.n_servers);
	ensemble_set_clock((is_ahead ? 1 : -1) * HOUR_MS);
	world_run_for(SECONDS(60));
	for (guint i = 0; i < config.n_servers; i++) {
		Server *server = cluster_server(i);
		g_autofree char *why = server_why_not_serving(server);

		if (is_ahead != (why == NULL))
			world_fail_machine(&server->machine, "while ZooKeeper's clock is %s: %s",
					   is_ahead ? "ahead" : "behind",
					   why != NULL ? why : "it serves");
		if (cluster_last_warning(server) == LOG_N_EVENTS)
			world_fail_machine(&server->machine, "does not log that the clocks differ");
	}
	if (!is_ahead)
		check_claims_nothing(&config, cluster_server(0));
	end_scenario();
}

/* A server that has not served yet ends if it is disconnected for too long. The time counts from
 * the loss of the connection. */
static void run_slow_connection(void)
{
	ClusterConfig config = draw_config(1, 3, 3);
	gboolean was_logged = FALSE;
	Server *waiting = NULL;
	guint n_starts;

	start_undisturbed(&config, config.n_servers);
	for (guint i = 0; i < config.n_servers; i++)
		if (generator_lease(cluster_server(i)->generator) == NULL)
			waiting = cluster_server(i);
	g_assert_nonnull(waiting);
	n_starts = waiting->n_starts;
	sessions_cut(&waiting->machine, SECONDS(15), FALSE);
	world_run_for(SECONDS(25));
	if (waiting->n_starts != n_starts || !waiting->is_up)
		world_fail_machine(&waiting->machine, "has not waited for a connection");
	sessions_cut(&waiting->machine, SECONDS(40), FALSE);
	for (guint i = 0; i < 400; i++) {
		world_run_for(MS(100));
		was_logged |= waiting->ended_why != NULL &&
			      strstr(waiting->ended_why, "no connection to ZooKeeper") != NULL;
	}
	if (!was_logged)
		world_fail_machine(&waiting->machine, "does not end without a connection");
	end_scenario();
}

/* A server that waits for its worker ID gets it as soon as the holder releases it, even if the
 * session of the waiting server has expired. */
static void run_released_worker_id(void)
{
	ClusterConfig config = cluster_draw_config();
	guint holder = 0;

	config.n_servers = 2;
	config.worker_id = 0;
	config.reservation_ms = 60000;
	start_undisturbed(&config, 2);
	if (generator_lease(cluster_server(0)->generator) == NULL)
		holder = 1;
	if (world_odds(0.5)) {
		sessions_expire(&cluster_server(1 - holder)->machine);
		world_run_for(SECONDS(5));
	}
	cluster_server(holder)->stays_down = TRUE;
	server_stop(cluster_server(holder), 3000, WORLD_NEVER_US);
	world_run_for(SECONDS(15));
	check_serving(cluster_server(1 - holder), "after it has waited");
	cluster_clear();
}

/* A server waits for the worker ID of an owner that does not answer. It gets the worker ID when the
 * owner's claim is gone. */
static void run_silent_claim(void)
{
	ClusterConfig config = cluster_draw_config();
	g_autofree char *path = cluster_reservation_path(0);
	g_autofree char *claims =
		znode_in_datacenter(CLUSTER_ROOT, CLUSTER_DATACENTER, ZNODES_CLAIMS);
	g_autofree char *claim = g_strdup_printf("%s/claim-" STRANGER "-0000000099", claims);
	g_auto(ReservationRecord) record = {0};
	Server *server;

	config.n_servers = 1;
	config.worker_id = 0;
	config.reclaim_odds = 0;
	start_undisturbed(&config, 1);
	server = cluster_server(0);
	server->stays_down = TRUE;
	server_stop(server, 3000, WORLD_NEVER_US);
	world_run_for(MS(config.reservation_ms + 10000));
	read_record(path, &record);
	g_free(record.owner);
	record.owner = g_strdup(STRANGER);
	ensemble_write(claim, "{}");
	write_record(path, &record);
	server->stays_down = FALSE;
	server_start(server);
	world_run_for(SECONDS(30));
	if (generator_lease(server->generator) != NULL)
		world_fail_machine(&server->machine, "does not wait for the owner of %s", path);
	ensemble_delete(claim);
	world_run_for(SECONDS(8));
	check_serving(server, "after the claim has gone");
	cluster_clear();
}

/* The layout in ZooKeeper is changed while the servers are disconnected. They log that and write
 * nothing until it is right again. */
static void run_changed_layout(void)
{
	ClusterConfig config = draw_config(3, 1, 4);
	g_autofree char *path = cluster_path("layout"), *before = NULL, *other = NULL;
	Layout layout;
	guint64 n_commits;

	start_undisturbed(&config, config.n_servers);
	before = g_strdup(ensemble_read(path));
	layout = *cluster_server(0)->config.layout;
	layout.worker_bits++;
	layout.sequence_bits--;
	other = znode_layout_to_json(&layout);
	sessions_set_odds(0, 1, 0);
	sessions_cut(NULL, world_scaled(1000, SECONDS(10)), FALSE);
	ensemble_write(path, other);
	n_commits = cluster_n_commits();
	world_run_for(SECONDS(60));
	if (cluster_n_commits() != n_commits)
		world_fail("something is written below another layout");
	for (guint i = 0; i < config.n_servers; i++)
		if (cluster_last_warning(cluster_server(i)) == LOG_N_EVENTS)
			world_fail_machine(&cluster_server(i)->machine,
					   "does not log that the layout differs");
	ensemble_write(path, before);
	end_scenario();
}

/* ZooKeeper fails each request with an error that leaves the outcome open. The servers retry with a
 * backoff. */
static void run_no_answers(void)
{
	ClusterConfig config = draw_config(3, 1, 4);
	gboolean is_start = world_odds(0.5);
	guint64 n_requests, most;

	start_undisturbed(&config, is_start ? 0 : config.n_servers);
	n_requests = sessions_counts().requests;
	sessions_set_odds(1, 0.4, 0.5);
	for (guint i = 0; i < config.n_servers; i++)
		server_start(cluster_server(i));
	world_run_for(SECONDS(15));
	most = config.n_servers * 15 * MAX_TRIES_PER_S;
	if (sessions_counts().requests - n_requests > most)
		world_fail("%" G_GUINT64_FORMAT " requests in 15 s, of %u servers",
			   sessions_counts().requests - n_requests, config.n_servers);
	sessions_set_odds(0, 0.4, 0.5);
	end_scenario();
}

#define OPEN_ERROR_TEXT "repeatedly returns error -120"

/* Fails unless the servers show the error that ZooKeeper returns. */
static void check_open_error_is_shown(const ClusterConfig *config)
{
	for (guint i = 0; i < config->n_servers; i++) {
		Server *server = cluster_server(i);
		g_autofree char *why = server_why_not_serving(server);

		if (why == NULL || strstr(why, OPEN_ERROR_TEXT) == NULL)
			world_fail_machine(&server->machine, "does not show the error: %s",
					   why != NULL ? why : "it serves");
		if (cluster_last_warning(server) == LOG_N_EVENTS)
			world_fail_machine(&server->machine, "does not log the error");
	}
}

/* Fails if a server shows the error although it has another reason not to serve. */
static void check_open_error_is_forgotten(const ClusterConfig *config)
{
	for (guint i = 0; i < config->n_servers; i++) {
		Server *server = cluster_server(i);
		g_autofree char *why = server_why_not_serving(server);

		if (why != NULL && strstr(why, OPEN_ERROR_TEXT) != NULL)
			world_fail_machine(&server->machine, "still shows the error: %s", why);
	}
}

/* ZooKeeper answers each request, or each that creates an ephemeral znode, with an error that is
 * not about the connection. The servers show the error until ZooKeeper answers as usual or is
 * lost. Then they serve, or wait for a worker ID. */
static void run_open_errors(void)
{
	ClusterConfig config = draw_config(3, 1, 4);
	gboolean is_start = world_odds(0.5);

	config.reservation_ms = MIN(config.reservation_ms, 20000);
	start_undisturbed(&config, is_start ? 0 : config.n_servers);
	sessions_set_open_errors(1, is_start && world_odds(0.5));
	for (guint i = 0; i < config.n_servers; i++)
		server_start(cluster_server(i));
	world_run_for(MS(config.reservation_ms) + SECONDS(15));
	check_open_error_is_shown(&config);
	if (world_odds(0.3)) {
		sessions_cut(NULL, SECONDS(20), FALSE);
	} else {
		sessions_set_open_errors(0, FALSE);
	}
	world_run_for(SECONDS(10));
	check_open_error_is_forgotten(&config);
	sessions_set_open_errors(0, FALSE);
	end_scenario();
}

/* All faults, and occasional errors that leave open whether the request was executed. */
static void run_rare_open_errors(void)
{
	const ClusterConfig config = cluster_draw_config();

	cluster_init(&config);
	sessions_set_open_errors((gdouble)world_scaled(1, 100) / 1000, FALSE);
	cluster_start(1000);
	cluster_begin_faults(SECONDS(1));
	world_run_until(WORLD_BEGIN_US + LENGTH_US / 5);
	sessions_set_open_errors(0, FALSE);
	end_scenario();
}

/* A claim that was deleted is created again long before the next extension, and the worker ID is
 * kept. */
static void run_deleted_claims(void)
{
	ClusterConfig config = draw_config(3, 1, 6);
	g_autofree char *path =
		znode_in_datacenter(CLUSTER_ROOT, CLUSTER_DATACENTER, ZNODES_CLAIMS);

	config.reservation_ms = 60000;
	config.reclaim_odds = 0;
	start_undisturbed(&config, config.n_servers);
	for (guint i = 0; i < 5; i++) {
		g_autoptr(GPtrArray) paths = NULL;

		ensemble_delete_claims(1);
		world_run_for(SECONDS(8));
		paths = ensemble_paths(path);
		if (paths->len != 1 + config.n_servers)
			world_fail("%u servers have %u claims", config.n_servers, paths->len - 1);
	}
	check_undisturbed(config.n_servers);
	end_scenario();
}

static void on_cut(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	sessions_cut(&((Server *)data)->machine, SECONDS(1), FALSE);
}

/* A server changes its worker ID, and cannot release the old one: it is quarantined. */
static void run_failed_release(void)
{
	ClusterConfig config = draw_config(2, 1, 1);
	g_autofree char *path = NULL;
	g_auto(ReservationRecord) record = {0};
	gboolean is_refused;
	Server *server;

	config.reservation_ms = 60000;
	config.reclaim_odds = 1;
	config.max_clock_skew_ms = 10000;
	start_undisturbed(&config, 1);
	server = cluster_server(0);
	path = cluster_reservation_path(generator_lease(server->generator)->worker_id);
	is_refused = world_odds(0.5);
	if (is_refused) /* only writes fail */
		ensemble_deny(path, ZOOKEEPER_REFUSED, world_now_us() + SECONDS(5));
	else /* the request or the reply is lost */
		world_after(world_between(0, MS(500)), on_cut, server, 0);
	server->machine.wall_offset_ns -= SECONDS(8) * 1000;
	world_run_for(SECONDS(30));
	read_record(path, &record);
	if (is_refused && *record.owner == '\0')
		world_fail("%s is released", path);
	check_undisturbed(1);
	end_scenario();
}

/* One disturbance at one checkpoint of a server: each kind of disturbance at each request and each
 * reply of a process. */

typedef enum {
	KILL,
	SHORT_PAUSE, /* its session survives */
	LONG_PAUSE,  /* its session and its reservation end */
	BROKEN_CONNECTION,
	EXPIRY,
	RAISED_FLOOR,
	RESTORE,
	N_DISTURBANCES,
} Disturbance;

static struct {
	guint step; /* the checkpoint of the disturbance */
	Disturbance disturbance;
	guint n_steps; /* checkpoints so far */
} planned;

static void disturb(Server *self)
{
	switch (planned.disturbance) {
	case KILL:
		server_kill(self, MS(300));
		break;
	case SHORT_PAUSE:
		server_pause(self, MS(400));
		break;
	case LONG_PAUSE:
		server_pause(self, SECONDS(12));
		break;
	case BROKEN_CONNECTION:
		sessions_cut(&self->machine, MS(100), FALSE);
		break;
	case EXPIRY:
		sessions_expire(&self->machine);
		break;
	case RAISED_FLOOR:
		cluster_quarantine();
		break;
	case RESTORE:
		sessions_cut(NULL, MS(100), FALSE);
		if (ensemble_has_backup())
			ensemble_restore();
		cluster_quarantine();
		break;
	case N_DISTURBANCES:
		break;
	}
}

static void on_life_checkpoint(WorldMachine *machine, WorldCheckpoint step)
{
	Server *self = (Server *)machine;

	if (step == WORLD_CHECKPOINT_OUTSIDE && self->number == 0 && self->depth == 1 &&
	    planned.n_steps++ == planned.step)
		disturb(self);
}

static gboolean run_each_checkpoint(guint number)
{
	const ClusterConfig config = {
		.n_servers = 3,
		.worker_bits = 1,
		.tick_ms = 1,
		.reservation_ms = 2000,
		.session_timeout_ms = 1000,
		.max_clock_skew_ms = 2000,
		.worker_id = -1,
		.reclaim_odds = 1,
		.creates_registry = TRUE,
		.skips_sanity_checks = TRUE,
		.draws = TRUE,
	};
	Server *self;

	planned.step = number / N_DISTURBANCES;
	planned.disturbance = number % N_DISTURBANCES;
	planned.n_steps = 0;
	cluster_init(&config);
	self = cluster_server(0);
	world_set_checkpoint_hook(on_life_checkpoint);
	cluster_start(1000);
	world_run_for(MS(600));
	ensemble_back_up();
	world_run_for(MS(1500));
	sessions_cut(&self->machine, MS(50), FALSE);
	world_run_for(MS(700));
	sessions_expire(&self->machine);
	world_run_for(MS(700));
	self->machine.wall_offset_ns -= 100 * G_GINT64_CONSTANT(1000000); /* it reclaims */
	world_run_for(SECONDS(1));
	server_stop(self, 1000, MS(200));
	world_run_for(MS(2500));
	if (planned.n_steps <= planned.step)
		return FALSE;
	cluster_end_faults();
	/* a raised floor, and a reservation from before the pause, end within that */
	cluster_check_recovered(SECONDS(40));
	cluster_clear();
	return TRUE;
}

int main(int argc, char **argv)
{
	static const DriverScenario SCENARIOS[] = {
		{.name = "everything", .draw = run_everything},
		{.name = "same-worker-id", .draw = run_same_worker_id},
		{.name = "late-requests", .draw = run_late_requests},
		{.name = "lost-history", .draw = run_lost_history},
		{.name = "failovers", .draw = run_failovers},
		{.name = "faults-and-failovers", .draw = run_faults_and_failovers},
		{.name = "short-outages", .draw = run_short_outages},
		{.name = "start-together", .draw = run_start_together},
		{.name = "other-layout", .draw = run_other_layout},
		{.name = "no-registry", .draw = run_no_registry},
		{.name = "edited-record", .draw = run_edited_record},
		{.name = "unguarded-restore", .draw = run_unguarded_restore},
		{.name = "quarantine", .draw = run_quarantine},
		{.name = "recreated-floor", .draw = run_recreated_floor},
		{.name = "zookeeper-clock", .draw = run_zookeeper_clock},
		{.name = "slow-connection", .draw = run_slow_connection},
		{.name = "released-worker-id", .draw = run_released_worker_id},
		{.name = "silent-claim", .draw = run_silent_claim},
		{.name = "changed-layout", .draw = run_changed_layout},
		{.name = "no-answers", .draw = run_no_answers},
		{.name = "open-errors", .draw = run_open_errors},
		{.name = "rare-open-errors", .draw = run_rare_open_errors},
		{.name = "deleted-claims", .draw = run_deleted_claims},
		{.name = "failed-release", .draw = run_failed_release},
		{.name = "each-step", .step = run_each_checkpoint},
		{0},
	};

	return driver_main(argc, argv, "simulation-zookeeper", SCENARIOS);
}
