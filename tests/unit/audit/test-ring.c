/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "audit/ring.h"
#include "tests/unit/unit-test.h"

#define BYTES 1024

static IdRun run_of(guint64 first, guint count)
{
	return (IdRun){.first_cursor = first, .fixed_bits = 7, .count = count, .time_shift = 22};
}

static void put(AuditRing *ring, guint64 first, guint count, const char *agent)
{
	const IdRun run = run_of(first, count);

	audit_ring_put(ring, &run, first + 5, agent, strlen(agent));
}

/* Puts draws of one ID until one is dropped; returns how many it took. */
static guint fill(AuditRing *ring, const char *agent)
{
	guint n = 0;

	while (audit_ring_dropped_ids(ring) == 0)
		put(ring, n++, 1, agent);
	return n - 1;
}

TEST("/ring/as-it-was-put", test_as_it_was_put)
{
	AuditRing *ring = audit_ring_new(BYTES);
	AuditDraw draw;

	g_assert_false(audit_ring_take(ring, &draw));
	/* agents of each length, which often wrap around the end of the ring */
	for (guint i = 0; i < 10 * BYTES; i++) {
		g_autofree char *agent = g_strnfill(1 + i % AUDIT_AGENT_MAX_BYTES, 'a' + i % 26);

		put(ring, i, i % 5 + 1, agent);
		g_assert_true(audit_ring_take(ring, &draw));
		g_assert_cmpuint(draw.missing, ==, 0);
		g_assert_cmpuint(draw.run.first_cursor, ==, i);
		g_assert_cmpuint(draw.run.count, ==, i % 5 + 1);
		g_assert_cmpuint(draw.run.fixed_bits, ==, 7);
		g_assert_cmpuint(draw.run.time_shift, ==, 22);
		g_assert_cmpuint(draw.tags, ==, i + 5);
		g_assert_cmpmem(draw.agent, draw.agent_length, agent, strlen(agent));
		g_assert_false(audit_ring_take(ring, &draw));
	}
	audit_ring_free(ring);
}

TEST("/ring/bounded", test_bounded)
{
	static const struct {
		gsize bytes;
		guint agent_bytes;
		guint draws; /* 40 bytes each, plus the words of the agent */
	} cases[] = {
		{1024, 1, 21},  {1024, 8, 21}, {1024, 9, 18},
		{1024, 256, 3}, {2047, 1, 21}, {2048, 1, 42},
	};

	for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
		AuditRing *ring = audit_ring_new(cases[i].bytes);
		g_autofree char *agent = g_strnfill(cases[i].agent_bytes, 'a');

		g_assert_cmpuint(fill(ring, agent), ==, cases[i].draws);
		g_assert_cmpuint(audit_ring_put_ids(ring), ==, cases[i].draws);
		audit_ring_free(ring);
	}
}

static void assert_taken(AuditRing *ring, guint64 missing, guint64 first, guint count)
{
	AuditDraw draw;

	g_assert_true(audit_ring_take(ring, &draw));
	g_assert_cmpuint(draw.missing, ==, missing);
	g_assert_cmpuint(draw.run.count, ==, count);
	if (count > 0)
		g_assert_cmpuint(draw.run.first_cursor, ==, first);
}

/* A gap is reported with the next draw, or at the end without a draw. */
TEST("/ring/gap", test_gap)
{
	AuditRing *ring = audit_ring_new(BYTES);
	guint n = fill(ring, "agent");
	AuditDraw draw;

	put(ring, 1, 1000, "agent");
	g_assert_cmpuint(audit_ring_dropped_ids(ring), ==, 1001);
	assert_taken(ring, 0, 0, 1);
	put(ring, 4711, 3, "agent");
	for (guint i = 1; i < n; i++)
		assert_taken(ring, 0, i, 1);
	assert_taken(ring, 1001, 4711, 3);
	g_assert_false(audit_ring_take(ring, &draw));

	for (guint i = 0; i <= n; i++)
		put(ring, i, 1, "agent");
	for (guint i = 0; i < n; i++)
		assert_taken(ring, 0, i, 1);
	assert_taken(ring, 1, 0, 0);
	g_assert_false(audit_ring_take(ring, &draw));
	put(ring, 1, 1, "agent");
	assert_taken(ring, 0, 1, 1);
	audit_ring_free(ring);
}

typedef struct {
	AuditRing *ring;
	guint draws;
} Putter;

/* The IDs number all draws, of 1 to 3 each. */
static gpointer put_all(gpointer user_data)
{
	const Putter *putter = user_data;
	guint64 next = 0;

	for (guint i = 0; i < putter->draws; i++) {
		put(putter->ring, next, i % 3 + 1, i % 2 ? "one" : "another-agent");
		next += i % 3 + 1;
		if (i % 64 == 0)
			sched_yield();
	}
	return NULL;
}

/* With any drops, each draw begins where the previous draws and the gap end. */
TEST("/ring/two-threads", test_two_threads)
{
	guint scale = (guint)g_ascii_strtoull(g_getenv("SNOWFLAKE_TEST_SCALE") ?: "1", NULL, 10);
	Putter putter = {audit_ring_new(BYTES), 3 * 200000 / scale};
	guint64 ids = putter.draws * 2;
	guint64 next = 0;
	AuditDraw draw;
	pthread_t thread;

	g_assert_cmpint(pthread_create(&thread, NULL, put_all, &putter), ==, 0);
	while (audit_ring_dropped_ids(putter.ring) == 0)
		sched_yield();
	while (next < ids) {
		if (!audit_ring_take(putter.ring, &draw)) {
			sched_yield();
			continue;
		}
		next += draw.missing;
		if (draw.run.count > 0)
			g_assert_cmpuint(draw.run.first_cursor, ==, next);
		next += draw.run.count;
	}
	pthread_join(thread, NULL);
	g_test_message("%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " dropped",
		       audit_ring_dropped_ids(putter.ring), ids);
	g_assert_cmpuint(next, ==, ids);
	g_assert_cmpuint(audit_ring_put_ids(putter.ring) + audit_ring_dropped_ids(putter.ring), ==,
			 ids);
	audit_ring_free(putter.ring);
}
