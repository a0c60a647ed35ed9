/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"
#include "worker/registration/step.h"

#define DATACENTER_ID 3
#define TIMEOUT_MS    3600000 /* longer than a test waits */
#define SHORT_MS      200     /* for checks that must time out */
#define MAX_SKEW_MS   10000
#define OFFSET_MS     1000000
#define MAX_PEERS     4
#define AHEAD_MS      3600000 /* offset of the peers' clocks from the local clock */
#define TOLERATED_MS  30000   /* delay on a busy machine */

/* Judging. The macros are about peer 0, which claims worker ID 5. */
#define ITS_NONCE ((char *)"0")
#define WORKER_INSANITY                                                                            \
	"worker ID mismatch: the server at host-0:7609 reports 6, but its claim contains 5; "
#define DATACENTER_INSANITY                                                                        \
	"datacenter ID mismatch: the server at host-0:7609 reports 4, but its claim is in this "   \
	"server's datacenter, 3; "

/* Peer i is claimed by nonce "i", at "host-i:7609". */
static GPtrArray *make_peers(guint n, const gint worker_ids[])
{
	GPtrArray *peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free);

	for (guint i = 0; i < n; i++) {
		g_autofree char *nonce = g_strdup_printf("%u", i);
		g_autofree char *address = g_strdup_printf("host-%u:7609", i);

		g_ptr_array_add(peers, peer_new(address, nonce, worker_ids[i]));
	}
	return peers;
}

static const struct {
	const char *name;
	gint claimed; /* worker ID */
	PeerAnswer answer;
	char counted; /* counted as agreed, unreachable, stale, or none of these */
	const char *contradictions[3];
} ONE_PEER[] = {
	/* clang-format off */
	{"agrees", 5, {TRUE, ITS_NONCE, 3, 5, OFFSET_MS, NULL}, 'a', {NULL}},
	{"is not reached", 5, {0}, 'u', {NULL}},
	{"is not reached in time", 5, {FALSE, ITS_NONCE, 4, 6, 0, NULL}, 'u', {NULL}},
	{"another life", 5, {TRUE, (char *)"9", 4, 6, 0, NULL}, 's', {NULL}},
	{"an empty nonce", 5, {TRUE, (char *)"", 4, 6, 0, NULL}, 's', {NULL}},
	{"no nonce", 5, {TRUE, NULL, 3, 5, OFFSET_MS, NULL}, 'a', {NULL}},
	{"has no worker ID yet", 5, {TRUE, ITS_NONCE, -1, -1, OFFSET_MS, NULL}, 'a', {NULL}},
	{"claims no worker ID yet", -1, {TRUE, ITS_NONCE, 3, 6, OFFSET_MS, NULL}, 'a', {NULL}},
	{"another worker ID", 5, {TRUE, ITS_NONCE, 3, 6, OFFSET_MS, NULL}, '-', {WORKER_INSANITY}},
	{"another worker ID, no nonce", 5, {TRUE, NULL, 3, 6, OFFSET_MS, NULL}, '-',
	 {WORKER_INSANITY}},
	{"another datacenter", 5, {TRUE, ITS_NONCE, 4, 5, OFFSET_MS, NULL}, '-',
	 {DATACENTER_INSANITY}},
	{"another datacenter, worker ID and time", 5,
	 {TRUE, ITS_NONCE, 4, 6, OFFSET_MS + MAX_SKEW_MS + 1, NULL}, '-',
	 {WORKER_INSANITY, DATACENTER_INSANITY,
	  "timestamp sanity check failed: the clock is 10001 ms behind the median of 1 "}},
	{"a worker ID that no layout has", 5, {TRUE, NULL, 3, G_MAXINT64, OFFSET_MS, NULL}, '-',
	 {"reports 9223372036854775807, but its claim contains 5"}},
	{"the largest skew", 5, {TRUE, ITS_NONCE, 3, 5, OFFSET_MS - MAX_SKEW_MS, NULL}, 'a',
	 {NULL}},
	{"one more", 5, {TRUE, ITS_NONCE, 3, 5, OFFSET_MS - MAX_SKEW_MS - 1, NULL}, 'a',
	 {"the clock is 10001 ms ahead of the median of 1 server of the datacenter; the limit is "
	  "10000 ms; "}},
	{"the time of another life", 5, {TRUE, (char *)"9", 3, 5, 0, NULL}, 's', {NULL}},
	/* clang-format on */
};

TEST("/peer-report/one-peer", test_one_peer)
{
	for (gsize i = 0; i < G_N_ELEMENTS(ONE_PEER); i++) {
		g_autoptr(GPtrArray) peers = make_peers(1, &ONE_PEER[i].claimed);
		g_auto(PeerReport) report = {0};
		guint n = 0;

		g_test_message("%s", ONE_PEER[i].name);
		peer_report_judge(peers, &ONE_PEER[i].answer, DATACENTER_ID, OFFSET_MS, MAX_SKEW_MS,
				  &report);
		g_assert_cmpuint(report.agreed, ==, ONE_PEER[i].counted == 'a');
		g_assert_cmpuint(report.unreachable, ==, ONE_PEER[i].counted == 'u');
		g_assert_cmpuint(report.stale, ==, ONE_PEER[i].counted == 's');
		g_assert_cmpint(report.clocks_known, ==,
				ONE_PEER[i].counted != 'u' && ONE_PEER[i].counted != 's');
		for (; n < 3 && ONE_PEER[i].contradictions[n] != NULL; n++) {
			const PeerContradiction *one = g_ptr_array_index(report.contradictions, n);

			g_test_message("-> %s", one->message);
			g_assert_nonnull(strstr(one->message, ONE_PEER[i].contradictions[n]));
		}
		g_assert_cmpuint(report.contradictions->len, ==, n);
	}
}

/* Clocks of @n peers, in seconds ahead of the local clock, and the difference between the local
 * clock and the median, in seconds. */
static const struct {
	guint n;
	gint64 ahead_s[MAX_PEERS];
	gint64 behind_s;   /* 0 if no contradiction */
	gint64 furthest_s; /* how far the local clock is ahead of the one that differs most */
} CLOCKS[] = {
	{1, {10}, 0, -10},
	{1, {11}, 11, -11},
	{1, {-11}, -11, 11},
	/* one wrong clock of two is not a contradiction; two are, and the nearer one counts */
	{2, {0, 3600}, 0, -3600},
	{2, {-3600, 0}, 0, 3600},
	{2, {11, 3600}, 11, -3600},
	{2, {-3600, -12}, -12, 3600},
	{2, {-3601, 3600}, 3600, 3601},
	{3, {3600, 0, 3600}, 3600, -3600},
	{3, {3600, 1, 0}, 0, -3600},
	{3, {-3600, 20, 3601}, 20, -3601},
	{4, {0, 0, 3600, 3600}, 0, -3600},
	{4, {-1, 15, 20, 3600}, 15, -3600},
	{4, {-30, -20, -15, 0}, -15, 30},
	{4, {0, 0, 0, 0}, 0, 0},
};

TEST("/peer-report/the-median-of-the-clocks-decides", test_the_median_of_the_clocks_decides)
{
	static const gint WORKER_IDS[MAX_PEERS] = {1, 2, 3, 4};

	for (gsize i = 0; i < G_N_ELEMENTS(CLOCKS); i++) {
		g_autoptr(GPtrArray) peers = make_peers(CLOCKS[i].n, WORKER_IDS);
		g_auto(PeerReport) report = {0};
		PeerAnswer answers[MAX_PEERS];
		g_autofree char *part = g_strdup_printf(
			" %" G_GINT64_FORMAT " ms %s the median of %u ",
			ABS(CLOCKS[i].behind_s) * 1000,
			CLOCKS[i].behind_s > 0 ? "behind" : "ahead of", CLOCKS[i].n);

		for (guint j = 0; j < CLOCKS[i].n; j++)
			answers[j] = (PeerAnswer){TRUE,
						  NULL,
						  DATACENTER_ID,
						  WORKER_IDS[j],
						  OFFSET_MS + CLOCKS[i].ahead_s[j] * 1000,
						  NULL};
		g_test_message("case %" G_GSIZE_FORMAT, i);
		peer_report_judge(peers, answers, DATACENTER_ID, OFFSET_MS, MAX_SKEW_MS, &report);
		g_assert_cmpuint(report.agreed, ==, CLOCKS[i].n);
		g_assert_true(report.clocks_known);
		g_assert_cmpint(report.furthest_ms, ==, CLOCKS[i].furthest_s * 1000);
		g_assert_cmpuint(report.contradictions->len, ==, CLOCKS[i].behind_s != 0);
		if (CLOCKS[i].behind_s != 0) {
			const PeerContradiction *one = report.contradictions->pdata[0];

			g_assert_cmpint(one->kind, ==, PEER_CLOCK);
			g_assert_null(one->nonce);
			g_assert_nonnull(strstr(one->message, part));
		}
	}
}

/* Judges two peers by their answers: agrees, another worker ID, another datacenter, another clock,
 * nothing. Both have the same clock. */
static void judge(const char *answers, PeerReport *out_report)
{
	static const gint WORKER_IDS[] = {1, 2};
	g_autoptr(GPtrArray) peers = make_peers(2, WORKER_IDS);
	PeerAnswer said[2];

	for (guint i = 0; i < 2; i++)
		said[i] = (PeerAnswer){
			.reached = answers[i] != '-',
			.datacenter_id = DATACENTER_ID + (answers[i] == 'd'),
			.worker_id = WORKER_IDS[i] + (answers[i] == 'w'),
			.offset_ms = OFFSET_MS + (answers[i] == 'c' ? 2 * MAX_SKEW_MS : 0),
		};
	peer_report_judge(peers, said, DATACENTER_ID, OFFSET_MS, MAX_SKEW_MS, out_report);
}

TEST("/peer-report/only-the-same-contradiction-confirms", test_only_the_same_contradiction_confirms)
{
	static const struct {
		const char *earlier, *later;
		const char *message; /* NULL if nothing is confirmed */
	} CASES[] = {
		{"ok", "ok", NULL},
		{"ww", "oo", NULL},
		{"oo", "ww", NULL},
		{"wo", "wo", "worker ID mismatch: the server at host-0"},
		{"wo", "ow", NULL},
		{"ow", "ww", "worker ID mismatch: the server at host-1"},
		{"do", "wo", NULL},
		{"od", "od", "datacenter ID mismatch: the server at host-1"},
		{"wd", "-d", "datacenter ID mismatch: the server at host-1"},
		{"wo", "-o", NULL},
		{"cc", "cc", "timestamp sanity check failed"},
		{"-c", "c-", "timestamp sanity check failed"},
		{"cc", "co", NULL},
		{"cc", "ww", NULL},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_auto(PeerReport) earlier = {0};
		g_auto(PeerReport) later = {0};
		const char *message;

		g_test_message("%s, then %s", CASES[i].earlier, CASES[i].later);
		judge(CASES[i].earlier, &earlier);
		judge(CASES[i].later, &later);
		message = peer_report_confirmed(&later, &earlier);
		g_assert_cmpint(message != NULL, ==, CASES[i].message != NULL);
		if (message != NULL)
			g_assert_true(g_str_has_prefix(message, CASES[i].message));
	}
}

/* Asking */

/* Counts the calls to done() or wake(). */
typedef struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	guint n;
} Signal;

static void signal_note(gpointer user_data)
{
	Signal *self = user_data;

	pthread_mutex_lock(&self->mutex);
	self->n++;
	pthread_cond_signal(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

/* Waits for the next call. Returns at once if a call came since the last wait. */
static void signal_take(Signal *self)
{
	struct timespec limit = {.tv_sec = g_get_real_time() / G_USEC_PER_SEC + HANG_GUARD_S};

	pthread_mutex_lock(&self->mutex);
	while (self->n == 0)
		g_assert_cmpint(pthread_cond_timedwait(&self->changed, &self->mutex, &limit), ==,
				0);
	self->n--;
	pthread_mutex_unlock(&self->mutex);
}

/* The checking side: the clock, the peers, and whether the check is done. */
typedef struct {
	Clock clock; /* the first member */
	gint64 ahead_ms;
	guint datacenter_id;
	gint64 timeout_ms;
	GPtrArray *peers;
	Signal done;
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
			.peers = g_ptr_array_new_with_free_func((GDestroyNotify)peer_free),
			.done = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}};
}

static void asker_clear(Asker *self)
{
	g_clear_pointer(&self->peers, g_ptr_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Asker, asker_clear)

static PeerCheck *asker_begin(Asker *self)
{
	const PeerCheckConfig config = {
		.clock = &self->clock,
		.datacenter_id = self->datacenter_id,
		.timeout_ms = self->timeout_ms,
		.max_skew_ms = MAX_SKEW_MS,
		.done = signal_note,
		.user_data = &self->done,
	};

	return peer_check_new(g_steal_pointer(&self->peers), &config);
}

/* Asks the peers, and waits for the report. */
static void asker_run(Asker *self, PeerReport *out_report)
{
	g_autoptr(PeerCheck) check = asker_begin(self);
	PeerReport again = {0};

	signal_take(&self->done);
	g_assert_true(peer_check_take_report(check, out_report));
	g_assert_false(peer_check_take_report(check, &again));
	g_assert_cmpuint(self->done.n, ==, 0);
}

static void asker_add(Asker *self, const char *address, const char *nonce, gint worker_id)
{
	g_ptr_array_add(self->peers, peer_new(address, nonce, worker_id));
}

TEST("/peer-check/no-peers", test_no_peers)
{
	g_auto(Asker) asker;
	g_auto(PeerReport) report = {0};

	asker_init(&asker);
	asker_run(&asker, &report);
	g_assert_cmpuint(report.contradictions->len, ==, 0);
	g_assert_cmpuint(report.agreed + report.unreachable + report.stale, ==, 0);
	g_assert_false(report.clocks_known);
}

/* Answers as a server in datacenter 3 with worker ID 7 and the nonce "nonce-7". */
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
	asker_add(&asker, address, "nonce-6", 9); /* another server uses the port now */
	/* more than there are threads */
	for (guint i = 0; i < 60; i++)
		asker_add(&asker, address, "nonce-7", 7);
	asker_run(&asker, &report);
	g_assert_cmpuint(report.agreed, ==, 61);
	g_assert_cmpuint(report.stale, ==, 1);
	g_assert_cmpuint(report.unreachable, ==, 0);
	g_assert_cmpuint(report.contradictions->len, ==, 0);
}

/* Answers as a legacy server with datacenter 3 and worker 7, or without them. */
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

/* Answers all calls with a number that no correct clock has. */
static FakeNext answer_extreme(const FakeRequest *request, GByteArray *out, gpointer number)
{
	if (strcmp(request->method, "get_worker") == 0)
		fake_reply_exception(out, request, 1, "Invalid method name: 'get_worker'");
	else
		fake_reply_i64(out, request, *(const gint64 *)number);
	return FAKE_KEEP;
}

TEST("/peer-check/contradictions", test_contradictions)
{
	static const gint64 LOWEST = G_MININT64, BELOW_0 = -1, HIGHEST = G_MAXINT64;
	static const struct {
		FakeAnswer answer;
		gconstpointer user_data;
		guint datacenter_id;
		gint worker_id;
		gint64 ahead_ms;
		const char *message; /* text of the last contradiction; NULL if none */
	} CASES[] = {
		{answer_as_server, NULL, 3, 8, 0, " reports 7, but its claim contains 8; "},
		{answer_as_server, NULL, 4, 7, 0,
		 " reports 3, but its claim is in this server's datacenter, 4; "},
		/* HANG_GUARD_MS limits the time between the two readings */
		{answer_as_server, NULL, 3, 7, 3600000, " ms ahead of the median of 1 server "},
		{answer_as_server, NULL, 3, 7, -3600000, " ms behind the median of 1 server "},
		{answer_as_of_2010, "", 3, 7, 0, NULL},
		{answer_as_of_2010, "", 3, -1, 0, NULL},
		{answer_as_of_2010, "", 3, 8, 0, " reports 7, but its claim contains 8; "},
		{answer_as_of_2010, NULL, 3, 8, 0, NULL},
		{answer_extreme, &LOWEST, 3, -1, 0, " ms ahead of the median of 1 server "},
		{answer_extreme, &BELOW_0, 3, -1, 0, " ms ahead of the median of 1 server "},
		{answer_extreme, &HIGHEST, 3, -1, 0, " ms behind the median of 1 server "},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(FakeServer) server =
			fake_server_new(CASES[i].answer, (gpointer)CASES[i].user_data);
		g_auto(Asker) asker;
		g_auto(PeerReport) report = {0};
		const PeerContradiction *last;

		g_test_message("case %zu", i);
		asker_init(&asker);
		asker.datacenter_id = CASES[i].datacenter_id;
		asker.ahead_ms = CASES[i].ahead_ms;
		asker_add(&asker, fake_server_text(server), "nonce-7", CASES[i].worker_id);
		asker_run(&asker, &report);
		if (CASES[i].message == NULL) {
			g_assert_cmpuint(report.agreed, ==, 1);
			g_assert_cmpuint(report.contradictions->len, ==, 0);
			continue;
		}
		g_assert_cmpuint(report.contradictions->len, >=, 1);
		if (CASES[i].answer != answer_extreme)
			g_assert_cmpuint(report.contradictions->len, ==, 1);
		last = report.contradictions->pdata[report.contradictions->len - 1];
		g_test_message("%s", last->message);
		g_assert_nonnull(strstr(last->message, CASES[i].message));
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

/* The check does not wait for a peer that refuses the connection. */
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

/* A server that answers when the test allows it. */
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
	peer_check_free(check); /* hangs if it waits for the answer */
	gate_set(&gate, &gate.may_answer);
	/* returns when the asker has closed its connection */
	g_clear_pointer(&server, fake_server_free);
	g_assert_cmpuint(asker.done.n, ==, 0);
}

/* The clocks of the peers in a list */

/* Answers as a legacy server whose clock is ahead. */
static FakeNext answer_ahead(const FakeRequest *request, GByteArray *out, gpointer has_ids)
{
	if (strcmp(request->method, "get_timestamp") != 0)
		return answer_as_of_2010(request, out, has_ids);
	fake_reply_i64(out, request, g_get_real_time() / 1000 + AHEAD_MS);
	return FAKE_KEEP;
}

static Signal woken = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};

static Registration *fixture_registration_new(const SystemClock *clock)
{
	Registration *self = g_new0(Registration, 1);

	self->config.clock = clock;
	self->config.nonce = (char *)"mine";
	self->config.datacenter_id = DATACENTER_ID;
	self->registry.wake = signal_note;
	self->registry.wake_data = &woken;
	self->report.list = worker_list_new();
	self->facts.now_us = 1;
	return self;
}

static void fixture_registration_free(Registration *self)
{
	peer_check_free(self->peers.clocks);
	worker_list_free(self->report.list);
	g_free(self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Registration, fixture_registration_free)

static void add_peer(Registration *self, gint datacenter_id, const char *address, const char *nonce)
{
	SnowflakeClientWorker *worker = g_new0(SnowflakeClientWorker, 1);

	worker->datacenter_id = datacenter_id;
	worker->worker_id = 7;
	worker->address = g_strdup(address);
	worker->nonce = g_strdup(nonce);
	g_ptr_array_add(self->report.list->workers, worker);
}

static void ask_clocks(Registration *self)
{
	step_request_clocks(self);
	if (self->peers.clocks == NULL)
		return;
	signal_take(&woken);
	step_take_clocks(self);
	g_assert_null(self->peers.clocks);
}

TEST("/peer-clocks/which-peers", test_which_peers)
{
	static const struct {
		const char *name;
		gint datacenter_id;
		const char *nonce;
		guint n;
		guint asked; /* at most this number of peers */
	} CASES[] = {
		{"no peer", DATACENTER_ID, "other", 0, 0},
		{"one peer", DATACENTER_ID, "other", 1, 1},
		{"itself", DATACENTER_ID, "mine", 1, 0},
		{"a peer in another datacenter", 2, "other", 1, 0},
		{"many peers", DATACENTER_ID, "other", 20, 16},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(FakeServer) server = fake_server_new(answer_ahead, (gpointer) "");
		SystemClock clock;

		system_clock_init(&clock);

		g_autoptr(Registration) self = fixture_registration_new(&clock);

		g_test_message("%s", CASES[i].name);
		self->report.peers.known = TRUE; /* from an earlier report */
		for (guint j = 0; j < CASES[i].n; j++)
			add_peer(self, CASES[i].datacenter_id, fake_server_text(server),
				 CASES[i].nonce);
		add_peer(self, DATACENTER_ID, "", "nowhere");
		ask_clocks(self);
		/* a second may be too short, as the server serves one connection at a time */
		g_assert_cmpuint(fake_server_connections(server), <=, CASES[i].asked);
		g_assert_cmpint(self->report.peers.known, ==, CASES[i].asked > 0);
		if (CASES[i].asked > 0)
			g_assert_cmpint(
				ABS(self->report.peers.ahead_ns / CLOCK_NS_PER_MS + AHEAD_MS), <,
				TOLERATED_MS);
	}
}

/* The clocks are read every 30 s, even if lists arrive more often. */
TEST("/peer-clocks/how-often", test_how_often)
{
	g_autoptr(FakeServer) server = fake_server_new(answer_ahead, (gpointer) "");
	SystemClock clock;

	system_clock_init(&clock);

	g_autoptr(Registration) self = fixture_registration_new(&clock);

	add_peer(self, DATACENTER_ID, fake_server_text(server), "other");
	for (guint second = 0; second <= 60; second += 5) {
		self->facts.now_us = 1 + second * G_USEC_PER_SEC;
		ask_clocks(self);
		g_assert_cmpuint(fake_server_connections(server), ==, 1 + second / 30);
	}
}

/* An extreme clock does not overflow. */
TEST("/peer-clocks/extremes", test_extremes)
{
	static const gint64 FURTHEST_MS[] = {G_MININT64 / 4, G_MAXINT64 / 4};
	g_autoptr(Registration) self = fixture_registration_new(NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(FURTHEST_MS); i++) {
		const PeerReport report = {.clocks_known = TRUE, .furthest_ms = FURTHEST_MS[i]};

		step_note_clocks(self, &report);
		g_assert_cmpint(ABS(self->report.peers.ahead_ns), >, G_MAXINT64 / 2);
		g_assert_cmpint(self->report.peers.ahead_ns > 0, ==, FURTHEST_MS[i] > 0);
	}
}
