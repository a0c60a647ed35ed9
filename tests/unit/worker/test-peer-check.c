/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"
#include "worker/zookeeper/peer-check.h"

#define DATACENTER_ID 3
#define TIMEOUT_MS    3600000 /* longer than a test waits */
#define SHORT_MS      200     /* of checks that time out */
#define MAX_SKEW_MS   10000

/* Our side: the clock, the peers, and whether the check is done. */
typedef struct {
	Clock clock; /* first */
	gint64 ahead_ms;
	guint datacenter_id;
	gint64 timeout_ms;
	GPtrArray *peers;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	guint n_done;
} Asker;

static gint64 asker_now_ns(const Clock *clock)
{
	return (g_get_real_time() + ((const Asker *)clock)->ahead_ms * 1000) * 1000;
}

static void asker_init(Asker *self)
{
	*self = (Asker){.clock.now_ns = asker_now_ns,
			.datacenter_id = DATACENTER_ID,
			.timeout_ms = TIMEOUT_MS,
			.peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free)};
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->changed, NULL);
}

static void asker_clear(Asker *self)
{
	g_clear_pointer(&self->peers, g_ptr_array_unref);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Asker, asker_clear)

static void on_done(gpointer user_data)
{
	Asker *self = user_data;

	pthread_mutex_lock(&self->mutex);
	self->n_done++;
	pthread_cond_signal(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

static PeerCheck *asker_begin(Asker *self)
{
	const PeerCheckConfig config = {
		.clock = &self->clock,
		.datacenter_id = self->datacenter_id,
		.timeout_ms = self->timeout_ms,
		.max_skew_ms = MAX_SKEW_MS,
		.done = on_done,
		.user_data = self,
	};

	return peer_check_new(g_steal_pointer(&self->peers), &config);
}

/* Asks them, and waits for the report. */
static void asker_run(Asker *self, PeerReport *out_report)
{
	g_autoptr(PeerCheck) check = asker_begin(self);
	struct timespec limit = {.tv_sec = g_get_real_time() / G_USEC_PER_SEC + HANG_GUARD_S};
	PeerReport again = {0};

	pthread_mutex_lock(&self->mutex);
	while (self->n_done == 0)
		g_assert_cmpint(pthread_cond_timedwait(&self->changed, &self->mutex, &limit), ==,
				0);
	pthread_mutex_unlock(&self->mutex);
	g_assert_true(peer_check_take_report(check, out_report));
	g_assert_false(peer_check_take_report(check, &again));
	g_assert_cmpuint(self->n_done, ==, 1);
}

static void asker_add(Asker *self, const char *address, const char *nonce, gint worker_id)
{
	g_ptr_array_add(self->peers, peer_new(address, nonce, worker_id));
}

TEST("/peer-check/nobody-to-ask", test_nobody_to_ask)
{
	g_auto(Asker) asker;
	g_auto(PeerReport) report = {0};

	asker_init(&asker);
	asker_run(&asker, &report);
	g_assert_cmpuint(report.contradictions->len, ==, 0);
	g_assert_cmpuint(report.agreed + report.unreachable + report.stale, ==, 0);
}

/* A server of datacenter 3 with worker ID 7 and the nonce "nonce-7". */
static FakeNext answer_as_server(const FakeRequest *request, GByteArray *out,
				 gpointer nothing G_GNUC_UNUSED)
{
	static const SnowflakeClientWorker WORKER = {
		.worker_id = 7, .nonce = (char *)"nonce-7", .state = (char *)"serving"};

	if (strcmp(request->method, "get_timestamp") == 0)
		fake_reply_i64(out, request, g_get_real_time() / 1000);
	else
		fake_reply_this_worker(out, request, &WORKER);
	return FAKE_KEEP;
}

TEST("/peer-check/servers-that-agree", test_servers_that_agree)
{
	g_autoptr(FakeServer) server = fake_server_new(answer_as_server, NULL);
	const char *address = fake_server_text(server);
	g_auto(Asker) asker;
	g_auto(PeerReport) report = {0};

	asker_init(&asker);
	asker_add(&asker, address, "nonce-7", -1);
	asker_add(&asker, address, "nonce-6", 9); /* a port that another server has now */
	/* more than there are threads */
	for (guint i = 0; i < 60; i++)
		asker_add(&asker, address, "nonce-7", 7);
	asker_run(&asker, &report);
	g_assert_cmpuint(report.agreed, ==, 61);
	g_assert_cmpuint(report.stale, ==, 1);
	g_assert_cmpuint(report.unreachable, ==, 0);
	g_assert_cmpuint(report.contradictions->len, ==, 0);
}

TEST("/peer-check/servers-that-contradict", test_servers_that_contradict)
{
	static const struct {
		guint datacenter_id;
		gint worker_id;
		gint64 ahead_ms;
		const char *message;
	} CASES[] = {
		{3, 8, 0, " says 7, its claim says 8; "},
		{4, 7, 0, " says 3, its claim is in datacenter 4, "},
		/* both clocks are read within the hang guard of each other */
		{3, 7, 3600000, " ms ahead of the median of 1 servers "},
		{3, 7, -3600000, " ms behind the median of 1 servers "},
	};
	g_autoptr(FakeServer) server = fake_server_new(answer_as_server, NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Asker) asker;
		g_auto(PeerReport) report = {0};
		const PeerContradiction *one;

		asker_init(&asker);
		asker.datacenter_id = CASES[i].datacenter_id;
		asker.ahead_ms = CASES[i].ahead_ms;
		asker_add(&asker, fake_server_text(server), "nonce-7", CASES[i].worker_id);
		asker_run(&asker, &report);
		g_assert_cmpuint(report.contradictions->len, ==, 1);
		one = report.contradictions->pdata[0];
		g_assert_nonnull(strstr(one->message, CASES[i].message));
	}
}

/* As a server of 2010; its IDs are 3 and 7, or it has none yet. */
static FakeNext answer_as_of_2010(const FakeRequest *request, GByteArray *out, gpointer has_ids)
{
	if (strcmp(request->method, "get_timestamp") == 0)
		fake_reply_i64(out, request, g_get_real_time() / 1000);
	else if (strcmp(request->method, "get_worker") == 0)
		fake_reply_exception(out, request, 1, "Invalid method name: 'get_worker'");
	else if (has_ids == NULL)
		fake_reply_exception(out, request, 6, "WorkerIdUnavailable: not yet");
	else
		fake_reply_i64(out, request, strcmp(request->method, "get_worker_id") == 0 ? 7 : 3);
	return FAKE_KEEP;
}

TEST("/peer-check/servers-without-get-worker", test_servers_without_get_worker)
{
	static const struct {
		gboolean has_ids;
		gint worker_id;
		const char *message;
	} CASES[] = {
		{TRUE, 7, NULL},
		{TRUE, -1, NULL},
		{TRUE, 8, " says 7, its claim says 8; "},
		{FALSE, 8, NULL},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(Asker) asker;
		g_auto(PeerReport) report = {0};
		g_autoptr(FakeServer) server =
			fake_server_new(answer_as_of_2010, CASES[i].has_ids ? (gpointer) "" : NULL);

		asker_init(&asker);
		asker_add(&asker, fake_server_text(server), "a nonce", CASES[i].worker_id);
		asker_run(&asker, &report);
		g_assert_cmpuint(report.agreed, ==, CASES[i].message == NULL);
		g_assert_cmpuint(report.contradictions->len, ==, CASES[i].message != NULL);
		if (CASES[i].message != NULL) {
			const PeerContradiction *one = report.contradictions->pdata[0];

			g_assert_nonnull(strstr(one->message, CASES[i].message));
		}
	}
}

/* A time that no clock shows. */
static FakeNext answer_extreme_time(const FakeRequest *request, GByteArray *out, gpointer time_ms)
{
	if (strcmp(request->method, "get_worker") == 0)
		fake_reply_exception(out, request, 1, "Invalid method name: 'get_worker'");
	else
		fake_reply_i64(out, request, *(const gint64 *)time_ms);
	return FAKE_KEEP;
}

TEST("/peer-check/extreme-times", test_extreme_times)
{
	static const gint64 TIMES_MS[] = {G_MININT64, -1, G_MAXINT64};

	for (gsize i = 0; i < G_N_ELEMENTS(TIMES_MS); i++) {
		g_auto(Asker) asker;
		g_auto(PeerReport) report = {0};
		gint64 time_ms = TIMES_MS[i];
		g_autoptr(FakeServer) server = fake_server_new(answer_extreme_time, &time_ms);
		const PeerContradiction *last;

		asker_init(&asker);
		asker_add(&asker, fake_server_text(server), "a nonce", -1);
		asker_run(&asker, &report);
		g_assert_cmpuint(report.contradictions->len, >=, 1);
		last = report.contradictions->pdata[report.contradictions->len - 1];
		g_assert_cmpint(last->kind, ==, PEER_CLOCK);
	}
}

static FakeNext answer_nonsense(const FakeRequest *request G_GNUC_UNUSED, GByteArray *out,
				gpointer user_data G_GNUC_UNUSED)
{
	g_byte_array_append(out, (const guint8 *)"HTTP/1.1 400 Bad Request\r\n", 26);
	return FAKE_CLOSE;
}

TEST("/peer-check/the-unreachable-do-not-hold-up-the-report",
     test_the_unreachable_do_not_hold_up_the_report)
{
	g_autofree char *silent = NULL, *refusing = NULL;
	int silent_fd = fake_silent_new(TRUE, &silent);
	int refusing_fd = fake_silent_new(FALSE, &refusing);
	g_autoptr(FakeServer) no_server = fake_server_new(answer_nonsense, NULL);
	g_auto(Asker) asker;
	g_auto(PeerReport) report = {0};

	asker_init(&asker);
	asker.timeout_ms = SHORT_MS;
	asker_add(&asker, silent, "a", 1);
	asker_add(&asker, refusing, "b", 2);
	asker_add(&asker, fake_server_text(no_server), "c", 3);
	asker_add(&asker, "no address", "d", 4);
	asker_add(&asker, "", "e", 5);
	asker_add(&asker, "name.invalid:7609", "f", 6);
	for (guint i = 0; i < 60; i++)
		asker_add(&asker, silent, "g", 7);
	asker_run(&asker, &report);
	g_assert_cmpuint(report.unreachable, ==, 66);
	g_assert_cmpuint(report.contradictions->len, ==, 0);
	close(silent_fd);
	close(refusing_fd);
}

/* Whoever is refused at once is not waited for. */
TEST("/peer-check/a-report-comes-as-soon-as-it-can", test_a_report_comes_as_soon_as_it_can)
{
	g_autofree char *refusing = NULL;
	int refusing_fd = fake_silent_new(FALSE, &refusing);
	g_auto(Asker) asker;
	g_auto(PeerReport) report = {0};

	asker_init(&asker);
	asker_add(&asker, refusing, "b", 2);
	asker_run(&asker, &report);
	g_assert_cmpuint(report.unreachable, ==, 1);
	close(refusing_fd);
}

/* A server that answers when it is told to. */
typedef struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	gboolean asked, may_answer;
} Gate;

static void gate_set(Gate *self, gboolean *flag)
{
	pthread_mutex_lock(&self->mutex);
	*flag = TRUE;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

static void gate_await(Gate *self, const gboolean *flag)
{
	pthread_mutex_lock(&self->mutex);
	while (!*flag)
		pthread_cond_wait(&self->changed, &self->mutex);
	pthread_mutex_unlock(&self->mutex);
}

static FakeNext answer_when_told(const FakeRequest *request, GByteArray *out, gpointer user_data)
{
	Gate *gate = user_data;

	gate_set(gate, &gate->asked);
	gate_await(gate, &gate->may_answer);
	fake_reply_worker(out, request, "serving");
	return FAKE_KEEP;
}

TEST("/peer-check/free-neither-waits-nor-reports", test_free_neither_waits_nor_reports)
{
	Gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, FALSE, FALSE};
	g_autoptr(FakeServer) server = fake_server_new(answer_when_told, &gate);
	g_auto(Asker) asker;
	PeerReport report = {0};
	PeerCheck *check;

	asker_init(&asker);
	asker_add(&asker, fake_server_text(server), "a-nonce", 7);
	check = asker_begin(&asker);
	gate_await(&gate, &gate.asked);
	g_assert_false(peer_check_take_report(check, &report));
	peer_check_free(check); /* would wait for ever if it waited for the answer */
	gate_set(&gate, &gate.may_answer);
	/* returns when the asker has closed its connection */
	g_clear_pointer(&server, fake_server_free);
	g_assert_cmpuint(asker.n_done, ==, 0);
}
