/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/reservation-record.h"
#include "tests/simulation/cluster.h"
#include "tests/simulation/driver.h"
#include "tests/simulation/ensemble.h"
#include "tests/simulation/issued.h"
#include "tests/simulation/sessions.h"

/*
 * Servers that register in ZooKeeper: what docs/uniqueness.md and docs/registration.md promise.
 */

#define LENGTH_US (900 * G_TIME_SPAN_SECOND)
#define IDLE_US   (120 * G_TIME_SPAN_SECOND)

static void end_well(void)
{
	cluster_calm();
	cluster_check_recovered(cluster_recovery_us());
	cluster_check_idle(IDLE_US);
	cluster_clear();
}

static void on_restore(gpointer data, guint64 tag)
{
	if (world_now_us() > LENGTH_US)
		return;
	cluster_restore(TRUE);
	world_after(world_between(30 * G_TIME_SPAN_SECOND, 200 * G_TIME_SPAN_SECOND), on_restore,
		    data, tag);
}

static void run_faults(const ClusterConfig *config)
{
	cluster_init(config);
	cluster_start(world_odds(0.5) ? 1000 : G_TIME_SPAN_SECOND);
	cluster_begin_faults(world_odds(0.3) ? 200 * G_TIME_SPAN_MILLISECOND
					     : 3 * G_TIME_SPAN_SECOND);
	if (world_odds(0.5))
		world_after(20 * G_TIME_SPAN_SECOND, on_restore, NULL, 0);
	world_run_until(WORLD_BEGIN_US + LENGTH_US);
	end_well();
}

/* Everything that can go wrong, without hands that break the conditions. */
static void run_everything(void)
{
	const ClusterConfig config = cluster_draw_config();

	run_faults(&config);
}

/* The same, for servers that are all started with the same --worker-id. */
static void run_same_worker_id(void)
{
	ClusterConfig config = cluster_draw_config();

	config.n_servers = (guint)world_between(2, 3);
	config.worker_id = world_between(0, 1);
	config.reclaim_odds = 0;
	run_faults(&config);
}

/* The same, where requests mostly arrive late, after others. */
static void run_late_requests(void)
{
	ClusterConfig config = cluster_draw_config();

	config.n_servers = (guint)world_between(2, 4);
	config.worker_bits = 1;
	cluster_init(&config);
	sessions_set_odds(0.01, 0.1, 0.95);
	cluster_start(1000);
	cluster_begin_faults(200 * G_TIME_SPAN_MILLISECOND);
	world_run_until(WORLD_BEGIN_US + LENGTH_US / 5);
	end_well();
}

/* Again and again: a backup, a server that is cut off until its worker ID goes to another whose
 * clock is ahead of its own, and the backup comes back, in which the worker ID is still the first
 * one's. */
static void run_lost_history(void)
{
	ClusterConfig config = cluster_draw_config();
	gint64 skew_ms = config.max_clock_skew_ms * 9 / 10;

	config.worker_bits = 1;
	config.n_servers = (guint)world_between(2, 4);
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
		/* until its reservation ends; or only its claim does, and others' clocks say more
		 */
		gint64 away_ms = world_odds(0.5) ? config.reservation_ms + world_between(0, 3000)
						 : config.session_timeout_ms * world_between(1, 3);
		gint64 away_us = away_ms * G_TIME_SPAN_MILLISECOND;

		world_run_until(world_now_us() + world_between(0, 30 * G_TIME_SPAN_SECOND));
		ensemble_back_up();
		if (world_odds(0.5))
			server_hold_up(victim, away_us);
		else
			sessions_cut(&victim->machine, away_us, FALSE);
		world_run_until(world_now_us() + away_us -
				world_between(0, MIN(away_us, 500 * G_TIME_SPAN_MILLISECOND)));
		sessions_cut(NULL, 100 * G_TIME_SPAN_MILLISECOND, FALSE);
		ensemble_restore();
		cluster_quarantine();
	}
	end_well();
}

static guint n_servers_lost(void)
{
	guint n = 0;

	for (guint i = 0; i < cluster_config()->n_servers; i++)
		n += cluster_n_lost(cluster_server(i));
	return n;
}

/* Connections break, also silently, sessions expire and leaders change, each for a moment: nobody
 * notices. Each server keeps its worker ID, and no draw is refused. */
static void run_short_outages(void)
{
	ClusterConfig config = cluster_draw_config();
	const Server *server;

	config.worker_bits = 3;
	config.n_servers = (guint)world_between(1, 4);
	config.reservation_ms = world_between(20000, 120000);
	config.session_timeout_ms = world_between(500, 1000);
	config.reclaim_odds = 0;
	cluster_init(&config);
	sessions_set_odds(0.0002, 0.4, 0);
	cluster_start(1000);
	world_run_until(world_now_us() + 15 * G_TIME_SPAN_SECOND);
	for (guint i = 0; i < 100; i++) {
		const WorldMachine *machine =
			world_odds(0.2) ? NULL : &cluster_any_server()->machine;
		gint64 for_us = world_between(0, G_TIME_SPAN_SECOND);

		if (world_odds(0.3))
			sessions_expire(machine);
		else
			sessions_cut(machine, for_us, world_odds(0.3));
		world_run_until(world_now_us() + world_between(3, 6) * G_TIME_SPAN_SECOND);
	}
	for (guint i = 0; i < config.n_servers; i++) {
		server = cluster_server(i);
		if (cluster_n_lost(server) > 0 || server->n_refused > 0)
			world_fail("%s has lost its worker ID %u times, and refused %u draws",
				   server->machine.name, cluster_n_lost(server), server->n_refused);
	}
	end_well();
}

/* Many servers start together, and nothing goes wrong: each gets a worker ID of its own at once. */
static void run_start_together(void)
{
	ClusterConfig config = cluster_draw_config();

	config.worker_bits = (guint)world_between(2, 3);
	config.n_servers = (guint)world_between(2, 1 << config.worker_bits);
	cluster_init(&config);
	sessions_set_odds(0, 0.4, 0.5);
	cluster_start(world_between(0, 20000));
	world_run_until(WORLD_BEGIN_US + 20 * G_TIME_SPAN_SECOND);
	if (cluster_n_serving() != config.n_servers)
		world_fail("%u of %u servers serve after 20 s", cluster_n_serving(),
			   config.n_servers);
	cluster_check_idle(IDLE_US);
	cluster_clear();
}

/* A server with another layout says so and ends; the others are not troubled. */
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
	ClusterConfig config = cluster_draw_config();
	gboolean has_said_so = FALSE;
	Server *stranger;

	config.n_servers = (guint)world_between(2, 4);
	config.worker_bits = 2;
	cluster_init(&config);
	stranger = cluster_server(config.n_servers - 1);
	stranger->config.layout = &OTHER;
	for (guint i = 0; i + 1 < config.n_servers; i++)
		server_start(cluster_server(i));
	world_run_until(world_now_us() + 5 * G_TIME_SPAN_SECOND);
	cluster_start(1000);
	for (guint i = 0; i < 40; i++) {
		world_run_until(world_now_us() + 500 * G_TIME_SPAN_MILLISECOND);
		if (stranger->is_up && generator_lease(stranger->generator) != NULL)
			world_fail("a server with another layout has got a worker ID");
		has_said_so |= stranger->ended_why != NULL &&
			       strstr(stranger->ended_why, "layout in ZooKeeper is") != NULL;
	}
	if (!has_said_so)
		world_fail("a server with another layout does not say so");
	stranger->config.layout = cluster_server(0)->config.layout;
	end_well();
}

/* What the documentation says of hands that break the conditions: it is detected. */

static void break_record(const char *path)
{
	const char *json = ensemble_read(path);
	g_auto(ReservationRecord) record = {0};
	g_autofree char *broken = NULL;

	g_assert_true(reservation_record_from_json(json, strlen(json), &record, NULL));
	switch (world_between(0, 4)) {
	case 0:
		ensemble_delete(path);
		return;
	case 3: /* as it was: a history that this server has not written */
		break;
	case 1: /* it ends sooner */
		record.end_tick -= world_between(1, 1000);
		break;
	case 2: /* it is another's */
		g_free(record.owner);
		record.owner = g_strdup("ffffffff-0000-4000-8000-000000000000");
		break;
	default:
		ensemble_write(path, "{}");
		return;
	}
	broken = reservation_record_to_json(&record);
	ensemble_write(path, broken);
}

/* A record that is edited or deleted under a running server: it finds out within a quarter of its
 * reservation, logs worker-lost and issues nothing more from that lease. */
static void run_edited_record(void)
{
	ClusterConfig config = cluster_draw_config();
	g_autofree char *path = cluster_reservation_path(0);
	const Lease *lease;
	Server *holder = NULL;

	config.n_servers = 2;
	config.reservation_ms = MAX(config.reservation_ms, 5000);
	cluster_init(&config);
	sessions_set_odds(0, 0, 0);
	cluster_start(1000);
	world_run_until(world_now_us() + 60 * G_TIME_SPAN_SECOND);
	for (guint i = 0; i < config.n_servers; i++) {
		lease = generator_lease(cluster_server(i)->generator);
		if (lease != NULL && lease->worker_id == 0)
			holder = cluster_server(i);
	}
	if (holder == NULL)
		world_fail("nobody has worker ID 0 after a minute");
	issued_set_lenient(TRUE);
	lease = generator_lease(holder->generator);
	world_note(NULL, "somebody breaks %s", path);
	break_record(path);
	world_run_until(world_now_us() +
			(config.reservation_ms / 4 + 2000) * G_TIME_SPAN_MILLISECOND);
	holder->machine.is_involved = TRUE;
	if (cluster_n_lost(holder) == 0)
		world_fail("%s has not found out that its record was broken", holder->machine.name);
	if (generator_lease(holder->generator) == lease)
		world_fail("%s goes on with a lease that it has lost", holder->machine.name);
	holder->machine.is_involved = FALSE;
	cluster_clear();
}

/* ZooKeeper is restored from a backup, and nobody quarantines: each server that runs, and has
 * written since the backup, finds out on its new connection. */
static void run_unguarded_restore(void)
{
	ClusterConfig config = cluster_draw_config();
	guint n_serving;

	config.worker_bits = 3;
	config.n_servers = (guint)world_between(1, 4);
	config.reservation_ms = MAX(config.reservation_ms, 20000);
	cluster_init(&config);
	sessions_set_odds(0, 0, 0);
	cluster_start(1000);
	world_run_until(world_now_us() + 30 * G_TIME_SPAN_SECOND);
	ensemble_back_up();
	world_run_until(world_now_us() + 40 * G_TIME_SPAN_SECOND);
	issued_set_lenient(TRUE);
	n_serving = cluster_n_serving();
	sessions_cut(NULL, 500 * G_TIME_SPAN_MILLISECOND, FALSE);
	ensemble_restore();
	world_run_until(world_now_us() +
			(5000 + 5 * config.session_timeout_ms) * G_TIME_SPAN_MILLISECOND);
	if (n_servers_lost() < n_serving)
		world_fail("%u of %u servers have found out that ZooKeeper was restored",
			   n_servers_lost(), n_serving);
	cluster_clear();
}

/* One server meets something at one step of its life, for every step and every such thing: its
 * requests and the answers to them. */

typedef enum {
	MEETS_DEATH,
	MEETS_SHORT_HOLD, /* its session lives on */
	MEETS_LONG_HOLD,  /* its session and its reservation end */
	MEETS_BROKEN_CONNECTION,
	MEETS_EXPIRY,
	MEETS_RAISED_FLOOR,
	MEETS_RESTORE,
	N_MEETINGS,
} Meeting;

static struct {
	guint step; /* when it happens */
	Meeting meeting;
	guint n_steps; /* so far */
} life;

static void meet(Server *self)
{
	switch (life.meeting) {
	case MEETS_DEATH:
		server_kill(self, 300 * G_TIME_SPAN_MILLISECOND);
		break;
	case MEETS_SHORT_HOLD:
		server_hold_up(self, 400 * G_TIME_SPAN_MILLISECOND);
		break;
	case MEETS_LONG_HOLD:
		server_hold_up(self, 12 * G_TIME_SPAN_SECOND);
		break;
	case MEETS_BROKEN_CONNECTION:
		sessions_cut(&self->machine, 100 * G_TIME_SPAN_MILLISECOND, FALSE);
		break;
	case MEETS_EXPIRY:
		sessions_expire(&self->machine);
		break;
	case MEETS_RAISED_FLOOR:
		cluster_quarantine();
		break;
	case MEETS_RESTORE:
		sessions_cut(NULL, 100 * G_TIME_SPAN_MILLISECOND, FALSE);
		if (ensemble_has_backup())
			ensemble_restore();
		cluster_quarantine();
		break;
	case N_MEETINGS:
		break;
	}
}

static void on_life_step(WorldMachine *machine, WorldStep step)
{
	Server *self = (Server *)machine;

	if (step == WORLD_STEP_OUTSIDE && self->number == 0 && self->depth == 1 &&
	    life.n_steps++ == life.step)
		meet(self);
}

static void live_for(gint64 ms)
{
	world_run_until(world_now_us() + ms * G_TIME_SPAN_MILLISECOND);
}

static gboolean run_life(guint number)
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
		.skips_sanity_checks = TRUE,
		.draws = TRUE,
	};
	Server *self;

	life.step = number / N_MEETINGS;
	life.meeting = number % N_MEETINGS;
	life.n_steps = 0;
	cluster_init(&config);
	self = cluster_server(0);
	world_set_stepped(on_life_step);
	cluster_start(1000);
	live_for(600);
	ensemble_back_up();
	live_for(1500);
	sessions_cut(&self->machine, 50 * G_TIME_SPAN_MILLISECOND, FALSE);
	live_for(700);
	sessions_expire(&self->machine);
	live_for(700);
	self->machine.wall_offset_ns -= 100 * G_GINT64_CONSTANT(1000000); /* it reclaims */
	live_for(1000);
	server_stop(self, 1000, 200 * G_TIME_SPAN_MILLISECOND);
	live_for(2500);
	if (life.n_steps <= life.step)
		return FALSE;
	cluster_calm();
	/* a raised floor, and a reservation of before the hold, end within that */
	cluster_check_recovered(40 * G_TIME_SPAN_SECOND);
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
		{.name = "short-outages", .draw = run_short_outages},
		{.name = "start-together", .draw = run_start_together},
		{.name = "other-layout", .draw = run_other_layout},
		{.name = "edited-record", .draw = run_edited_record},
		{.name = "unguarded-restore", .draw = run_unguarded_restore},
		{.name = "each-step", .step = run_life},
		{0},
	};

	return driver_main(argc, argv, "simulation-zookeeper", SCENARIOS);
}
