/* SPDX-License-Identifier: Apache-2.0 */
#include "load/tally.h"
#include "tests/unit/unit-test.h"

#include <stdlib.h>

#define MS G_GINT64_CONSTANT(1000000)

/* Plays the events of a thread, which starts at 0, in order: "w5" a call is due from 5 ms on, "g7"
 * a good reply at 7 ms and no other call is due, "G7" a good reply and others are due, "e9" the
 * end. */
static LoadGaps play(const char *script)
{
	g_auto(GStrv) steps = g_strsplit(script, " ", -1);
	LoadGaps gaps;

	load_gaps_begin(&gaps, 0);
	for (gsize i = 0; steps[i] != NULL; i++) {
		gint64 at_ns = atoi(steps[i] + 1) * MS;

		switch (steps[i][0]) {
		case 'w':
			load_gaps_want(&gaps, at_ns);
			break;
		case 'g':
		case 'G':
			load_gaps_end_one(&gaps, at_ns, steps[i][0] == 'G');
			break;
		case 'e':
			load_gaps_end(&gaps, at_ns);
			break;
		default:
			g_assert_not_reached();
		}
	}
	return gaps;
}

typedef struct {
	const char *threads[3];
	gint64 longer_than_ms;
	guint64 count;
	gint64 total_ms;
	gint64 longest_ms;
	gboolean goes_on;
} Case;

static const Case cases[] = {
	/* replies just within the limit */
	{{"w0 G50 G150 g200 e200"}, 100, 0, 0, 0, FALSE},
	{{"w0 G100 G200 g300 e300"}, 100, 0, 0, 0, FALSE},
	{{"w0 G100 G201 g300 e300"}, 100, 1, 101, 101, FALSE},
	/* before the first reply, in the middle, and at the end */
	{{"w0 G500 g510 e510"}, 100, 1, 500, 500, FALSE},
	{{"w0 G1 G301 G302 G802 g803 e803"}, 100, 2, 800, 500, FALSE},
	{{"w0 G1 e501"}, 100, 1, 500, 500, TRUE},
	{{"w0 e500"}, 100, 1, 500, 500, TRUE},
	{{"w0 G300 G301 e302"}, 100, 1, 300, 300, FALSE},
	/* no call is due meanwhile, or not from the beginning */
	{{"w0 g1 e501"}, 100, 0, 0, 0, FALSE},
	{{"w0 g1 w500 g501 e501"}, 100, 0, 0, 0, FALSE},
	{{"w0 g1 w300 g501 e501"}, 100, 1, 201, 201, FALSE},
	{{"w0 g1 w300 w400 g501 e501"}, 100, 1, 201, 201, FALSE},
	/* a longer limit */
	{{"w0 G300 G700 g701 e701"}, 300, 1, 400, 400, FALSE},
	/* one of two threads is served */
	{{"w0 G1 g501 e501", "w0 G100 G200 G300 G400 g500 e501"}, 100, 0, 0, 0, FALSE},
	/* neither is served, in part of the time */
	{{"w0 G1 G501 g550 e550", "w0 G99 G198 G297 G550 g551 e551"}, 100, 1, 204, 204, FALSE},
	{{"w0 G1 G501 g550 e550", "w0 G99 G198 G297 G390 G480 g551 e551"}, 100, 0, 0, 0, FALSE},
	/* two gaps of one thread within one gap of the other */
	{{"w0 G300 G600 g601 e601", "w0 G600 g601 e601"}, 100, 2, 600, 300, FALSE},
	/* one thread has no more calls */
	{{"w0 g1 e1", "w0 G1 G501 g502 e502"}, 100, 1, 500, 500, FALSE},
	{{"w0 G1 G501 g502 e502", "w0 g1 e1"}, 100, 1, 500, 500, FALSE},
	{{"w0 g1 e1", "w0 G1 e501"}, 100, 1, 500, 500, TRUE},
	/* three threads */
	{{"w0 e500", "w0 G200 e500", "w0 G350 e500"}, 100, 3, 500, 200, TRUE},
};

TEST("/load-gaps/outages", outages_are_what_all_threads_share)
{
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		const Case *wanted = &cases[i];
		LoadGaps all = {0};
		LoadOutages outages;

		for (gsize j = 0; j < G_N_ELEMENTS(wanted->threads); j++) {
			if (wanted->threads[j] == NULL)
				break;
			LoadGaps gaps = play(wanted->threads[j]);

			load_gaps_merge(&all, &gaps);
			load_gaps_clear(&gaps);
		}
		outages = load_gaps_outages(&all, wanted->longer_than_ms * MS);
		load_gaps_clear(&all);
		g_test_message("case %zu: %" G_GUINT64_FORMAT ", %.3f ms", i, outages.count,
			       (double)outages.total_ns / MS);
		g_assert_cmpuint(outages.count, ==, wanted->count);
		g_assert_cmpint(outages.total_ns, ==, wanted->total_ms * MS);
		g_assert_cmpint(outages.longest_ns, ==, wanted->longest_ms * MS);
		g_assert_cmpint(outages.goes_on, ==, wanted->goes_on);
	}
}

TEST("/load-gaps/none", no_thread_has_no_outage)
{
	LoadGaps none = {0};
	LoadGaps all = {0};

	load_gaps_merge(&all, &none);
	g_assert_cmpuint(load_gaps_outages(&all, 100 * MS).count, ==, 0);
}
