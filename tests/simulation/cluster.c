/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/cluster.h"

#include <stdio.h>
#include <string.h>

#include "common/reservation-record.h"
#include "common/zookeeper/hosts.h"
#include "common/zookeeper/znodes.h"
#include "tests/simulation/driver.h"
#include "tests/simulation/ensemble.h"
#include "tests/simulation/issued.h"
#include "tests/simulation/sessions.h"
#include "worker/registration/peers.h"
#include "worker/registration/registration.h"
#include "worker/zookeeper/reach-probe.h"
#include "worker/zookeeper/store.h"

#define EPOCH_MS           G_GINT64_CONSTANT(1288834974657)
#define MAX_SERVERS        16
#define CONNECT_TIMEOUT_MS 20000
#define MAX_AHEAD_MS       10
#define MIN_ANSWER_US      500 /* minimum time until a peer answers */
#define N_FAULTS           23  /* number of kinds of do_fault() */

static struct {
	ClusterConfig config;
	Layout layout;
	Server servers[MAX_SERVERS];
	gboolean have_faults_ended;
	gint64 fault_mean_us;
	struct {
		guint n_starts;
		LogEvent event;
		guint n_lost;
		char *why_lost;
	} warnings[MAX_SERVERS];
	/* until this time, server @contradicting reports a wrong worker ID to its peers */
	gint64 contradicts_until_us;
	guint contradicting;
	GHashTable *floors; /* maps a nonce to the floor's tick at the last claim of that process */
	guint64 n_claims;
	guint64 n_commits; /* number of changes of znodes by servers */
	guint history;     /* number of the store's history */
} cluster;

/* Paths */

char *cluster_path(const char *name)
{
	return g_strdup_printf(CLUSTER_ROOT "/%s", name);
}

char *cluster_reservation_path(guint worker_id)
{
	return znode_reservation(CLUSTER_ROOT, CLUSTER_DATACENTER, worker_id);
}

static ZnodeFloor read_floor(void)
{
	g_autofree char *path = znode_in_datacenter(CLUSTER_ROOT, CLUSTER_DATACENTER, ZNODES_FLOOR);
	const char *json = ensemble_read(path);
	ZnodeFloor floor = {0};

	if (json != NULL)
		znode_floor_from_json(json, strlen(json), &cluster.layout, &floor, NULL);
	return floor;
}

/* Writes that the ensemble commits */

static void check_end(const char *path, const ReservationRecord *record)
{
	gint64 end_ms = layout_tick_start_ms(&cluster.layout, record->end_tick);
	gint64 most_ms = world_true_ms() + CLUSTER_MAX_AHEAD_MS + cluster.config.max_clock_skew_ms +
			 cluster.config.reservation_ms + cluster.layout.tick_ms;

	if (end_ms > most_ms)
		world_fail("%s ends %" G_GINT64_FORMAT " ms later than any reservation may", path,
			   end_ms - most_ms);
}

static void on_committed(const char *path, const char *data)
{
	g_autofree char *prefix =
		znode_in_datacenter(CLUSTER_ROOT, CLUSTER_DATACENTER, ZNODES_RESERVATIONS);
	g_auto(ReservationRecord) before = {0}, after = {0};
	const char *old = ensemble_read(path);

	cluster.n_commits++;
	if (!g_str_has_prefix(path, prefix) || data == NULL ||
	    !reservation_record_from_json(data, strlen(data), &after, NULL))
		return;
	check_end(path, &after);
	if (old != NULL && !reservation_record_from_json(old, strlen(old), &before, NULL))
		world_fail("%s was damaged, and a server has written to it", path);
	if (*after.owner != '\0' && after.end_tick < before.end_tick)
		world_fail("%s ends sooner than before, and is not released", path);
	if (*after.owner == '\0' || g_strcmp0(before.owner, after.owner) == 0)
		return;
	cluster.n_claims++;
	g_hash_table_insert(cluster.floors, g_strdup(after.owner),
			    g_memdup2(&(gint64){read_floor().tick}, sizeof(gint64)));
}

/* A store in ZooKeeper, with a history: for rules of the registration that no simulated database is
 * needed for. */

static const StoreOps *zookeeper_ops;

static StoreMessage *take_with_history(Store *store)
{
	StoreMessage *message = zookeeper_ops->take(store);

	if (message != NULL && message->event == STORE_UP)
		message->history = g_strdup_printf("history %u", cluster.history);
	return message;
}

static Store *add_history(Store *store)
{
	static StoreOps ops;

	zookeeper_ops = store->ops;
	ops = *store->ops;
	ops.take = take_with_history;
	store->ops = &ops;
	return store;
}

/* Servers */

static Registry *make_registry(Server *self)
{
	const ZookeeperHosts hosts = {.servers = (char *)"zk:2181", .root = (char *)CLUSTER_ROOT};
	g_autofree char *text = g_strdup_printf("10.0.0.%u:7609", self->number + 1);
	g_autoptr(Address) address = address_parse(text, NULL);
	const ZookeeperStoreConfig store = {
		.hosts = &hosts,
		.session_timeout_ms = cluster.config.session_timeout_ms,
	};
	const RegistrationConfig config = {
		.servers = hosts.servers,
		.root = hosts.root,
		.layout = self->config.layout,
		.clock = &self->clock,
		.datacenter_id = self->config.datacenter_id,
		.worker_id = self->config.worker_id,
		.preferred_worker_id = -1,
		.nonce = self->nonce,
		.address = address,
		.host = "10.0.0.1",
		.version = "0",
		.connect_timeout_ms = CONNECT_TIMEOUT_MS,
		.max_length_ms = self->config.reservation_ms,
		.max_clock_skew_ms = self->config.max_clock_skew_ms,
		.create_registry = cluster.config.creates_registry,
		.skip_sanity_checks = cluster.config.skips_sanity_checks,
	};

	return registration_new(cluster.config.has_history
					? add_history(zookeeper_store_new(&store))
					: zookeeper_store_new(&store),
				&config);
}

static void on_killed(Server *self)
{
	sessions_kill(&self->machine);
}

static gint64 find_last_run(const WorldMachine *machine)
{
	const Server *self = (const Server *)machine;

	return server_is_paused(self) ? self->paused_since_us : world_now_us();
}

Server *cluster_server(guint number)
{
	return &cluster.servers[number];
}

Server *cluster_any_server(void)
{
	return &cluster.servers[world_between(0, cluster.config.n_servers - 1)];
}

const ClusterConfig *cluster_config(void)
{
	return &cluster.config;
}

/* The PeerCheck of worker/registration/peers.h in virtual time. The linker puts these functions in
 * the place of the real ones. The real peer_report_judge() judges the answers. */

PeerCheck *__wrap_peer_check_new(GPtrArray *peers, const PeerCheckConfig *config);
void __wrap_peer_check_free(PeerCheck *self);
gboolean __wrap_peer_check_take_report(PeerCheck *self, PeerReport *out_report);

struct _PeerCheck {
	PeerCheckConfig config;
	GPtrArray *peers; /* (element-type Peer): NULL if the check was freed by its owner */
	gboolean is_done;
	gboolean is_taken;
};

static void on_check_done(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	PeerCheck *self = data;

	self->is_done = TRUE;
	if (self->peers == NULL)
		g_free(self);
	else
		self->config.done(self->config.user_data);
}

PeerCheck *__wrap_peer_check_new(GPtrArray *peers, const PeerCheckConfig *config)
{
	PeerCheck *self = g_new0(PeerCheck, 1);

	world_pass_checkpoint(WORLD_CHECKPOINT_OUTSIDE);
	self->config = *config;
	self->peers = peers;
	world_after(world_scaled(MIN_ANSWER_US, MS(config->timeout_ms)), on_check_done, self, 0);
	return self;
}

void __wrap_peer_check_free(PeerCheck *self)
{
	if (self == NULL)
		return;
	g_clear_pointer(&self->peers, g_ptr_array_unref);
	if (self->is_done)
		g_free(self); /* otherwise on_check_done() frees it */
}

/* Leaves @out_answer untouched if the peer is not reached. */
static void answer_peer(const Peer *peer, gint64 now_ms, PeerAnswer *out_answer)
{
	WorldMachine *before = world_machine();
	KeeperStatus status;
	guint number = 0;
	Server *server;

	sscanf(peer->address, "10.0.0.%u:", &number);
	server = &cluster.servers[number - 1];
	if (!server->is_up || server_is_paused(server) || server->depth > 0 || server->is_dying ||
	    world_odds(0.1))
		return;
	world_enter(&server->machine);
	keeper_get_status(server->keeper, &status);
	*out_answer = (PeerAnswer){
		.reached = TRUE,
		.nonce = g_strdup(server->nonce),
		.datacenter_id = server->config.datacenter_id,
		.worker_id = status.worker_id + (number - 1 == cluster.contradicting &&
						 world_now_us() < cluster.contradicts_until_us),
		.offset_ms = world_wall_ns(&server->machine) / 1000000 - now_ms,
	};
	world_enter(before);
}

gboolean __wrap_peer_check_take_report(PeerCheck *self, PeerReport *out_report)
{
	g_autofree PeerAnswer *answers = g_new0(PeerAnswer, self->peers->len);
	gint64 now_ms = g_get_monotonic_time() / G_TIME_SPAN_MILLISECOND;

	if (self->is_taken || !self->is_done)
		return FALSE;
	self->is_taken = TRUE;
	for (guint i = 0; i < self->peers->len; i++)
		answer_peer(self->peers->pdata[i], now_ms, &answers[i]);
	peer_report_judge(self->peers, answers, self->config.datacenter_id,
			  clock_now_ms(self->config.clock) - now_ms, self->config.max_skew_ms,
			  out_report);
	for (guint i = 0; i < self->peers->len; i++)
		g_free(answers[i].nonce);
	return TRUE;
}

/* worker/zookeeper/reach-probe.h in virtual time. The network is not simulated, so a probe finds
 * out nothing about ZooKeeper's servers. */

struct _ReachProbe {
	void (*done)(gpointer user_data);
	gpointer user_data;
	gboolean is_done;
	gboolean is_freed;
};

static void on_probe_done(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	ReachProbe *self = data;

	self->is_done = TRUE;
	if (self->is_freed)
		g_free(self);
	else
		self->done(self->user_data);
}

ReachProbe *reach_probe_new(const char *servers G_GNUC_UNUSED,
			    const char *certificates G_GNUC_UNUSED,
			    void (*done)(gpointer user_data), gpointer user_data)
{
	ReachProbe *self = g_new0(ReachProbe, 1);

	self->done = done;
	self->user_data = user_data;
	world_after(world_scaled(MIN_ANSWER_US, SECONDS(4)), on_probe_done, self, 0);
	return self;
}

gboolean reach_probe_take(ReachProbe *self, char **out_text)
{
	if (!self->is_done)
		return FALSE;
	*out_text = NULL;
	return TRUE;
}

void reach_probe_free(ReachProbe *self)
{
	if (self == NULL)
		return;
	self->is_freed = TRUE;
	if (self->is_done)
		g_free(self); /* otherwise on_probe_done() frees it */
}

/* Taking IDs */

static void check_floor(Server *self)
{
	const Lease *lease = generator_lease(self->generator);
	const gint64 *floor = g_hash_table_lookup(cluster.floors, self->nonce);

	if (lease != NULL && floor != NULL && lease->first_tick <= *floor)
		world_fail_machine(&self->machine,
				   "has claimed from tick %" G_GINT64_FORMAT
				   " on, which is not above the floor, %" G_GINT64_FORMAT,
				   lease->first_tick, *floor);
}

static void on_draw(gpointer data, guint64 tag)
{
	Server *self = data;
	const Lease *lease;

	if (tag == 0 && cluster.config.draws)
		world_after(world_between(1000, world_odds(0.1) ? SECONDS(2) : MS(200)), on_draw,
			    self, 0);
	if (!self->is_up || server_is_paused(self) || self->depth > 0)
		return;
	server_draw(self, (guint)world_between(1, world_odds(0.1) ? 1000 : 4));
	if (!self->is_up || self->keeper == NULL)
		return;
	check_floor(self);
	/* again at the end of the reservation */
	lease = generator_lease(self->generator);
	if (tag == 0 && lease != NULL && world_odds(0.3)) {
		gint64 end_ms =
			layout_tick_start_ms(&cluster.layout, atomic_load(&lease->end_tick));
		gint64 left_ms = end_ms - world_wall_ns(&self->machine) / 1000000;

		if (left_ms > 0 && left_ms < 5000)
			world_after(MS(left_ms), on_draw, self, 1);
	}
}

/* The log */

static void on_logged(WorldMachine *machine, LogEvent event, const char *line)
{
	Server *self = (Server *)machine;

	if (self == NULL)
		return;
	if (event == LOG_WORKER_CLAIMED &&
	    cluster.config.draws) /* draw at once from the new lease */
		world_after(0, on_draw, self, 1);
	if (event == LOG_WORKER_LOST) {
		cluster.warnings[self->number].n_lost++;
		g_free(cluster.warnings[self->number].why_lost);
		cluster.warnings[self->number].why_lost = g_strdup(line);
	}
	if (event == LOG_WORKER_WAITING || event == LOG_ZOOKEEPER_REFUSED ||
	    event == LOG_PEERS_CONTRADICT || event == LOG_WORKER_LOST ||
	    event == LOG_RESERVATION_SPENT || event == LOG_CLOCK_DIFFERS) {
		cluster.warnings[self->number].n_starts = self->n_starts;
		cluster.warnings[self->number].event = event;
	}
}

LogEvent cluster_last_warning(const Server *server)
{
	if (cluster.warnings[server->number].n_starts != server->n_starts)
		return LOG_N_EVENTS;
	return cluster.warnings[server->number].event;
}

guint cluster_n_lost(const Server *server)
{
	return cluster.warnings[server->number].n_lost;
}

void cluster_check_lost(Server *server, const char *why)
{
	const char *line = cluster.warnings[server->number].why_lost;

	if (line == NULL)
		world_fail_machine(&server->machine, "has not lost its worker ID");
	if (strstr(line, why) == NULL)
		world_fail_machine(&server->machine, "does not log \"%s\"", why);
}

guint64 cluster_n_commits(void)
{
	return cluster.n_commits;
}

/* The cluster */

ClusterConfig cluster_draw_config(void)
{
	static const gint64 RESERVATIONS_MS[] = {1000, 2000, 5000, 20000, 60000};

	return (ClusterConfig){
		.n_servers = (guint)world_between(1, 6),
		.worker_bits = (guint)world_between(1, 3),
		.tick_ms = world_odds(0.2) ? 10 : 1,
		.reservation_ms =
			RESERVATIONS_MS[world_between(0, G_N_ELEMENTS(RESERVATIONS_MS) - 1)],
		.session_timeout_ms = world_between(500, 5000),
		.max_clock_skew_ms = world_odds(0.5) ? 2000 : 10000,
		.worker_id = -1,
		.reclaim_odds = 0.3,
		.creates_registry = TRUE,
		.skips_sanity_checks = world_odds(0.5),
		.draws = TRUE,
	};
}

void cluster_init(const ClusterConfig *config)
{
	memset(&cluster, 0, sizeof(cluster));
	cluster.config = *config;
	cluster.layout = (Layout){
		.epoch_ms = EPOCH_MS,
		.tick_ms = config->tick_ms,
		.time_bits = 41,
		.datacenter_bits = 5,
		.worker_bits = config->worker_bits,
		.sequence_bits = 12,
	};
	cluster.floors = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	ensemble_init();
	ensemble_set_committed(on_committed);
	sessions_init();
	sessions_set_last_run(find_last_run);
	world_set_logged(on_logged);
	issued_init(&cluster.layout);
	for (guint i = 0; i < config->n_servers; i++) {
		const ServerConfig server = {
			.layout = &cluster.layout,
			.datacenter_id = CLUSTER_DATACENTER,
			.worker_id = config->worker_id,
			.max_clock_skew_ms = config->max_clock_skew_ms,
			.max_ahead_ms = MAX_AHEAD_MS,
			.reclaims = world_odds(config->reclaim_odds),
			.reservation_ms = config->reservation_ms,
			.make_registry = make_registry,
			.killed = on_killed,
		};

		server_init(&cluster.servers[i], i, &server);
	}
}

void cluster_clear(void)
{
	SessionsCounts counts = sessions_counts();

	for (guint i = 0; i < cluster.config.n_servers; i++) {
		server_clear(&cluster.servers[i]);
		g_free(cluster.warnings[i].why_lost);
	}
	driver_count("ids", issued_count());
	driver_count("claims", cluster.n_claims);
	driver_count("writes", ensemble_n_writes());
	driver_count("requests", counts.requests);
	driver_count("broken connections", counts.breaks);
	driver_count("late requests", counts.late);
	sessions_clear();
	ensemble_clear();
	issued_clear();
	g_hash_table_unref(cluster.floors);
}

static void on_start(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	server_start(data);
}

void cluster_start_draws(void)
{
	for (guint i = 0; i < cluster.config.n_servers && cluster.config.draws; i++)
		world_after(0, on_draw, &cluster.servers[i], 0);
}

void cluster_start(gint64 within_us)
{
	for (guint i = 0; i < cluster.config.n_servers; i++)
		world_after(world_between(0, within_us), on_start, &cluster.servers[i], 0);
	cluster_start_draws();
}

/* Faults */

void cluster_quarantine(void)
{
	gint64 clock_ms =
		ensemble_now_ms() + CLUSTER_MAX_AHEAD_MS + cluster.config.max_clock_skew_ms;
	gint64 end_ms = clock_ms + cluster.config.reservation_ms;
	ZnodeFloor floor = read_floor();
	g_autofree char *layout = cluster_path("layout");
	g_autofree char *path = znode_in_datacenter(CLUSTER_ROOT, CLUSTER_DATACENTER, ZNODES_FLOOR),
			*json = NULL;

	if (ensemble_read(layout) == NULL)
		return;
	floor.tick = MAX(floor.tick, layout_tick_at(&cluster.layout, end_ms));
	floor.clock_tick = MAX(floor.clock_tick, layout_tick_at(&cluster.layout, clock_ms));
	json = znode_floor_to_json(&floor);
	world_note(NULL, "the datacenter is quarantined to tick %" G_GINT64_FORMAT, floor.tick);
	ensemble_write(path, json);
}

void cluster_back_up(void)
{
	g_autofree char *layout = cluster_path("layout");

	if (ensemble_read(layout) != NULL)
		ensemble_back_up();
}

static void on_back_up(gpointer data G_GNUC_UNUSED, guint64 tag G_GNUC_UNUSED)
{
	cluster_back_up();
}

void cluster_restore(gboolean quarantine)
{
	if (!ensemble_has_backup())
		return;
	world_note(NULL, "ZooKeeper is restored from a backup");
	sessions_cut(NULL, MS(world_between(200, 2000)), FALSE);
	ensemble_restore();
	if (quarantine)
		cluster_quarantine();
	driver_count("restores", 1);
	for (guint i = 0; i < cluster.config.n_servers; i++) { /* some connect late, or restart */
		Server *server = &cluster.servers[i];

		if (world_odds(0.4))
			sessions_cut(&server->machine, SECONDS(world_between(1, 30)), FALSE);
		else if (world_odds(0.5))
			server_kill(server, world_between(0, MS(500)));
	}
	world_after(world_between(MS(100), SECONDS(20)), on_back_up, NULL, 0);
}

void cluster_fail_over(void)
{
	if (!ensemble_has_backup())
		return;
	cluster.history++;
	cluster_restore(FALSE);
}

static void step_clock(Server *server, gint64 to_ms)
{
	world_note(&server->machine, "its clock is set %" G_GINT64_FORMAT " ms ahead", to_ms);
	server->machine.wall_offset_ns = to_ms * 1000000;
	world_set_drift(&server->machine, 0);
}

static void deny_path(gint64 for_us)
{
	static const char *const NAMES[] = {"limits",
					    "layout",
					    "datacenters/3/claims",
					    "datacenters/3/reservations",
					    "datacenters/3/floor",
					    "datacenters/3/reservations/0"};
	g_autofree char *path = cluster_path(NAMES[world_between(0, G_N_ELEMENTS(NAMES) - 1)]);
	ZookeeperOutcome outcome = world_odds(0.5) ? ZOOKEEPER_NO_AUTH : ZOOKEEPER_REFUSED;

	world_note(NULL, "ZooKeeper refuses %s", path);
	ensemble_deny(path, outcome, world_now_us() + for_us);
}

/* Makes an edit of an operator that cannot cause a duplicate ID: see "What breaks uniqueness" in
 * docs/explanation/uniqueness.md. */
static void edit_znode(void)
{
	static const char *const NAMES[] = {"limits", "layout", "datacenters/3/claims"};
	guint choice = (guint)world_between(0, G_N_ELEMENTS(NAMES) + 1);
	g_autofree char *path = NULL, *data = NULL;

	if (choice < G_N_ELEMENTS(NAMES)) {
		path = cluster_path(NAMES[choice]);
		world_note(NULL, "an operator deletes %s", path);
		ensemble_delete(path);
		return;
	}
	path = cluster_reservation_path((guint)world_between(0, 1));
	if (ensemble_read(path) == NULL)
		return;
	data = g_strdup(ensemble_read(path));
	world_note(NULL, "an operator writes %s again, unchanged", path);
	ensemble_write(path, data);
}

static void do_fault(guint kind)
{
	Server *server = cluster_any_server();
	gint64 for_us = world_scaled(MS(1), SECONDS(30));
	gint64 skew_ms = cluster.config.max_clock_skew_ms;

	switch (kind) {
	case 0:
	case 1:
	case 2:
		sessions_cut(&server->machine, world_odds(0.5) ? 0 : for_us, world_odds(0.3));
		break;
	case 3: /* the quorum is lost, or the leader changes */
		sessions_cut(NULL, world_odds(0.5) ? 0 : for_us, world_odds(0.3));
		break;
	case 4:
		sessions_expire(&server->machine);
		break;
	case 5:
		ensemble_delete_claims(0.5);
		break;
	case 6:
	case 7:
		server_pause(server, for_us);
		break;
	case 8:
		server_suspend(server, for_us);
		break;
	case 9:
	case 10:
		server_kill(server, world_between(0, SECONDS(5)));
		break;
	case 11:
	case 12:
		server_stop(server, world_between(1, 3000), world_between(0, SECONDS(5)));
		break;
	case 13:
		step_clock(server, -world_scaled(1, 20000));
		break;
	case 14:
		step_clock(server, world_odds(0.5)
					   ? 0
					   : world_between(-skew_ms * 9 / 10, skew_ms * 9 / 10));
		break;
	case 15:
		step_clock(server, world_scaled(1, 1000000));
		break;
	case 16:
		world_set_drift(&server->machine, world_between(-2000, 2000));
		break;
	case 17:
		ensemble_set_clock(
			world_between(-CLUSTER_MAX_AHEAD_MS / 2, CLUSTER_MAX_AHEAD_MS / 2));
		break;
	case 18:
		cluster_back_up();
		break;
	case 19:
		deny_path(for_us);
		break;
	case 20:
		edit_znode();
		break;
	case 21:
		if (world_odds(0.2))
			cluster_quarantine();
		else
			sessions_lose_names(for_us);
		break;
	case 22:
		cluster.contradicting = server->number;
		cluster.contradicts_until_us = world_now_us() + for_us;
		break;
	default:
		g_assert_not_reached();
	}
}

static void on_fault(gpointer data G_GNUC_UNUSED, guint64 tag G_GNUC_UNUSED)
{
	if (cluster.have_faults_ended)
		return;
	world_after(world_between(1000, 2 * cluster.fault_mean_us), on_fault, NULL, 0);
	do_fault((guint)world_between(0, N_FAULTS - 1));
}

/* Sometimes pauses or kills a server during an operation. */
static void on_checkpoint(WorldMachine *machine, WorldCheckpoint step)
{
	Server *self = (Server *)machine;

	if (cluster.have_faults_ended || self->depth != 1 ||
	    !world_odds(step == WORLD_CHECKPOINT_OUTSIDE ? 0.0005 : 0.00001))
		return;
	if (world_odds(0.3))
		server_kill(self, world_between(0, SECONDS(5)));
	else
		server_pause(self, world_scaled(MS(1), SECONDS(20)));
}

void cluster_begin_faults(gint64 mean_us)
{
	cluster.fault_mean_us = mean_us;
	world_set_checkpoint_hook(on_checkpoint);
	world_after(world_between(0, mean_us), on_fault, NULL, 0);
}

void cluster_end_faults(void)
{
	world_note(NULL, "all faults end");
	cluster.have_faults_ended = TRUE;
	cluster.contradicts_until_us = 0;
	ensemble_set_clock(0);
	for (guint i = 0; i < cluster.config.n_servers; i++) {
		world_set_drift(&cluster.servers[i].machine, 0);
		cluster.servers[i].machine.wall_offset_ns = 0;
	}
}

/* Recovery */

gint64 cluster_recovery_us(void)
{
	/* time for a raised floor, the servers that wait for it, and the last pauses and denials */
	return (CLUSTER_MAX_AHEAD_MS + 3 * cluster.config.max_clock_skew_ms +
		2 * cluster.config.reservation_ms + 10 * cluster.config.session_timeout_ms +
		90000) *
	       MS(1);
}

guint cluster_n_serving(void)
{
	guint n = 0;

	for (guint i = 0; i < cluster.config.n_servers; i++) {
		g_autofree char *why = server_why_not_serving(&cluster.servers[i]);

		n += why == NULL;
	}
	return n;
}

/* Returns the number of servers, or of worker IDs if that is less. */
static guint n_that_can_serve(void)
{
	guint n_ids = cluster.config.worker_id >= 0 ? 1 : 1u << cluster.config.worker_bits;

	return MIN(cluster.config.n_servers, n_ids);
}

/* Returns: (nullable) (transfer full): why the cluster has not recovered; NULL if it has */
static char *why_not_recovered(void)
{
	for (guint i = 0; i < cluster.config.n_servers; i++) {
		Server *server = &cluster.servers[i];
		g_autofree char *why = server_why_not_serving(server);

		if (why != NULL && cluster_last_warning(server) == LOG_N_EVENTS)
			return g_strdup_printf(
				"%s does not serve (%s), and its log does not say why",
				server->machine.name, why);
	}
	if (cluster_n_serving() < n_that_can_serve())
		return g_strdup_printf("%u of %u servers serve, where %u can", cluster_n_serving(),
				       cluster.config.n_servers, n_that_can_serve());
	return NULL;
}

void cluster_check_recovered(gint64 within_us)
{
	gint64 until_us = world_now_us() + within_us;
	g_autofree char *why = why_not_recovered();

	while (why != NULL && world_now_us() < until_us) {
		world_run_for(SECONDS(1));
		g_free(why);
		why = why_not_recovered();
	}
	if (why != NULL)
		world_fail("%s", why);
}

void cluster_check_idle(gint64 for_us)
{
	gdouble seconds = (gdouble)for_us / G_TIME_SPAN_SECOND;
	gdouble writes_each = 4 * seconds / ((gdouble)cluster.config.reservation_ms / 1000) + 3;
	guint64 rounds[MAX_SERVERS], writes;

	cluster.config.draws = FALSE;
	/* until then, the last denials end, and reservations grow to their full length */
	world_run_for(SECONDS(60) + MS(cluster.config.reservation_ms));
	writes = ensemble_n_writes();
	for (guint i = 0; i < cluster.config.n_servers; i++)
		rounds[i] = cluster.servers[i].n_rounds;
	world_run_for(for_us);
	writes = ensemble_n_writes() - writes;
	if ((gdouble)writes > writes_each * cluster.config.n_servers * 1.2)
		world_fail("%" G_GUINT64_FORMAT
			   " writes in %.0f s in which nothing happened, of %u "
			   "servers; %.0f are enough",
			   writes, seconds, cluster.config.n_servers,
			   writes_each * cluster.config.n_servers);
	for (guint i = 0; i < cluster.config.n_servers; i++) {
		guint64 n = cluster.servers[i].n_rounds - rounds[i];

		/* ten rounds a second for the clock; some for each write; and some for each session
		 * timeout while the server waits for a worker ID */
		if ((gdouble)n >
		    seconds * 11 + writes_each * 20 + 50 +
			    seconds * 20000 / (gdouble)cluster.config.session_timeout_ms)
			world_fail_machine(&cluster.servers[i].machine,
					   "runs %" G_GUINT64_FORMAT
					   " rounds in %.0f s in which nothing happened",
					   n, seconds);
	}
}
