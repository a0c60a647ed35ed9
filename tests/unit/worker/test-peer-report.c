/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/unit/unit-test.h"
#include "worker/registration/peer-report.h"

#define DATACENTER_ID 3
#define OFFSET_MS     1000000
#define MAX_SKEW_MS   10000
#define MAX_PEERS     4

/* Of peer 0, when it claims worker ID 5. */
#define ITS_NONCE       ((char *)"0")
#define WORKER_INSANITY "worker ID insanity: the server at host-0:7609 says 6, its claim says 5; "
#define DATACENTER_INSANITY                                                                        \
	"datacenter ID insanity: the server at host-0:7609 says 4, its claim is in datacenter 3"

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
	char counted; /* as agreed, unreachable, stale; or as none of them */
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
	 {"says 9223372036854775807, its claim says 5"}},
	{"the largest skew", 5, {TRUE, ITS_NONCE, 3, 5, OFFSET_MS - MAX_SKEW_MS, NULL}, 'a',
	 {NULL}},
	{"one more", 5, {TRUE, ITS_NONCE, 3, 5, OFFSET_MS - MAX_SKEW_MS - 1, NULL}, 'a',
	 {"the clock is 10001 ms ahead of the median of 1 servers of the datacenter, the limit is "
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

/* Clocks of so many peers, in s ahead of ours; how far off the middle ours is, in s. */
static const struct {
	guint n;
	gint64 ahead_s[MAX_PEERS];
	gint64 behind_s;   /* 0: no contradiction */
	gint64 furthest_s; /* how far ours is ahead of the one that is furthest from it */
} CLOCKS[] = {
	{1, {10}, 0, -10},
	{1, {11}, 11, -11},
	{1, {-11}, -11, 11},
	/* one wrong clock of two refuses nobody; two do, the nearer is what counts */
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

/* Two peers, each with what it answers: agrees, another worker ID, another datacenter, another
 * clock, nothing. The clock is that of both. */
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
		const char *message; /* NULL: nothing is confirmed */
	} CASES[] = {
		{"ok", "ok", NULL},
		{"ww", "oo", NULL},
		{"oo", "ww", NULL},
		{"wo", "wo", "worker ID insanity: the server at host-0"},
		{"wo", "ow", NULL},
		{"ow", "ww", "worker ID insanity: the server at host-1"},
		{"do", "wo", NULL},
		{"od", "od", "datacenter ID insanity: the server at host-1"},
		{"wd", "-d", "datacenter ID insanity: the server at host-1"},
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
