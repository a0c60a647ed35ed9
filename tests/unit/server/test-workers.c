/* SPDX-License-Identifier: Apache-2.0 */

/*
 * get_workers: its fields for each server, and that a slow registry delays no other call. Loop,
 * keeper and service are real; the registry is a fake.
 */
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/call.h"
#include "common/log.h"
#include "common/worker-kind.h"
#include "gen-c_glib/generated-types.h"
#include "rpc/loop.h"
#include "server/codecs.h"
#include "server/issuer-source.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"
#include "tests/unit/worker/fake-registry.h"

#define FAR_MS (G_GINT64_CONSTANT(4102444800) * 1000) /* the year 2100 */

typedef struct {
	FakeRegistry fake;
	RegistryOps ops; /* those of the fake, with another list() */
	SystemClock clock;
	Generator *generator;
	Keeper *keeper;
	IssuerSource source;
	CounterSet *counters;
	AgentCounters *agents;
	AuditLog *audit; /* without sinks */
	ServiceConfig config;
	Loop *loop;
} Bench;

/* The keeper's thread: the list that the next poll returns, and the fake's poll(). */
static WorkerList *next_list;
static gboolean (*fake_poll)(Registry *self, gint64 now_tick, gint64 stop_by_us,
			     RegistryReport *out_report);

/* Runs in the thread of the keeper. Lists one server of each kind, and this server with outdated
 * values. */
static void list_one_of_each(Registry *registry)
{
	static const struct {
		gint worker_id;
		const char *address, *nonce;
		gint64 claimed_at_ms, reserved_until_ms;
		const char *program;
	} WORKERS[] = {
		{4, "b:1", "b", 1000, FAR_MS, ""},
		{9, "other-name:1", "own", 1, 2, ""},
		{9, "other-name:1", "own", 2, FAR_MS, ""},
		{5, "c:1", "c", 1000, 2000, ""},
		{-1, "d:1", "d", 1000, 0, ""},
		{6, "", "e", 1000, FAR_MS, "shop@e"},
	};

	WorkerList *list = worker_list_new();

	for (gsize i = 0; i < G_N_ELEMENTS(WORKERS); i++) {
		gboolean is_server = *WORKERS[i].program == '\0';
		SnowflakeClientWorker *worker = g_new0(SnowflakeClientWorker, 1);

		*worker = (SnowflakeClientWorker){
			.datacenter_id = 2,
			.worker_id = WORKERS[i].worker_id,
			.address = g_strdup(WORKERS[i].address),
			.nonce = g_strdup(WORKERS[i].nonce),
			.claimed_at_ms = WORKERS[i].claimed_at_ms,
			.reserved_until_ms = WORKERS[i].reserved_until_ms,
			.kind = g_strdup(is_server ? WORKER_KIND_SERVER : WORKER_KIND_EMBEDDED),
			.program = g_strdup(WORKERS[i].program),
			.server = g_strdup(""),
		};
		g_ptr_array_add(list->workers, worker);
	}
	g_assert_null(next_list);
	next_list = list;
	registry->wake(registry->wake_data);
}

static gboolean poll_with_list(Registry *registry, gint64 now_tick, gint64 stop_by_us,
			       RegistryReport *out_report)
{
	gboolean has_ended = fake_poll(registry, now_tick, stop_by_us, out_report);

	out_report->list = g_steal_pointer(&next_list);
	return has_ended;
}

static void on_changed(gpointer user_data)
{
	loop_wake(((Bench *)user_data)->loop);
}

static void bench_start_loop(Bench *self, gint64 max_wait_ms)
{
	const RpcService service = codecs_service(&self->config, FALSE);
	const RpcLimits limits = {.max_frame_bytes = 65536,
				  .max_depth = 64,
				  .max_pending_bytes = 1 << 20,
				  .max_wait_ms = max_wait_ms,
				  .turn_ids = 1000,
				  .frame_timeout_ms = HANG_GUARD_MS,
				  .write_timeout_ms = HANG_GUARD_MS};

	self->loop = loop_new(&service, &limits, counter_set_add(self->counters), NULL, NULL, NULL);
	g_assert_true(loop_start(self->loop, NULL));
}

/* @lists: the registry lists one server of each kind; otherwise it does not answer. */
static void bench_init(Bench *self, gboolean lists, gint64 max_wait_ms)
{
	const GeneratorPolicy policy = {10, 1, 1000};
	const KeeperConfig keeper = {.max_clock_skew_ms = 10000,
				     .datacenter_id = 2,
				     .changed = on_changed,
				     .user_data = self};

	g_autoptr(GPtrArray) no_targets = g_ptr_array_new();

	log_set_level(LOG_LEVEL_ERROR);
	generated_types_init();
	*self = (Bench){
		.counters = counter_set_new(),
		.agents = agent_counters_new(),
		.audit = audit_log_new(no_targets, 1024, NULL),
	};
	system_clock_init(&self->clock);
	fake_registry_init(&self->fake, &self->clock.clock);
	self->ops = *self->fake.registry.ops;
	if (lists)
		self->ops.list = list_one_of_each;
	fake_poll = self->ops.poll;
	if (lists)
		self->ops.poll = poll_with_list;
	self->fake.registry.ops = &self->ops;
	self->generator = generator_new(&LAYOUT_TWITTER, &self->clock.clock, &policy);
	self->keeper = keeper_new(&self->fake.registry, self->generator, &self->clock, &keeper);
	issuer_source_init(&self->source, self->generator);
	self->source.keeper = self->keeper;
	self->config = (ServiceConfig){.source = &self->source.source,
				       .counters = self->counters,
				       .agents = self->agents,
				       .audit = self->audit,
				       .address = "a:1",
				       .nonce = "own",
				       .max_wait_ms = max_wait_ms};
	bench_start_loop(self, max_wait_ms);
	keeper_start(self->keeper);
}

static void bench_clear(Bench *self)
{
	loop_drain(self->loop, HANG_GUARD_MS);
	loop_join(self->loop);
	g_assert_true(keeper_stop(self->keeper, HANG_GUARD_MS));
	keeper_free(self->keeper);
	loop_free(self->loop);
	generator_free(self->generator);
	counter_set_free(self->counters);
	agent_counters_free(self->agents);
	audit_log_free(self->audit);
	fake_registry_clear(&self->fake);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Bench, bench_clear)

static const ClientCall GET_WORKERS = {"get_workers", CLIENT_RESULT_WORKERS, NULL, 0};
static const ClientCall GET_ID = {"get_id", CLIENT_RESULT_ID, "agent", 0};

static int bench_connect(Bench *self)
{
	int fds[2];

	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), ==,
			0);
	loop_add(self->loop, &(InboxConnection){.fd = fds[1]});
	return fds[0];
}

/* The sequence ID is the descriptor of the connection, so a reply to another connection is
 * detected. */
static void send_call(int fd, const ClientCall *call)
{
	g_autoptr(GByteArray) message = g_byte_array_new();
	guint32 length;

	client_call_write(call, fd, message);
	length = GUINT32_TO_BE(message->len);
	g_byte_array_prepend(message, (const guint8 *)&length, sizeof length);
	g_assert_cmpint(write(fd, message->data, message->len), ==, message->len);
}

static gboolean is_readable(int fd, int timeout_ms)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	return poll(&readable, 1, timeout_ms) == 1;
}

static void read_all(int fd, void *bytes, gsize length)
{
	for (gsize got = 0; got < length;) {
		ssize_t n;

		g_assert_true(is_readable(fd, HANG_GUARD_MS));
		n = read(fd, (char *)bytes + got, length - got);
		g_assert_cmpint(n, >, 0);
		got += (gsize)n;
	}
}

static gboolean read_reply(int fd, const ClientCall *call, ClientReply *reply, GError **error)
{
	g_autofree guint8 *bytes = NULL;
	guint32 length;

	read_all(fd, &length, sizeof length);
	length = GUINT32_FROM_BE(length);
	bytes = g_malloc(length);
	read_all(fd, bytes, length);
	return client_call_read(call, fd, bytes, length, reply, error);
}

TEST("/workers/members-of-each", test_members_of_each)
{
	static const struct {
		gint worker_id;
		const char *address, *nonce, *state;
		gboolean is_reserved;
		const char *kind, *program;
	} EXPECTED[] = {
		{3, "a:1", "own", "serving", TRUE, "server", ""}, /* the current values, once */
		{4, "b:1", "b", "serving", TRUE, "server", ""},
		{5, "c:1", "c", "unavailable", FALSE, "server", ""},
		{-1, "d:1", "d", "starting", FALSE, "server", ""},
		{6, "", "e", "serving", TRUE, "embedded", "shop@e"},
	};
	g_auto(Bench) bench;
	int fd;

	bench_init(&bench, TRUE, HANG_GUARD_MS);
	fd = bench_connect(&bench);

	ClientReply reply = {0};
	g_autoptr(GError) error = NULL;

	/* until it has its own worker ID */
	send_call(fd, &GET_ID);
	g_assert_true(read_reply(fd, &GET_ID, &reply, &error));
	send_call(fd, &GET_WORKERS);
	read_reply(fd, &GET_WORKERS, &reply, &error);
	g_assert_no_error(error);

	g_autoptr(GPtrArray) workers = reply.workers;

	g_assert_cmpuint(workers->len, ==, G_N_ELEMENTS(EXPECTED));
	for (guint i = 0; i < workers->len; i++) {
		const SnowflakeClientWorker *worker = workers->pdata[i];

		g_assert_cmpint(worker->datacenter_id, ==, 2);
		g_assert_cmpint(worker->worker_id, ==, EXPECTED[i].worker_id);
		g_assert_cmpstr(worker->address, ==, EXPECTED[i].address);
		g_assert_cmpstr(worker->nonce, ==, EXPECTED[i].nonce);
		g_assert_cmpstr(worker->state, ==, EXPECTED[i].state);
		g_assert_cmpint(worker->reserved_until_ms != 0, ==, EXPECTED[i].is_reserved);
		g_assert_cmpstr(worker->kind, ==, EXPECTED[i].kind);
		g_assert_cmpstr(worker->program, ==, EXPECTED[i].program);
	}
	close(fd);
}

/* A call for the list waits; calls for IDs on the same loop do not wait for it. */
TEST("/workers/ids-do-not-wait-for-the-registry", test_ids_do_not_wait_for_the_registry)
{
	g_auto(Bench) bench;
	ClientReply reply = {0};
	g_autoptr(GError) error = NULL;
	int lister, drawer;

	bench_init(&bench, FALSE, HANG_GUARD_MS);
	lister = bench_connect(&bench);
	drawer = bench_connect(&bench);
	send_call(lister, &GET_WORKERS);
	send_call(lister, &GET_ID); /* it waits behind the first call on its connection */
	for (guint i = 0; i < 100; i++) {
		send_call(drawer, &GET_ID);
		g_assert_true(read_reply(drawer, &GET_ID, &reply, &error));
	}
	g_assert_false(is_readable(lister, 0));
	g_assert_cmpuint(counter_set_sum(bench.counters, COUNTER_WAITS), >=, 1);
	FAKE_SET(&bench.fake, n_workers, 7);
	read_reply(lister, &GET_WORKERS, &reply, &error);
	g_assert_no_error(error);
	g_assert_cmpuint(reply.workers->len, ==, 8); /* including this server */
	g_ptr_array_unref(reply.workers);
	g_assert_true(read_reply(lister, &GET_ID, &reply, &error));
	close(lister);
	close(drawer);
}

TEST("/workers/a-registry-that-does-not-answer", test_a_registry_that_does_not_answer)
{
	static const gint64 MAX_WAITS_MS[] = {0, 50};

	for (gsize i = 0; i < G_N_ELEMENTS(MAX_WAITS_MS); i++) {
		g_auto(Bench) bench;
		ClientReply reply = {0};
		int fd;

		bench_init(&bench, FALSE, MAX_WAITS_MS[i]);
		fd = bench_connect(&bench);
		for (guint call = 0; call < 3; call++)
			send_call(fd, &GET_WORKERS);
		for (guint call = 0; call < 3; call++) {
			g_autoptr(GError) error = NULL;

			g_assert_false(read_reply(fd, &GET_WORKERS, &reply, &error));
			g_assert_error(error, SNOWFLAKE_CLIENT_ERROR,
				       SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
			g_assert_cmpstr(error->message, ==,
					"RegistryUnavailable: the registry has not replied yet, "
					"retry after 1000 ms");
			g_assert_cmpint(reply.retry_after_ms, ==, 1000);
		}
		g_assert_cmpuint(counter_set_sum(bench.counters, COUNTER_EXCEPTIONS), ==, 3);
		close(fd);
	}
}

/* Reads a reply to get_workers. Returns as_of_ms of the other servers, which must be the same for
 * all. */
static gint64 read_old_list(int fd, guint n_others, gint64 *out_own_as_of_ms)
{
	g_autoptr(GPtrArray) workers = NULL;
	g_autoptr(GError) error = NULL;
	ClientReply reply = {0};
	gint64 as_of_ms;

	read_reply(fd, &GET_WORKERS, &reply, &error);
	g_assert_no_error(error);
	workers = reply.workers;
	g_assert_cmpuint(workers->len, ==, n_others + 1);
	*out_own_as_of_ms = ((SnowflakeClientWorker *)workers->pdata[0])->as_of_ms;
	as_of_ms = ((SnowflakeClientWorker *)workers->pdata[1])->as_of_ms;
	for (guint i = 2; i < workers->len; i++)
		g_assert_cmpint(((SnowflakeClientWorker *)workers->pdata[i])->as_of_ms, ==,
				as_of_ms);
	return as_of_ms;
}

static void ask_until_listed(Bench *bench, int fd, guint n_workers)
{
	ClientReply reply = {0};

	FAKE_SET(&bench->fake, n_workers, n_workers);
	do
		send_call(fd, &GET_WORKERS);
	while (!read_reply(fd, &GET_WORKERS, &reply, NULL));
	FAKE_SET(&bench->fake, n_workers, 0);
	g_ptr_array_unref(reply.workers);
}

static ServiceOutcome answer_call(Service *service, CounterMethod method, RpcPass *pass)
{
	const ServiceCall call = {.method = method, .n_calls = 1};
	ServiceAnswer answer;
	ServiceOutcome outcome = service_answer(service, &call, pass, &answer);

	service_answer_clear(&answer, outcome, method);
	return outcome;
}

/* A call is costly, and deferred, if its last answer was large. The first call is not deferred. */
TEST("/workers/costly", test_costly)
{
	static const struct {
		CounterMethod method;
		guint n_workers, n_agents;
		gboolean costly;
	} CASES[] = {{COUNTER_GET_WORKERS, 20, 0, FALSE},
		     {COUNTER_GET_WORKERS, 60, 0, TRUE},
		     {COUNTER_GET_COUNTERS, 1, 0, FALSE},
		     {COUNTER_GET_COUNTERS, 1, 200, TRUE}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		CounterMethod method = CASES[i].method;
		g_auto(Bench) bench;
		RpcPass pass = {.allowance.costly = RPC_COSTLY_NONE};
		int fd;

		bench_init(&bench, FALSE, HANG_GUARD_MS);
		fd = bench_connect(&bench);
		ask_until_listed(&bench, fd, CASES[i].n_workers);

		g_autoptr(Service) service =
			service_new(&bench.config, counter_set_add(bench.counters));
		AgentBlock *agents = agent_counters_add_block(bench.agents);

		for (guint n = 0; n < CASES[i].n_agents; n++) {
			g_autofree char *name = g_strdup_printf("agent-%u", n);

			agent_block_add(agents, name, strlen(name), 1);
		}
		g_assert_cmpint(answer_call(service, method, &pass), ==, SERVICE_ANSWERED);
		g_assert_cmpint(pass.was_costly, ==, CASES[i].costly);
		g_assert_cmpint(answer_call(service, method, &pass), ==,
				CASES[i].costly ? SERVICE_WAITS : SERVICE_ANSWERED);
		g_assert_true((pass.wait.what_for == RPC_WAIT_TURN) == CASES[i].costly);
		pass = (RpcPass){.allowance.costly = RPC_COSTLY_ALL};
		g_assert_cmpint(answer_call(service, method, &pass), ==, SERVICE_ANSWERED);
		close(fd);
	}
}

/* The registry answered once. Calls get that list with its time, after the time limit of the list
 * or of the call. */
TEST("/workers/a-registry-that-went-away", test_a_registry_that_went_away)
{
	static const gint64 MAX_WAITS_MS[] = {0, 50, HANG_GUARD_MS};

	for (gsize i = 0; i < G_N_ELEMENTS(MAX_WAITS_MS); i++) {
		g_auto(Bench) bench;
		gint64 first_ms, own_ms, began_ms;
		int fd;

		bench_init(&bench, FALSE, MAX_WAITS_MS[i]);
		fd = bench_connect(&bench);
		ask_until_listed(&bench, fd, 7);
		send_call(fd, &GET_WORKERS);
		first_ms = read_old_list(fd, 7, &own_ms);
		while (clock_now_ms(&bench.clock.clock) <= first_ms + 1500)
			g_usleep(5000); /* lint: allow sleep: until the list is old */
		began_ms = clock_now_ms(&bench.clock.clock);
		send_call(fd, &GET_WORKERS);
		g_assert_cmpint(read_old_list(fd, 7, &own_ms), ==, first_ms);
		g_assert_cmpint(own_ms, >=, began_ms);
		g_assert_cmpint(clock_now_ms(&bench.clock.clock) - began_ms, <, 1500);
		close(fd);
	}
}

/* The drain does not wait for the registry: calls that still wait are refused. */
TEST("/workers/a-drain-answers-waiting-calls", test_a_drain_answers_waiting_calls)
{
	g_auto(Bench) bench;
	ClientReply reply = {0};
	g_autoptr(GError) error = NULL;
	int fd;

	bench_init(&bench, FALSE, HANG_GUARD_MS);
	fd = bench_connect(&bench);
	send_call(fd, &GET_WORKERS);
	loop_drain(bench.loop, 50);
	g_assert_false(read_reply(fd, &GET_WORKERS, &reply, &error));
	g_assert_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE);
	close(fd);
}

/* A client that goes away while it waits leaves nothing behind. */
TEST("/workers/closed-connections-are-forgotten", test_closed_connections_are_forgotten)
{
	g_auto(Bench) bench;
	ClientReply reply = {0};
	g_autoptr(GError) error = NULL;
	int other;

	bench_init(&bench, FALSE, HANG_GUARD_MS);
	other = bench_connect(&bench);
	for (guint i = 0; i < 10; i++) {
		int fd = bench_connect(&bench);

		send_call(fd, &GET_WORKERS);
		send_call(other, &GET_ID); /* once it is answered, the loop has seen the call */
		g_assert_true(read_reply(other, &GET_ID, &reply, &error));
		close(fd);
	}
	for (gint64 limit_us = g_get_monotonic_time() + HANG_GUARD_US;
	     loop_status(bench.loop).n_connections > 1;) {
		g_assert_cmpint(g_get_monotonic_time(), <, limit_us);
		send_call(other, &GET_ID);
		g_assert_true(read_reply(other, &GET_ID, &reply, &error));
	}
	close(other);
}
