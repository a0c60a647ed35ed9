/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/peer-clocks.h"

#include <pthread.h>
#include <string.h>

#include "tests/unit/client/fake-server.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/unit-test.h"

#define AHEAD_MS     3600000 /* their clocks, of ours */
#define TOLERATED_MS 30000   /* a machine that is busy */

static FakeNext answer(const FakeRequest *request, GByteArray *out, gpointer nothing G_GNUC_UNUSED)
{
	if (strcmp(request->method, "get_worker") == 0)
		fake_reply_exception(out, request, 1, "Invalid method name: 'get_worker'");
	else if (strcmp(request->method, "get_timestamp") == 0)
		fake_reply_i64(out, request, g_get_real_time() / 1000 + AHEAD_MS);
	else
		fake_reply_i64(out, request, 1);
	return FAKE_KEEP;
}

/* They have answered, or their time is up. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static gboolean is_woken;

static void wake(gpointer nothing G_GNUC_UNUSED)
{
	pthread_mutex_lock(&mutex);
	is_woken = TRUE;
	pthread_cond_signal(&woken);
	pthread_mutex_unlock(&mutex);
}

static void wait_woken(void)
{
	struct timespec limit = {.tv_sec = g_get_real_time() / G_USEC_PER_SEC + HANG_GUARD_S};

	pthread_mutex_lock(&mutex);
	while (!is_woken)
		g_assert_cmpint(pthread_cond_timedwait(&woken, &mutex, &limit), ==, 0);
	is_woken = FALSE;
	pthread_mutex_unlock(&mutex);
}

static Registration *registration_new(const SystemClock *clock)
{
	Registration *self = g_new0(Registration, 1);

	self->config.clock = clock;
	self->config.nonce = (char *)"mine";
	self->config.datacenter_id = 1;
	self->registry.wake = wake;
	self->registry.workers = g_ptr_array_new_with_free_func((GDestroyNotify)worker_free);
	self->facts.now_us = 1;
	return self;
}

static void registration_free(Registration *self)
{
	peer_check_free(self->peers.clocks);
	g_ptr_array_unref(self->registry.workers);
	g_free(self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Registration, registration_free)

static void add(Registration *self, gint datacenter_id, const char *address, const char *nonce)
{
	Worker *worker = g_new0(Worker, 1);

	worker->datacenter_id = datacenter_id;
	worker->worker_id = 1;
	worker->address = g_strdup(address);
	worker->nonce = g_strdup(nonce);
	g_ptr_array_add(self->registry.workers, worker);
}

static void ask(Registration *self)
{
	zookeeper_peer_clocks_ask(self);
	if (self->peers.clocks == NULL)
		return;
	wait_woken();
	zookeeper_peer_clocks_take(self);
	g_assert_null(self->peers.clocks);
}

TEST("/peer-clocks/who-is-asked", test_who_is_asked)
{
	static const struct {
		const char *name;
		gint datacenter_id;
		const char *nonce;
		guint n;
		guint asked; /* at most */
	} CASES[] = {
		{"nobody", 1, "other", 0, 0}, {"one", 1, "other", 1, 1},
		{"itself", 1, "mine", 1, 0},  {"of another datacenter", 2, "other", 1, 0},
		{"many", 1, "other", 20, 16},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(FakeServer) server = fake_server_new(answer, NULL);
		SystemClock clock;

		system_clock_init(&clock);

		g_autoptr(Registration) self = registration_new(&clock);

		g_test_message("%s", CASES[i].name);
		self->registry.peers.known = TRUE; /* as they were before */
		for (guint j = 0; j < CASES[i].n; j++)
			add(self, CASES[i].datacenter_id, fake_server_text(server), CASES[i].nonce);
		add(self, 1, "", "nowhere");
		ask(self);
		/* it serves one after the other, for which a second may be too short */
		g_assert_cmpuint(fake_server_connections(server), <=, CASES[i].asked);
		g_assert_cmpint(self->registry.peers.known, ==, CASES[i].asked > 0);
		if (CASES[i].asked > 0)
			g_assert_cmpint(
				ABS(self->registry.peers.ahead_ns / CLOCK_NS_PER_MS + AHEAD_MS), <,
				TOLERATED_MS);
	}
}

/* However often there are lists. */
TEST("/peer-clocks/how-often", test_how_often)
{
	g_autoptr(FakeServer) server = fake_server_new(answer, NULL);
	SystemClock clock;

	system_clock_init(&clock);

	g_autoptr(Registration) self = registration_new(&clock);

	add(self, 1, fake_server_text(server), "other");
	for (guint second = 0; second <= 60; second += 5) {
		self->facts.now_us = 1 + second * G_USEC_PER_SEC;
		ask(self);
		g_assert_cmpuint(fake_server_connections(server), ==, 1 + second / 30);
	}
}

/* Whatever somebody says. */
TEST("/peer-clocks/extremes", test_extremes)
{
	static const gint64 FURTHEST_MS[] = {G_MININT64 / 4, G_MAXINT64 / 4};
	g_autoptr(Registration) self = registration_new(NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(FURTHEST_MS); i++) {
		const PeerReport report = {.clocks_known = TRUE, .furthest_ms = FURTHEST_MS[i]};

		zookeeper_peer_clocks_note(self, &report);
		g_assert_cmpint(ABS(self->registry.peers.ahead_ns), >, G_MAXINT64 / 2);
		g_assert_cmpint(self->registry.peers.ahead_ns > 0, ==, FURTHEST_MS[i] > 0);
	}
}
