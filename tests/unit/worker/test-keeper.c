/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/keeper.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/log.h"
#include "server/worker/registry-file.h"
#include "state-fixture.h"

#define RECORD       "worker-0-0.json"
#define LIMIT_US     (20 * G_USEC_PER_SEC) /* for whatever is waited for */
#define HOUR_NS      G_GINT64_CONSTANT(3600000000000)
#define SECOND_NS    G_GINT64_CONSTANT(1000000000)
#define MAX_SKEW_MS  10000
#define MAX_AHEAD_MS 10

/* The log, in place of the server's: how often each event was logged, and the last line. */
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static guint logged[LOG_N_EVENTS];
static char last_line[LOG_N_EVENTS][512];

void log_event(LogEvent event, const char *fields, ...)
{
	va_list arguments;

	va_start(arguments, fields);
	pthread_mutex_lock(&log_mutex);
	logged[event]++;
	g_vsnprintf(last_line[event], sizeof last_line[event], fields, arguments);
	pthread_mutex_unlock(&log_mutex);
	va_end(arguments);
}

char *log_quote(const char *text)
{
	return g_strdup_printf("\"%s\"", text);
}

static guint times_logged(LogEvent event)
{
	guint n;

	pthread_mutex_lock(&log_mutex);
	n = logged[event];
	pthread_mutex_unlock(&log_mutex);
	return n;
}

static void assert_logged(LogEvent event, guint times, const char *part)
{
	pthread_mutex_lock(&log_mutex);
	g_assert_cmpuint(logged[event], ==, times);
	g_assert_nonnull(strstr(last_line[event], part));
	pthread_mutex_unlock(&log_mutex);
}

/* A registry that does as it is told, and remembers what it was asked. */
typedef struct {
	Registry registry;
	pthread_mutex_t mutex; /* for what follows */
	/* what to answer */
	int claim_code, extend_code; /* a RegistryError, or WORKS */
	gint64 first_tick;           /* of the next claim; 0: the tick asked at */
	guint worker_id;
	gint64 wait_ticks;
	/* what was asked */
	guint claims, extensions, hand_backs;
	gint64 claimed_at_tick;
	gint64 end_tick;        /* reserved */
	gint64 gained_ticks[8]; /* by each of the first extensions: its end minus the tick then */
	gint64 last_tick;
	const Clock *clock;
} FakeRegistry;

#define WORKS (-1)

static gint64 tick_of(const Clock *clock)
{
	return layout_tick_at(&LAYOUT_TWITTER, clock_now_ms(clock));
}

static gboolean fake_claim(Registry *registry, gint64 now_tick, gint64 length_ticks,
			   Reservation *out_reservation, gint64 *out_wait_until_tick,
			   GError **error)
{
	FakeRegistry *self = (FakeRegistry *)registry;
	int code;

	pthread_mutex_lock(&self->mutex);
	code = self->claim_code;
	self->claims++;
	self->claimed_at_tick = now_tick;
	if (code == WORKS) {
		self->end_tick = now_tick + length_ticks;
		*out_reservation = (Reservation){
			.datacenter_id = 2,
			.worker_id = self->worker_id,
			.first_tick = self->first_tick != 0 ? self->first_tick : now_tick,
			.end_tick = self->end_tick,
		};
	} else {
		if (code == REGISTRY_ERROR_WAIT)
			*out_wait_until_tick = now_tick + self->wait_ticks;
		g_set_error(error, REGISTRY_ERROR, code, "claim says %d", code);
	}
	pthread_mutex_unlock(&self->mutex);
	return code == WORKS;
}

static gboolean fake_extend(Registry *registry, gint64 end_tick, gint64 *out_end_tick,
			    GError **error)
{
	FakeRegistry *self = (FakeRegistry *)registry;
	int code;

	pthread_mutex_lock(&self->mutex);
	code = self->extend_code;
	if (self->extensions < G_N_ELEMENTS(self->gained_ticks))
		self->gained_ticks[self->extensions] = end_tick - tick_of(self->clock);
	self->extensions++;
	if (code == WORKS) {
		self->end_tick = MAX(self->end_tick, end_tick);
		*out_end_tick = self->end_tick;
	} else {
		g_set_error(error, REGISTRY_ERROR, code, "extend says %d", code);
	}
	pthread_mutex_unlock(&self->mutex);
	return code == WORKS;
}

static gboolean fake_hand_back(Registry *registry, gint64 last_tick, GError **error)
{
	FakeRegistry *self = (FakeRegistry *)registry;
	int code;

	pthread_mutex_lock(&self->mutex);
	code = self->extend_code;
	self->hand_backs++;
	self->last_tick = last_tick;
	if (code != WORKS)
		g_set_error(error, REGISTRY_ERROR, code, "hand-back says %d", code);
	pthread_mutex_unlock(&self->mutex);
	return code == WORKS;
}

static void fake_free(Registry *registry G_GNUC_UNUSED)
{
}

/* Reading and writing a field of a fake, from a test. */
#define FAKE_GET(fake, field)                                                                      \
	({                                                                                         \
		pthread_mutex_lock(&(fake)->mutex);                                                \
		__typeof__((fake)->field) value_ = (fake)->field;                                  \
		pthread_mutex_unlock(&(fake)->mutex);                                              \
		value_;                                                                            \
	})
#define FAKE_SET(fake, field, new_value)                                                           \
	do {                                                                                       \
		pthread_mutex_lock(&(fake)->mutex);                                                \
		(fake)->field = new_value;                                                         \
		pthread_mutex_unlock(&(fake)->mutex);                                              \
	} while (0)

/* A keeper with all that it needs. */
typedef struct {
	SystemClock clock;
	Generator *generator;
	FakeRegistry fake;
	Keeper *keeper;
	_Atomic guint changes; /* calls of changed() */
} Server;

static void count_change(gpointer user_data)
{
	Server *self = user_data;

	atomic_fetch_add(&self->changes, 1);
}

static void server_init(Server *self)
{
	static const RegistryOps FAKE_OPS = {fake_claim, fake_extend, fake_hand_back, fake_free};
	const GeneratorPolicy policy = {MAX_AHEAD_MS, 1, 1000};

	pthread_mutex_lock(&log_mutex);
	memset(logged, 0, sizeof logged);
	pthread_mutex_unlock(&log_mutex);
	*self = (Server){0};
	system_clock_init(&self->clock);
	self->generator = generator_new(&LAYOUT_TWITTER, &self->clock.clock, &policy);
	self->fake.registry = (Registry){&FAKE_OPS, 400, 400, FALSE};
	pthread_mutex_init(&self->fake.mutex, NULL);
	self->fake.claim_code = self->fake.extend_code = WORKS;
	self->fake.worker_id = 3;
	self->fake.clock = &self->clock.clock;
}

static void server_start_on(Server *self, Registry *registry)
{
	self->keeper = keeper_new(registry, self->generator, &self->clock,
				  &(KeeperConfig){MAX_SKEW_MS, count_change, self});
	keeper_start(self->keeper);
}

static void server_start(Server *self)
{
	server_start_on(self, &self->fake.registry);
}

static void server_clear(Server *self)
{
	keeper_free(self->keeper);
	generator_free(self->generator);
	pthread_mutex_destroy(&self->fake.mutex);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Server, server_clear)

static WorkerState state_of(Server *self)
{
	WorkerStatus status;

	keeper_get_status(self->keeper, &status);
	return status.state;
}

/* Waits for what must come. */
#define WAIT_FOR(condition)                                                                        \
	do {                                                                                       \
		gint64 give_up_us_ = g_get_monotonic_time() + LIMIT_US;                            \
                                                                                                   \
		while (!(condition)) {                                                             \
			g_assert_cmpint(g_get_monotonic_time(), <, give_up_us_);                   \
			g_usleep(500);                                                             \
		}                                                                                  \
	} while (0)

static DrawStatus draw(Server *self, gint64 *out_id)
{
	DrawRefusal refusal;
	IdRun run;
	DrawStatus status = generator_draw(self->generator, 1, &run, &refusal);

	if (status == DRAW_OK)
		*out_id = id_run_get(&run, 0);
	return status;
}

/* As a client does: asks again when it is refused for want of a reservation. */
static gint64 draw_in_time(Server *self)
{
	gint64 give_up_us = g_get_monotonic_time() + LIMIT_US;
	gint64 id = -1;

	while (draw(self, &id) != DRAW_OK) {
		keeper_demand(self->keeper);
		g_assert_cmpint(g_get_monotonic_time(), <, give_up_us);
		g_usleep(500);
	}
	return id;
}

static gint64 tick_of_id(gint64 id)
{
	return layout_tick_at(&LAYOUT_TWITTER, layout_decode(&LAYOUT_TWITTER, id).time_ms);
}

static void test_serves(void)
{
	g_auto(Server) server;
	WorkerStatus status;
	LayoutParts parts;

	server_init(&server);
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	parts = layout_decode(&LAYOUT_TWITTER, draw_in_time(&server));
	g_assert_cmpuint(parts.datacenter_id, ==, 2);
	g_assert_cmpuint(parts.worker_id, ==, 3);
	keeper_get_status(server.keeper, &status);
	g_assert_cmpint(status.datacenter_id, ==, 2);
	g_assert_cmpint(status.worker_id, ==, 3);
	g_assert_cmpint(ABS(status.claimed_at_ms - g_get_real_time() / 1000), <, 10000);
	g_assert_cmpint(status.reserved_until_ms, >, status.claimed_at_ms);
	assert_logged(LOG_STATE, 1, "from=starting to=serving");
	assert_logged(LOG_WORKER_CLAIMED, 1, "datacenter_id=2 worker_id=3 first=20");
	g_assert_null(keeper_error(server.keeper));
	WAIT_FOR(atomic_load(&server.changes) > 0);
}

static void test_extends_while_asked(void)
{
	g_auto(Server) server;
	gint64 started_us, first_end;

	server_init(&server);
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	first_end = FAKE_GET(&server.fake, end_tick);
	started_us = g_get_monotonic_time();
	while (FAKE_GET(&server.fake, extensions) < 6)
		draw_in_time(&server);
	/* a quarter of 400 ms each, and never refused in between */
	g_assert_cmpint(g_get_monotonic_time() - started_us, >=, 500000);
	g_assert_cmpint(FAKE_GET(&server.fake, end_tick), >, first_end + 500);
	g_assert_cmpuint(times_logged(LOG_STATE), ==, 1);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
}

static void test_extends_when_idle(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.extend_when_idle = TRUE;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) >= 3);
}

static void test_lapses_when_idle(void)
{
	g_auto(Server) server;
	gint64 id;

	server_init(&server);
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	WAIT_FOR(tick_of(&server.clock.clock) > FAKE_GET(&server.fake, end_tick) + MAX_AHEAD_MS);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, 0);
	g_assert_cmpint(draw(&server, &id), ==, DRAW_UNRESERVED);
	g_assert_cmpint(state_of(&server), ==, WORKER_SERVING);
	g_assert_cmpint(keeper_demand(server.keeper), ==, 0);
	WAIT_FOR(draw(&server, &id) == DRAW_OK);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), >=, 1);
}

/* Lengths double from the first to the longest. */
static void test_lengths_grow(void)
{
	static const gint64 LENGTHS[] = {400, 800, 1000, 1000};
	g_auto(Server) server;

	server_init(&server);
	server.fake.registry.first_length_ms = 200;
	server.fake.registry.max_length_ms = 1000;
	server.fake.registry.extend_when_idle = TRUE;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) >= G_N_ELEMENTS(LENGTHS));
	for (guint i = 0; i < G_N_ELEMENTS(LENGTHS); i++) {
		gint64 gained = FAKE_GET(&server.fake, gained_ticks[i]);

		/* less by what went by between the keeper's look at the clock and the fake's */
		g_assert_cmpint(gained, <=, LENGTHS[i]);
		g_assert_cmpint(gained, >, LENGTHS[i] / 2);
	}
}

static void test_extension_fails(void)
{
	g_auto(Server) server;
	gint64 id, before;

	server_init(&server);
	server_start(&server);
	before = draw_in_time(&server);
	FAKE_SET(&server.fake, extend_code, REGISTRY_ERROR_FAILED);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) >= 2);
	/* what was reserved still serves */
	g_assert_true(draw(&server, &id) == DRAW_OK ||
		      tick_of(&server.clock.clock) > FAKE_GET(&server.fake, end_tick));
	WAIT_FOR(state_of(&server) == WORKER_UNAVAILABLE);
	WAIT_FOR(draw(&server, &id) == DRAW_UNRESERVED);
	WAIT_FOR(keeper_demand(server.keeper) > 0);
	g_assert_cmpint(keeper_demand(server.keeper), <=, 1000);
	WAIT_FOR(FAKE_GET(&server.fake, extensions) >= 5);
	assert_logged(LOG_EXTEND_FAILED, 1, "error=\"extend says 0\" reserved_until=20");
	assert_logged(LOG_RESERVATION_SPENT, 1, "reserved_until=20");

	FAKE_SET(&server.fake, extend_code, WORKS);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	assert_logged(LOG_EXTEND_RECOVERED, 1, "failed_ms=");
	g_assert_cmpint(draw_in_time(&server), >, before);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
}

static void test_extension_fails_for_good(void)
{
	g_auto(Server) server;
	g_autoptr(GError) error = NULL;
	guint extensions;

	server_init(&server);
	server_start(&server);
	draw_in_time(&server);
	FAKE_SET(&server.fake, extend_code, REGISTRY_ERROR_FATAL);
	WAIT_FOR((error = keeper_error(server.keeper)) != NULL);
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	extensions = FAKE_GET(&server.fake, extensions);
	WAIT_FOR(state_of(&server) == WORKER_UNAVAILABLE);
	g_assert_cmpint(keeper_demand(server.keeper), >, 0);
	keeper_stop(server.keeper);
	g_assert_cmpuint(FAKE_GET(&server.fake, extensions), ==, extensions);
	g_assert_cmpuint(FAKE_GET(&server.fake, hand_backs), ==, 1);
}

static void test_waits(void)
{
	g_auto(Server) server;
	gint64 retry_ms;

	server_init(&server);
	server.fake.claim_code = REGISTRY_ERROR_WAIT;
	server.fake.wait_ticks = 120;
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_WAITING);
	retry_ms = keeper_demand(server.keeper);
	g_assert_cmpint(retry_ms, <=, 120);
	WAIT_FOR(FAKE_GET(&server.fake, claims) >= 3);
	assert_logged(LOG_WORKER_WAITING, 1, "why=\"claim says 1\" until=20");
	FAKE_SET(&server.fake, claim_code, WORKS);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	assert_logged(LOG_STATE, 2, "from=waiting to=serving");
}

static void test_stops_while_waiting(void)
{
	g_auto(Server) server;
	gint64 started_us;

	server_init(&server);
	server.fake.claim_code = REGISTRY_ERROR_WAIT;
	server.fake.wait_ticks = 3600000;
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_WAITING);
	g_assert_cmpint(keeper_demand(server.keeper), >, 3000000);
	started_us = g_get_monotonic_time();
	keeper_stop(server.keeper);
	g_assert_cmpint(g_get_monotonic_time() - started_us, <, LIMIT_US);
	g_assert_cmpint(state_of(&server), ==, WORKER_STOPPED);
	g_assert_cmpuint(FAKE_GET(&server.fake, hand_backs), ==, 0);
}

/* A wait that is over because the clock was set right, not because time passed. */
static void test_clock_set_right_while_waiting(void)
{
	g_auto(Server) server;
	gint64 offset_ns;

	server_init(&server);
	offset_ns = system_clock_offset_ns(&server.clock);
	system_clock_set_offset_ns(&server.clock, offset_ns - HOUR_NS);
	server.fake.claim_code = REGISTRY_ERROR_WAIT;
	server.fake.wait_ticks = 1800000;
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_WAITING);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
	FAKE_SET(&server.fake, claim_code, WORKS);
	system_clock_set_offset_ns(&server.clock, offset_ns);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
}

static void test_claim_fails(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.fake.claim_code = REGISTRY_ERROR_FAILED;
	server_start(&server);
	WAIT_FOR(FAKE_GET(&server.fake, claims) >= 4);
	g_assert_cmpint(state_of(&server), ==, WORKER_STARTING);
	assert_logged(LOG_WORKER_WAITING, 1, "why=\"claim says 0\"");
	FAKE_SET(&server.fake, claim_code, WORKS);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
}

static void test_claim_fails_for_good(void)
{
	g_auto(Server) server;
	g_autoptr(GError) error = NULL;

	server_init(&server);
	server.fake.claim_code = REGISTRY_ERROR_FATAL;
	server_start(&server);
	WAIT_FOR(atomic_load(&server.changes) > 0);
	error = keeper_error(server.keeper);
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL);
	g_assert_cmpstr(error->message, ==, "claim says 3");
	g_assert_cmpint(keeper_demand(server.keeper), >, 0);
	keeper_stop(server.keeper);
	g_assert_cmpuint(FAKE_GET(&server.fake, claims), ==, 1);
}

static void test_loses_worker(void)
{
	g_auto(Server) server;
	WorkerStatus status;
	gint64 before, after, id;
	Lease *lease;

	server_init(&server);
	server_start(&server);
	before = draw_in_time(&server);
	lease = generator_lease(server.generator);
	pthread_mutex_lock(&server.fake.mutex);
	server.fake.extend_code = REGISTRY_ERROR_LOST;
	server.fake.claim_code = REGISTRY_ERROR_FAILED;
	server.fake.worker_id = 1; /* a lower one, which makes lower IDs within a tick */
	server.fake.first_tick = tick_of_id(before) - 1000;
	pthread_mutex_unlock(&server.fake.mutex);
	WAIT_FOR(state_of(&server) == WORKER_RECLAIMING);
	g_assert_cmphex(atomic_load(&lease->cursor), ==, LEASE_CLOSED);
	g_assert_cmpint(draw(&server, &id), ==, DRAW_UNRESERVED);
	keeper_get_status(server.keeper, &status);
	g_assert_cmpint(status.worker_id, ==, -1);
	g_assert_cmpint(status.reserved_until_ms, ==, 0);
	assert_logged(LOG_WORKER_LOST, 1, "extend says 2");

	pthread_mutex_lock(&server.fake.mutex);
	server.fake.extend_code = server.fake.claim_code = WORKS;
	pthread_mutex_unlock(&server.fake.mutex);
	after = draw_in_time(&server);
	g_assert_cmpint(after, >, before);
	g_assert_cmpint(generator_lease(server.generator)->first_tick, >, tick_of_id(before));
	g_assert_cmpuint(layout_decode(&LAYOUT_TWITTER, after).worker_id, ==, 1);
	assert_logged(LOG_STATE, 3, "from=reclaiming to=serving");
	g_assert_cmpuint(FAKE_GET(&server.fake, hand_backs), ==, 0);
}

static void test_begins_later(void)
{
	g_auto(Server) server;
	gint64 first_tick;

	server_init(&server);
	first_tick = tick_of(&server.clock.clock) + 300;
	server.fake.first_tick = first_tick;
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	g_assert_cmpint(tick_of(&server.clock.clock), >=, first_tick);
	assert_logged(LOG_STATE, 2, "from=waiting to=serving");
	g_assert_cmpint(tick_of_id(draw_in_time(&server)), >=, first_tick);
}

static void test_stops(void)
{
	g_auto(Server) server;
	gint64 last, id;

	server_init(&server);
	server_start(&server);
	last = draw_in_time(&server);
	keeper_stop(server.keeper);
	keeper_stop(server.keeper);
	g_assert_cmpint(state_of(&server), ==, WORKER_STOPPED);
	g_assert_cmpint(draw(&server, &id), ==, DRAW_UNRESERVED);
	g_assert_cmpint(keeper_demand(server.keeper), >, 0);
	g_assert_cmpuint(server.fake.hand_backs, ==, 1);
	g_assert_cmpint(server.fake.last_tick, ==, tick_of_id(last));
	assert_logged(LOG_WORKER_HANDED_BACK, 1, "datacenter_id=2 worker_id=3 last=20");
	assert_logged(LOG_STATE, 2, "from=serving to=stopped");
}

static void test_stops_unused(void)
{
	g_auto(Server) server;

	server_init(&server);
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	keeper_stop(server.keeper);
	g_assert_cmpint(server.fake.last_tick, ==,
			generator_lease(server.generator)->first_tick - 1);
}

static void test_hand_back_fails(void)
{
	g_auto(Server) server;

	server_init(&server);
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	FAKE_SET(&server.fake, extend_code, REGISTRY_ERROR_FAILED);
	keeper_stop(server.keeper);
	g_assert_cmpint(state_of(&server), ==, WORKER_STOPPED);
	g_assert_cmpuint(server.fake.hand_backs, ==, 1);
	g_assert_cmpuint(times_logged(LOG_WORKER_HANDED_BACK), ==, 0);
	assert_logged(LOG_EXTEND_FAILED, 1, "handing_back=true error=\"hand-back says 0\"");
}

static void test_never_started(void)
{
	g_auto(Server) server;

	server_init(&server);
	server.keeper = keeper_new(&server.fake.registry, server.generator, &server.clock,
				   &(KeeperConfig){MAX_SKEW_MS, NULL, NULL});
	keeper_stop(server.keeper);
	g_assert_cmpint(state_of(&server), ==, WORKER_STOPPED);
	g_assert_cmpuint(server.fake.claims, ==, 0);
}

/* The system's clock has stepped back by an hour, as the keeper sees it. */
static void test_clock_back(void)
{
	g_auto(Server) server;
	gint64 offset_ns;

	server_init(&server);
	offset_ns = system_clock_offset_ns(&server.clock);
	system_clock_set_offset_ns(&server.clock, offset_ns + HOUR_NS);
	server_start(&server);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	g_assert_cmpint(ABS(system_clock_offset_ns(&server.clock) - offset_ns), <, SECOND_NS);
	assert_logged(LOG_CLOCK_BACK, 1, "by_ms=3");
	g_assert_cmpint(FAKE_GET(&server.fake, claimed_at_tick), <=, tick_of(&server.clock.clock));
}

/* It has jumped forward by an hour, which is not believed yet. */
static void test_clock_held(void)
{
	g_auto(Server) server;
	gint64 offset_ns;

	server_init(&server);
	offset_ns = system_clock_offset_ns(&server.clock);
	system_clock_set_offset_ns(&server.clock, offset_ns - HOUR_NS);
	server_start(&server);
	WAIT_FOR(times_logged(LOG_CLOCK_HELD) == 1);
	while (FAKE_GET(&server.fake, extensions) < 3)
		draw_in_time(&server);
	/* an hour behind the jump, as if there had been none */
	g_assert_cmpint(system_clock_offset_ns(&server.clock), ==, offset_ns - HOUR_NS);
	g_assert_cmpint(FAKE_GET(&server.fake, end_tick), <=, tick_of(&server.clock.clock) + 400);
	assert_logged(LOG_CLOCK_HELD, 1, "by_ms=3");
	g_assert_cmpuint(times_logged(LOG_CLOCK_FORWARD), ==, 0);
}

/* From here on with a real directory. */

static Registry *file_registry(const char *directory, const char *nonce)
{
	return registry_file_new(&(RegistryFileConfig){
		.directory = directory,
		.layout = &LAYOUT_TWITTER,
		.nonce = nonce,
		.address = "127.0.0.1:7609",
	});
}

static void test_file_life(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	gint64 last = 0;

	for (int life = 0; life < 3; life++) {
		g_auto(Server) server;
		gint64 id;

		server_init(&server);
		server_start_on(&server, file_registry(directory, life % 2 == 0 ? "n1" : "n2"));
		id = draw_in_time(&server);
		g_assert_cmpint(id, >, last);
		last = id;
		keeper_stop(server.keeper);
		/* all but what was used */
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), ==, tick_of_id(last));
	}
}

static void test_file_idle(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *path = g_build_filename(directory, RECORD, NULL);
	struct stat before, after;
	g_auto(Server) server;
	gint64 end_tick, id;

	server_init(&server);
	server_start_on(&server, file_registry(directory, "n1"));
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
	g_assert_no_errno(stat(path, &before));
	end_tick = state_fixture_record_end(directory, RECORD);
	WAIT_FOR(tick_of(&server.clock.clock) > end_tick + MAX_AHEAD_MS);
	g_assert_no_errno(stat(path, &after));
	g_assert_cmpint(before.st_ino, ==, after.st_ino);
	g_assert_cmpint(before.st_mtim.tv_nsec, ==, after.st_mtim.tv_nsec);
	g_assert_cmpint(draw(&server, &id), ==, DRAW_UNRESERVED);
	id = draw_in_time(&server);
	g_assert_cmpint(state_fixture_record_end(directory, RECORD), >=, tick_of_id(id));
}

static void test_file_full_disk(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	gint64 before;

	if (!state_fixture_mount(directory))
		return;

	g_auto(Server) server;

	server_init(&server);
	server_start_on(&server, file_registry(directory, "n1"));
	before = draw_in_time(&server);
	state_fixture_fill(directory);
	WAIT_FOR(state_of(&server) == WORKER_UNAVAILABLE);
	assert_logged(LOG_EXTEND_FAILED, 1, "No space left on device");
	g_assert_null(keeper_error(server.keeper));
	state_fixture_empty(directory);
	g_assert_cmpint(draw_in_time(&server), >, before);
	WAIT_FOR(state_of(&server) == WORKER_SERVING);
}

static void test_file_unusable(void)
{
	g_autoptr(StateFixture) directory = state_fixture_new();
	g_autofree char *below = g_build_filename(directory, "file", "below", NULL);
	g_autoptr(GError) error = NULL;
	g_auto(Server) server;

	server_init(&server);
	state_fixture_write(directory, "file", "");
	server_start_on(&server, file_registry(below, "n1"));
	WAIT_FOR((error = keeper_error(server.keeper)) != NULL);
	g_assert_nonnull(strstr(error->message, "Not a directory"));
}

/* The property that everything rests on: whenever an ID exists, the record covers its tick. */
typedef struct {
	Server *server;
	const char *directory;
	_Atomic gboolean done;
	_Atomic guint64 drawn;
	pthread_t thread;
} Drawer;

static void *draw_and_check(void *user_data)
{
	Drawer *self = user_data;
	guint64 drawn = 0;

	while (!atomic_load(&self->done)) {
		gint64 id = draw_in_time(self->server);

		/* reading a file takes as long as drawing a hundred IDs */
		if (++drawn % 64 == 0)
			g_assert_cmpint(state_fixture_record_end(self->directory, RECORD), >=,
					tick_of_id(id));
	}
	atomic_store(&self->drawn, drawn);
	return NULL;
}

static void test_record_covers_ids(void)
{
	enum { THREADS = 2, EXTENSIONS = 8 };
	g_autoptr(StateFixture) directory = state_fixture_new();
	Drawer drawers[THREADS];
	g_auto(Server) server;
	gint64 end_tick;

	server_init(&server);
	server_start_on(&server, file_registry(directory, "n1"));
	draw_in_time(&server);
	for (int i = 0; i < THREADS; i++) {
		drawers[i] = (Drawer){.server = &server, .directory = directory};
		g_assert_cmpint(
			pthread_create(&drawers[i].thread, NULL, draw_and_check, &drawers[i]), ==,
			0);
	}
	end_tick = state_fixture_record_end(directory, RECORD);
	for (int i = 0; i < EXTENSIONS; i++) {
		WAIT_FOR(state_fixture_record_end(directory, RECORD) > end_tick);
		end_tick = state_fixture_record_end(directory, RECORD);
	}
	for (int i = 0; i < THREADS; i++) {
		atomic_store(&drawers[i].done, TRUE);
		pthread_join(drawers[i].thread, NULL);
		g_assert_cmpuint(atomic_load(&drawers[i].drawn), >, 1000);
	}
}

/* A life that draws and reports each ID until it is killed. */
static void G_GNUC_NORETURN draw_until_killed(const char *directory, int out)
{
	g_autofree char *nonce = g_strdup_printf("life-%d", (int)getpid());
	Server server;

	server_init(&server);
	server_start_on(&server, file_registry(directory, nonce));
	for (;;) {
		gint64 id = draw_in_time(&server);

		if (write(out, &id, sizeof id) != sizeof id)
			_exit(1);
	}
}

static void test_killed_in_a_loop(void)
{
	enum { LIVES = 4, IDS = 20000 };
	g_autoptr(StateFixture) directory = state_fixture_new();
	gint64 last = 0;

	for (int life = 0; life < LIVES; life++) {
		int pipe_fds[2], status;
		pid_t pid;
		gint64 id;

		g_assert_no_errno(pipe(pipe_fds));
		pid = fork();
		if (pid == 0)
			draw_until_killed(directory, pipe_fds[1]);
		close(pipe_fds[1]);
		for (int n = 0; read(pipe_fds[0], &id, sizeof id) == sizeof id; n++) {
			g_assert_cmpint(id, >, last); /* than every ID of every life */
			last = id;
			if (n == IDS)
				kill(pid, SIGKILL);
		}
		close(pipe_fds[0]);
		g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
		g_assert_true(WIFSIGNALED(status));
		g_assert_cmpint(state_fixture_record_end(directory, RECORD), >=, tick_of_id(last));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/keeper/serves", test_serves);
	g_test_add_func("/keeper/extends-while-asked", test_extends_while_asked);
	g_test_add_func("/keeper/extends-when-idle", test_extends_when_idle);
	g_test_add_func("/keeper/lapses-when-idle", test_lapses_when_idle);
	g_test_add_func("/keeper/lengths-grow", test_lengths_grow);
	g_test_add_func("/keeper/extension-fails", test_extension_fails);
	g_test_add_func("/keeper/extension-fails-for-good", test_extension_fails_for_good);
	g_test_add_func("/keeper/waits", test_waits);
	g_test_add_func("/keeper/stops-while-waiting", test_stops_while_waiting);
	g_test_add_func("/keeper/clock-set-right", test_clock_set_right_while_waiting);
	g_test_add_func("/keeper/claim-fails", test_claim_fails);
	g_test_add_func("/keeper/claim-fails-for-good", test_claim_fails_for_good);
	g_test_add_func("/keeper/loses-worker", test_loses_worker);
	g_test_add_func("/keeper/begins-later", test_begins_later);
	g_test_add_func("/keeper/stops", test_stops);
	g_test_add_func("/keeper/stops-unused", test_stops_unused);
	g_test_add_func("/keeper/hand-back-fails", test_hand_back_fails);
	g_test_add_func("/keeper/never-started", test_never_started);
	g_test_add_func("/keeper/clock-back", test_clock_back);
	g_test_add_func("/keeper/clock-held", test_clock_held);
	g_test_add_func("/keeper/file/life", test_file_life);
	g_test_add_func("/keeper/file/idle", test_file_idle);
	g_test_add_func("/keeper/file/full-disk", test_file_full_disk);
	g_test_add_func("/keeper/file/unusable", test_file_unusable);
	g_test_add_func("/keeper/file/record-covers-ids", test_record_covers_ids);
	g_test_add_func("/keeper/file/killed-in-a-loop", test_killed_in_a_loop);
	return g_test_run();
}
