/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit-test.h"
#include "tests/unit/worker/keeper-fixture.h"

#define ANY_AGE_MS 3600000
#define SECOND_NS  (1000 * (gint64)CLOCK_NS_PER_MS)
#define HOUR_NS    (3600 * SECOND_NS)

static gint64 as_of_ms; /* time of the last list of get() and get_in_time() */

static GPtrArray *get(Server *server, gint64 max_age_ms, gboolean may_wait, GError **error)
{
	GPtrArray *workers = NULL;

	if (!keeper_get_workers(server->keeper, max_age_ms, may_wait, &workers, &as_of_ms, error))
		g_assert_null(workers);
	return workers;
}

static GPtrArray *get_in_time(Server *server, gint64 max_age_ms)
{
	g_autoptr(GError) error = NULL;
	GPtrArray *workers = NULL;

	WAIT_FOR((workers = get(server, max_age_ms, TRUE, &error)) != NULL || error != NULL);
	g_assert_no_error(error);
	return workers;
}

static GPtrArray *get_quarantined(Server *server)
{
	GPtrArray *records = NULL;

	if (!keeper_get_quarantined(server->keeper, &records, &as_of_ms))
		g_assert_null(records);
	return records;
}

/* Gets a list with @n_workers workers; after it, the registry returns no more lists. */
static void take_only_list(Server *server, guint n_workers)
{
	g_autoptr(GPtrArray) workers = NULL;

	FAKE_SET(&server->fake, n_workers, n_workers);
	workers = get_in_time(server, ANY_AGE_MS);
	g_assert_cmpuint(workers->len, ==, n_workers);
	FAKE_SET(&server->fake, n_workers, 0);
}

static gint64 clock_ms(const Server *server)
{
	return clock_now_ms(&server->clock.clock);
}

TEST("/keeper-workers/lists", test_lists)
{
	g_autoptr(GPtrArray) first = NULL;
	g_autoptr(GPtrArray) second = NULL;
	g_autoptr(GPtrArray) third = NULL;
	g_auto(Server) server;
	gint64 began_ms;
	guint changes;

	server_init_serving(&server);
	server.fake.n_workers = 3;
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 0);
	changes = atomic_load(&server.changes);
	began_ms = clock_ms(&server);
	first = get_in_time(&server, 5000);
	g_assert_cmpuint(atomic_load(&server.changes), >, changes);
	g_assert_cmpuint(first->len, ==, 3);
	g_assert_cmpstr(((SnowflakeClientWorker *)first->pdata[2])->address, ==, "server:2");
	g_assert_cmpint(as_of_ms, >=, began_ms - 1);
	g_assert_cmpint(as_of_ms, <=, clock_ms(&server) + 1);

	/* known already */
	second = get_in_time(&server, ANY_AGE_MS);
	g_assert_cmpuint(second->len, ==, 3);
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 1);

	/* too old */
	FAKE_SET(&server.fake, n_workers, 5);
	scripted_time_pass(250 * G_TIME_SPAN_MILLISECOND);
	third = get_in_time(&server, 0);
	g_assert_cmpuint(third->len, ==, 5);
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 2);
	g_assert_cmpuint(first->len, ==, 3);
}

TEST("/keeper-workers/late-without-an-old-one", test_late_without_an_old_one)
{
	g_autoptr(GPtrArray) workers = NULL;
	g_autoptr(GError) error = NULL;
	g_auto(Server) server;
	guint changes;

	server_init_serving(&server);
	changes = atomic_load(&server.changes);
	g_assert_null(get(&server, 0, FALSE, &error));
	g_assert_no_error(error);
	WAIT_FOR(atomic_load(&server.changes) > changes);
	g_assert_null(get(&server, 0, TRUE, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED);
	g_assert_cmpstr(error->message, ==, "no list of the servers arrived within 2 s");
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 1);

	/* the list arrives after all */
	FAKE_SET(&server.fake, n_workers, 1);
	WAIT_FOR((workers = get(&server, ANY_AGE_MS, TRUE, NULL)) != NULL);
	g_assert_cmpuint(workers->len, ==, 1);
}

/* If the registry is unreachable, the last list is used, with its time. */
TEST("/keeper-workers/late-with-an-old-one", test_late_with_an_old_one)
{
	g_autoptr(GPtrArray) at_once = NULL;
	g_autoptr(GPtrArray) waited = NULL;
	g_autoptr(GPtrArray) again = NULL;
	g_autoptr(GPtrArray) fresh = NULL;
	g_auto(Server) server;
	gint64 taken_ms, began_us;
	guint changes;

	server_init_serving(&server);
	take_only_list(&server, 3);
	taken_ms = as_of_ms;
	WAIT_FOR(clock_ms(&server) > taken_ms + 400); /* too old for any request */
	began_us = g_get_monotonic_time();
	changes = atomic_load(&server.changes);
	g_assert_null(get(&server, 0, TRUE, NULL));
	at_once = get(&server, 0, FALSE, NULL);
	g_assert_nonnull(at_once);
	g_assert_cmpint(as_of_ms, ==, taken_ms);

	waited = get_in_time(&server, 0);
	g_assert_cmpuint(waited->len, ==, 3);
	g_assert_cmpint(as_of_ms, ==, taken_ms);
	g_assert_cmpint(g_get_monotonic_time() - began_us, >=, 300000);
	g_assert_cmpint(g_get_monotonic_time() - began_us, <, 1500000);
	WAIT_FOR(atomic_load(&server.changes) > changes); /* waiting callers are notified */

	/* callers do not wait for a late list */
	again = get(&server, 0, TRUE, NULL);
	g_assert_nonnull(again);
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 2);

	/* the registry is back */
	FAKE_SET(&server.fake, n_workers, 4);
	scripted_time_pass(3 * G_TIME_SPAN_SECOND);
	fresh = get_in_time(&server, 0);
	g_assert_cmpuint(fresh->len, ==, 4);
	g_assert_cmpint(as_of_ms, >, taken_ms);
}

/* While the registry answers, callers wait for the list, but not indefinitely. */
TEST("/keeper-workers/late-though-it-answers", test_late_though_it_answers)
{
	g_autoptr(GPtrArray) workers = NULL;
	g_auto(Server) server;
	gint64 began_us;

	server_init_serving(&server);
	take_only_list(&server, 3);
	WAIT_FOR(clock_ms(&server) > as_of_ms + 400);
	FAKE_SET(&server.fake, is_heard, TRUE);
	began_us = g_get_monotonic_time();
	workers = get_in_time(&server, 0);
	g_assert_cmpuint(workers->len, ==, 3);
	g_assert_cmpint(g_get_monotonic_time() - began_us, >=, 2 * G_USEC_PER_SEC);
}

/* The keeper requests lists repeatedly, so that changes are noticed. */
TEST("/keeper-workers/asks-again", test_asks_again)
{
	g_auto(Server) server;
	guint lists;

	server_init_serving(&server);
	take_only_list(&server, 1);
	lists = FAKE_GET(&server.fake, lists);
	WAIT_FOR((g_ptr_array_unref(get_in_time(&server, 0)),
		  FAKE_GET(&server.fake, lists) >= lists + 2));
}

/* The time of a list is that of its reading, even if it arrives late. */
TEST("/keeper-workers/is-as-old-as-its-reading", test_is_as_old_as_its_reading)
{
	g_auto(Server) server;
	gint64 now_ms;

	server_init_serving(&server);
	FAKE_SET(&server.fake, list_age_ns, HOUR_NS);
	take_only_list(&server, 1);
	now_ms = clock_ms(&server);
	g_assert_cmpint(as_of_ms, <=, now_ms - HOUR_NS / CLOCK_NS_PER_MS);
	g_assert_cmpint(as_of_ms, >, now_ms - HOUR_NS / CLOCK_NS_PER_MS - 10000);
}

/* Clock steps do not change the age of a list. */
TEST("/keeper-workers/clock-steps", test_clock_steps)
{
	static const gint64 STEPS_NS[] = {-HOUR_NS, -50 * SECOND_NS};

	for (gsize i = 0; i < G_N_ELEMENTS(STEPS_NS); i++) {
		g_auto(Server) server;
		gint64 offset_ns, taken_ms;

		server_init_serving(&server);
		take_only_list(&server, 1);
		taken_ms = as_of_ms;
		offset_ns = system_clock_offset_ns(&server.clock);
		system_clock_set_offset_ns(&server.clock, offset_ns + STEPS_NS[i]);
		g_ptr_array_unref(get(&server, ANY_AGE_MS, TRUE, NULL));
		g_assert_cmpint(as_of_ms, ==, taken_ms + STEPS_NS[i] / CLOCK_NS_PER_MS);
	}
}

/* A reservation that had ended when the list was read is not shown; one that has ended since is
 * shown. */
TEST("/keeper-workers/reservations-that-are-over", test_reservations_that_are_over)
{
	static const struct {
		/* relative to the time of the list; G_MININT64: never used, tick 0 */
		gint64 end_ms;
		gboolean is_reserved;
	} CASES[] = {{30000, TRUE}, {1000, TRUE}, {-1000, FALSE}, {G_MININT64, FALSE}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GPtrArray) workers = NULL;
		g_auto(Server) server;
		gint64 end_ms;

		server_init_serving(&server);
		end_ms = clock_ms(&server) - 10000 + CASES[i].end_ms;
		if (CASES[i].end_ms == G_MININT64)
			end_ms = layout_tick_start_ms(&LAYOUT_TWITTER, 0);
		FAKE_SET(&server.fake, list_age_ns, 10 * SECOND_NS);
		FAKE_SET(&server.fake, reserved_until_ms, end_ms);
		take_only_list(&server, 1);
		workers = get_in_time(&server, ANY_AGE_MS);
		g_assert_cmpint(((SnowflakeClientWorker *)workers->pdata[0])->reserved_until_ms, ==,
				CASES[i].is_reserved ? end_ms : 0);
	}
}

TEST("/keeper-workers/stopping", test_stopping)
{
	g_autoptr(GPtrArray) workers = NULL;
	g_autoptr(GError) error = NULL;
	g_auto(Server) none, old;
	guint lists;

	server_init_serving(&none);
	server_stop(&none);
	g_assert_null(get(&none, 0, TRUE, &error));
	g_assert_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED);
	/* a stopped keeper does not ask the registry */
	lists = FAKE_GET(&none.fake, lists);
	g_assert_null(get_quarantined(&none));
	g_assert_cmpuint(FAKE_GET(&none.fake, lists), ==, lists);

	server_init_serving(&old);
	take_only_list(&old, 2);
	scripted_time_pass(400 * G_TIME_SPAN_MILLISECOND); /* too old for any request */
	server_stop(&old);
	workers = get(&old, 0, TRUE, NULL);
	g_assert_nonnull(workers);
	g_assert_cmpuint(workers->len, ==, 2);
}

/* Seconds until the keeper asks for a list that nobody has requested; -1 if none within @most_s. */
static gint seconds_to_list(Server *server, gint most_s)
{
	guint lists = FAKE_GET(&server->fake, lists);

	for (gint waited_s = 0; waited_s <= most_s; waited_s++) {
		if (FAKE_GET(&server->fake, lists) > lists)
			return waited_s;
		scripted_time_pass(G_USEC_PER_SEC);
	}
	return -1;
}

TEST("/keeper-workers/one-is-due", test_one_is_due)
{
	g_auto(Server) server;
	gint waited_s;

	server_init_serving(&server);
	waited_s = seconds_to_list(&server, 301);
	g_assert_cmpint(waited_s, >=, 150);
	FAKE_SET(&server.fake, reachable, FALSE);
	g_assert_cmpint(seconds_to_list(&server, 400), ==, -1);
}

/* The next list is postponed in proportion to the size of the last one, and while the registry is
 * unreachable. */
TEST("/keeper-workers/next-is-put-off", test_next_is_put_off)
{
	g_auto(Server) server;
	gint waited_s;

	server_init_serving(&server);
	FAKE_SET(&server.fake, n_reads, 400);
	take_only_list(&server, 1000);
	waited_s = seconds_to_list(&server, 801);
	g_assert_cmpint(waited_s, >=, 399);
	FAKE_SET(&server.fake, reachable, FALSE);
	scripted_time_pass(G_USEC_PER_SEC);
	FAKE_SET(&server.fake, reachable, TRUE);
	waited_s = seconds_to_list(&server, 801);
	g_assert_cmpint(waited_s, >=, 399);
}

TEST("/keeper-workers/quarantined", test_quarantined)
{
	g_autoptr(GPtrArray) first = NULL;
	g_autoptr(GPtrArray) old = NULL;
	g_autoptr(GPtrArray) fresh = NULL;
	g_auto(Server) server;
	gint64 first_ms;

	server_init_serving(&server);
	FAKE_SET(&server.fake, n_workers, 3);
	FAKE_SET(&server.fake, n_quarantined, 2);
	FAKE_SET(&server.fake, reserved_until_ms, clock_ms(&server) + 3600000);
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 0);
	g_assert_null(get_quarantined(&server));
	WAIT_FOR((first = get_quarantined(&server)) != NULL);
	g_assert_cmpuint(first->len, ==, 2);
	g_assert_cmpint(((SnowflakeClientWorker *)first->pdata[1])->worker_id, ==, 1);
	g_assert_cmpstr(((SnowflakeClientWorker *)first->pdata[1])->address, ==, "server:1");
	g_assert_cmpint(as_of_ms, <=, clock_ms(&server) + 1);
	first_ms = as_of_ms;

	/* repeated requests do not reach the registry */
	FAKE_SET(&server.fake, n_quarantined, 1);
	WAIT_FOR(
		(g_ptr_array_unref(get_quarantined(&server)), clock_ms(&server) > first_ms + 9900));
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 1);
	g_assert_cmpint(as_of_ms, ==, first_ms);

	/* later the registry is asked, but the callers do not wait for it */
	scripted_time_pass(200 * G_TIME_SPAN_MILLISECOND);
	old = get_quarantined(&server);
	g_assert_cmpuint(old->len, ==, 2);
	g_assert_cmpint(as_of_ms, ==, first_ms);
	WAIT_FOR(FAKE_GET(&server.fake, lists) == 2);
	scripted_time_settle();
	fresh = get_quarantined(&server);
	g_assert_cmpuint(fresh->len, ==, 1);
	g_assert_cmpint(as_of_ms, >, first_ms);
}

/* A quarantine ends, with or without requests. */
TEST("/keeper-workers/quarantined-no-more", test_quarantined_no_more)
{
	g_autoptr(GPtrArray) records = NULL;
	g_auto(Server) server;
	gint64 end_ms;

	server_init_serving(&server);
	end_ms = clock_ms(&server) + 5000;
	FAKE_SET(&server.fake, n_workers, 1);
	FAKE_SET(&server.fake, n_quarantined, 2);
	FAKE_SET(&server.fake, reserved_until_ms, end_ms);
	WAIT_FOR((records = get_quarantined(&server)) != NULL);
	g_assert_cmpuint(records->len, ==, 2);
	g_assert_cmpint(((SnowflakeClientWorker *)records->pdata[0])->reserved_until_ms, ==,
			end_ms);
	WAIT_FOR(clock_ms(&server) > end_ms);
	g_ptr_array_unref(records);
	records = get_quarantined(&server);
	g_assert_cmpuint(records->len, ==, 0);
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 1);
}

/* In a large fleet, all servers request lists, so each does it less often. */
TEST("/keeper-workers/quarantined-in-a-large-fleet", test_quarantined_in_a_large_fleet)
{
	g_auto(Server) server;
	gint64 first_ms;

	server_init_serving(&server);
	FAKE_SET(&server.fake, n_workers, 128);
	FAKE_SET(&server.fake, n_reads, 269);
	g_assert_null(get_quarantined(&server));
	WAIT_FOR(FAKE_GET(&server.fake, lists) == 1);
	first_ms = clock_ms(&server);
	scripted_time_pass(34 * G_TIME_SPAN_SECOND);
	g_ptr_array_unref(get_quarantined(&server));
	scripted_time_settle();
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 1);
	scripted_time_pass(G_TIME_SPAN_SECOND);
	g_ptr_array_unref(get_quarantined(&server));
	scripted_time_settle();
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 2);
	g_assert_cmpint(clock_ms(&server) - first_ms, <, 36000);
}

/* Otherwise all monitored servers would request lists at once when their registry is reachable
 * again. */
TEST("/keeper-workers/quarantined-out-of-reach", test_quarantined_out_of_reach)
{
	g_auto(Server) server;

	server_init_serving(&server);
	FAKE_SET(&server.fake, n_workers, 1);
	FAKE_SET(&server.fake, reachable, FALSE);
	scripted_time_pass(G_TIME_SPAN_SECOND);
	g_assert_null(get_quarantined(&server));
	scripted_time_pass(G_TIME_SPAN_SECOND);
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 0);
	FAKE_SET(&server.fake, reachable, TRUE);
	scripted_time_pass(G_TIME_SPAN_SECOND);
	g_assert_cmpuint(FAKE_GET(&server.fake, lists), ==, 0);
	g_assert_null(get_quarantined(&server));
	WAIT_FOR(FAKE_GET(&server.fake, lists) == 1);
}
