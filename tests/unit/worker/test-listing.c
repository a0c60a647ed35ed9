/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit-test.h"
#include "worker/registration/listing.h"

#include <string.h>

/* The contents of a znode. */
typedef struct {
	const char *name; /* name of the znode below claims or reservations */
	const char *data;
} Znode;

/* @floor: (nullable): %NULL if there is no floor */
static DatacenterListing *make_listing(const Znode *claims, const Znode *reservations,
				       const char *floor)
{
	DatacenterListing *listing = datacenter_listing_new(&LAYOUT_TWITTER, 3);
	StoreRecord record = {.data = (char *)floor, .length = floor != NULL ? strlen(floor) : 0};

	datacenter_listing_set_floor(listing, floor != NULL ? &record : NULL);
	for (guint i = 0; claims[i].name != NULL; i++) {
		record = (StoreRecord){.key = (char *)claims[i].name,
				       .data = (char *)claims[i].data,
				       .length = strlen(claims[i].data)};
		datacenter_listing_add_claim(listing, &record);
	}
	for (guint i = 0; reservations[i].name != NULL; i++) {
		record = (StoreRecord){
			.key = (char *)reservations[i].name,
			.data = (char *)reservations[i].data,
			.length = reservations[i].data != NULL ? strlen(reservations[i].data) : 0};
		datacenter_listing_add_reservation(listing, &record);
	}
	datacenter_listing_sort(listing);
	return listing;
}

#define NONCE(digit) "0000000" digit "-0000-4000-8000-000000000000"
#define CLAIM(digit) "claim-" NONCE(digit) "-0000000001"
#define CLAIM_DATA(worker)                                                                         \
	"{\"kind\":\"server\",\"host\":\"h\",\"port\":1,\"pid\":1,\"version\":\"1\","              \
	"\"started\":\"2026-01-01T00:00:00.000Z\"" worker "}"
#define RESERVATION(tick, owner)                                                                   \
	"{\"reserved_until_tick\":" tick ",\"owner\":\"" owner "\",\"address\":\"a:1\"}"
#define NO_FLOOR "{\"floor_tick\":0,\"clock_tick\":0}"

static const Znode CLAIMS[] = {
	{CLAIM("1"), CLAIM_DATA(",\"worker_id\":1")},  /* holds 1, and held 2 before */
	{CLAIM("2"), CLAIM_DATA("")},                  /* has no worker ID yet */
	{CLAIM("4"), CLAIM_DATA(",\"worker_id\":32")}, /* its worker ID is not in this layout */
	{CLAIM("5"), "no claim"},
	{NULL, NULL},
};

static const Znode RESERVATIONS[] = {
	{"1", RESERVATION("2000", NONCE("1"))},
	{"2", RESERVATION("2000", NONCE("1"))},
	{"3", RESERVATION("2000", NONCE("2"))},
	{"4", RESERVATION("1000", NONCE("3"))},
	{"5", RESERVATION("999", NONCE("3"))},
	{"6", RESERVATION("5000", "")},
	{"7", "no record"},
	{NULL, NULL},
};

#define LAST ((G_GINT64_CONSTANT(1) << 41) - 1)

/* The time is tick 1000. */
TEST("/listing/quarantined", test_quarantined)
{
	static const struct {
		const char *name;
		const char *floor;
		struct {
			gint worker_id;
			gint64 until_tick;
		} expected[7];
	} CASES[] = {
		{"by their records", NO_FLOOR, {{2, 2000}, {4, 1000}, {6, 5000}, {7, LAST}}},
		{"the floor is past",
		 "{\"floor_tick\":999,\"clock_tick\":999}",
		 {{2, 2000}, {4, 1000}, {6, 5000}, {7, LAST}}},
		{"by the floor, too",
		 "{\"floor_tick\":3000,\"clock_tick\":2000}",
		 {{2, 3000}, {4, 3000}, {5, 3000}, {6, 5000}, {7, LAST}}},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(DatacenterListing) listing =
			make_listing(CLAIMS, RESERVATIONS, CASES[i].floor);
		g_autoptr(GPtrArray) found = g_ptr_array_new_with_free_func(
			(GDestroyNotify)snowflake_client_worker_free);
		guint n = 0;

		g_test_message("%s", CASES[i].name);
		datacenter_listing_add_quarantined(listing, 1000, found);
		for (; n < found->len; n++) {
			const SnowflakeClientWorker *worker = found->pdata[n];

			g_assert_cmpint(worker->worker_id, ==, CASES[i].expected[n].worker_id);
			g_assert_cmpint(worker->datacenter_id, ==, 3);
			g_assert_cmpint(worker->reserved_until_ms, ==,
					layout_tick_start_ms(&LAYOUT_TWITTER,
							     CASES[i].expected[n].until_tick));
			g_assert_cmpstr(worker->address, ==,
					worker->worker_id == 7 ? "" : "a:1"); /* damaged */
		}
		g_assert_cmpint(CASES[i].expected[n].until_tick, ==, 0);
	}
}

#define PAST_LAYOUT RESERVATION("2199023255552", "")

/* Each state and its reason, at tick 1000. */
TEST("/listing/judge", test_judge)
{
	static const Znode RECORDS[] = {
		{"r/0", RESERVATION("2000", NONCE("2"))},
		{"r/1", RESERVATION("5", NONCE("1"))},
		{"r/2", RESERVATION("1000", NONCE("1"))},
		{"r/3", RESERVATION("999", NONCE("1"))},
		{"r/4", RESERVATION("1000", "")},
		{"r/5", RESERVATION("999", "")},
		{"r/6", PAST_LAYOUT},
		{"r/7", "no record"},
		{"r/8", NULL},
		{"r/10", RESERVATION("2000", NONCE("4"))},
		{"r/11", RESERVATION("2000", NONCE("5"))},
		{"r/09", "not a worker ID"},
		{NULL, NULL},
	};
	static const struct {
		const char *name;
		guint worker_id;
		const char *own_nonce;
		WorkerIdState state;
		gint64 until_tick;
	} CASES[] = {
		{"its owner has a claim that names none", 0, NULL, WORKER_ID_HELD, 2000},
		{"its owner has a claim, and it is past", 1, NULL, WORKER_ID_HELD, 5},
		{"its owner asks", 0, NONCE("2"), WORKER_ID_QUARANTINED, 2000},
		{"its owner asks, and it is past", 1, NONCE("1"), WORKER_ID_FREE, 5},
		{"its owner has left it", 2, NULL, WORKER_ID_QUARANTINED, 1000},
		{"its owner has left it, and it is past", 3, NULL, WORKER_ID_FREE, 999},
		{"to the end of its last tick", 4, NULL, WORKER_ID_QUARANTINED, 1000},
		{"released", 5, NULL, WORKER_ID_FREE, 999},
		{"its end is after the layout's end", 6, NULL, WORKER_ID_DAMAGED, LAST},
		{"it does not parse", 7, NULL, WORKER_ID_DAMAGED, LAST},
		{"this user and password cannot read it", 8, NULL, WORKER_ID_DAMAGED, LAST},
		{"it has no record", 9, NULL, WORKER_ID_FREE, -1},
		{"its owner names an ID outside the layout", 10, NULL, WORKER_ID_QUARANTINED, 2000},
		{"its owner's claim does not parse", 11, NULL, WORKER_ID_HELD, 2000},
	};
	g_autoptr(DatacenterListing) listing = make_listing(CLAIMS, RECORDS, NO_FLOOR);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		WorkerIdJudgement judgement = datacenter_listing_judge(listing, CASES[i].worker_id,
								       1000, CASES[i].own_nonce);

		g_test_message("%s", CASES[i].name);
		g_assert_cmpint(judgement.state, ==, CASES[i].state);
		g_assert_cmpint(judgement.until_tick, ==, CASES[i].until_tick);
		g_assert_cmpint(judgement.holder != NULL, ==, judgement.state == WORKER_ID_HELD);
		g_assert_false(judgement.is_by_floor);
	}
}

/* Claims with and without the identity of their server. */
TEST("/listing/claims", test_claims)
{
	static const Znode NONE[] = {{NULL, NULL}};
	g_autoptr(DatacenterListing) listing = make_listing(CLAIMS, NONE, NO_FLOOR);

	for (guint i = 0; i < listing->claims->len; i++) {
		const ListedClaim *claim = listing->claims->pdata[i];
		gboolean is_known = g_str_equal(claim->nonce, NONCE("1")) ||
				    g_str_equal(claim->nonce, NONCE("2"));

		g_assert_cmpint(claim->damage == NULL, ==, is_known);
	}
}

/* A worker ID is quarantined to the end of its last tick, which may last a second. */
TEST("/listing/judge-long-ticks", test_judge_long_ticks)
{
	static const Znode RECORDS[] = {{"0", RESERVATION("1000", "")}, {NULL, NULL}};
	Layout layout = LAYOUT_TWITTER;
	gint64 end_ms;
	g_autoptr(DatacenterListing) listing = make_listing(CLAIMS, RECORDS, NO_FLOOR);

	layout.tick_ms = 1000;
	end_ms = layout_tick_start_ms(&layout, 1001);
	for (gint64 by_ms = -1000; by_ms <= 1000; by_ms += 500)
		g_assert_cmpint(datacenter_listing_judge(
					listing, 0, layout_tick_at(&layout, end_ms + by_ms), NULL)
					.state,
				==, by_ms < 0 ? WORKER_ID_QUARANTINED : WORKER_ID_FREE);
}

TEST("/listing/judge-floor", test_judge_floor)
{
	static const Znode RECORDS[] = {
		{"0", RESERVATION("2000", "")}, {"1", RESERVATION("5", "")}, {NULL, NULL}};
	g_autoptr(DatacenterListing) listing =
		make_listing(CLAIMS, RECORDS, "{\"floor_tick\":1000,\"clock_tick\":5}");

	for (guint worker_id = 0; worker_id < 3; worker_id++)
		for (gint64 now_tick = 1000; now_tick <= 1001; now_tick++) {
			WorkerIdJudgement judgement =
				datacenter_listing_judge(listing, worker_id, now_tick, NULL);
			gboolean is_free = worker_id > 0 && now_tick > 1000;

			g_assert_cmpint(judgement.state, ==,
					is_free ? WORKER_ID_FREE : WORKER_ID_QUARANTINED);
			g_assert_cmpint(judgement.until_tick, ==, worker_id == 0 ? 2000 : 1000);
			g_assert_cmpint(judgement.is_by_floor, ==, worker_id > 0 && !is_free);
		}
}

TEST("/listing/floor", test_floor)
{
	static const struct {
		const char *floor;
		const char *damage;
	} CASES[] = {{NULL, "is missing"}, {"no floor", "does not parse"}, {NO_FLOOR, NULL}};
	static const Znode NONE[] = {{NULL, NULL}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(DatacenterListing) listing = make_listing(NONE, NONE, CASES[i].floor);

		g_assert_cmpint(listing->floor.damage != NULL, ==, CASES[i].damage != NULL);
		if (CASES[i].damage != NULL)
			g_assert_true(g_str_has_prefix(listing->floor.damage, CASES[i].damage));
	}
}
