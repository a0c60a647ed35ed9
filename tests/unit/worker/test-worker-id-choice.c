/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit-test.h"
#include "worker/registration/worker-id-choice.h"

/* Listings */

#define MINE "nonce-mine"

typedef struct {
	guint worker_id;
	gint64 end_tick;
	const char *owner;
	const char *damage;
} Row;

static void listing_clear(DatacenterListing *self)
{
	g_ptr_array_unref(self->claims);
	g_ptr_array_unref(self->reservations);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(DatacenterListing, listing_clear)

typedef struct {
	const char *nonce;
	gint worker_id;
	gint64 order;
} LiveRow;

/* @rows: by worker ID
 * @live: the claims, by nonce, up to one of none
 * The version of a record is its worker ID + 100. */
static DatacenterListing make_listing(const Row *rows, guint n_rows, const LiveRow *live)
{
	DatacenterListing listing = {
		.claims = g_ptr_array_new_with_free_func(g_free),
		.reservations = g_ptr_array_new_with_free_func(g_free),
	};

	for (guint i = 0; live[i].nonce != NULL; i++) {
		ListedClaim *claim = g_new0(ListedClaim, 1);

		claim->nonce = (char *)live[i].nonce;
		claim->record.worker_id = live[i].worker_id;
		claim->order = live[i].order;
		g_ptr_array_add(listing.claims, claim);
	}
	for (guint i = 0; i < n_rows; i++) {
		ListedReservation *reservation = g_new0(ListedReservation, 1);

		reservation->worker_id = rows[i].worker_id;
		reservation->version = (gint32)rows[i].worker_id + 100;
		reservation->damage = (char *)rows[i].damage;
		reservation->record.end_tick = rows[i].end_tick;
		reservation->record.owner = (char *)rows[i].owner;
		reservation->record.address = (char *)"a.example:7609";
		g_ptr_array_add(listing.reservations, reservation);
	}
	return listing;
}

/* "moved" also has an older claim. */
static const LiveRow LIVE[] = {
	{"alive", -1, 1}, {"moved", 0, 2}, {"moved", 1, 3},
	{MINE, -1, 0},    {"two", 2, 4},   {NULL, -1, 0},
};

/* clang-format off */
#define ANY (-1)
#define FOUND(id, read_version, read_end, first)                                                   \
	{.found = TRUE, .worker_id = id, .version = read_version, .end_tick = read_end,            \
	 .first_tick = first}
#define WAITS(until) {.wait_until_tick = until}
/* clang-format on */

/* Four worker IDs; the tick is 1000; the floor of version 5. */
static const struct {
	const char *name;
	gint64 wanted;
	gint64 floor_tick;
	Row rows[5]; /* end with a row without owner and damage */
	WorkerIdChoice choice;
} CHOICES[] = {
	/* clang-format off */
	{"an empty datacenter", ANY, 0, {{0}}, FOUND(0, -1, -1, 1)},
	{"a past record is free, with the version and the end that were read", ANY, 0,
	 {{2, 999, "dead", NULL}}, FOUND(2, 102, 999, 1000)},
	{"a released record is free, too", ANY, 0,
	 {{2, 999, "", NULL}}, FOUND(2, 102, 999, 1000)},
	{"quarantined up to and including its last tick", ANY, 0,
	 {{2, 1000, "dead", NULL}}, FOUND(0, -1, -1, 1)},
	{"released ahead of the clock is quarantined", ANY, 0,
	 {{2, 1000, "", NULL}}, FOUND(0, -1, -1, 1)},
	{"held, although its reservation is past", ANY, 0,
	 {{2, 5, "alive", NULL}}, FOUND(0, -1, -1, 1)},
	{"held, as the claim of its owner names it", ANY, 0,
	 {{2, 5, "two", NULL}}, FOUND(0, -1, -1, 1)},
	{"left by an owner whose claim names another: until its last tick", 1, 0,
	 {{1, 1000, "two", NULL}}, WAITS(1001)},
	{"left by such an owner, free after its last tick", 1, 0,
	 {{1, 999, "two", NULL}}, FOUND(1, 101, 999, 1000)},
	{"held, as any claim of its owner names it", ANY, 0,
	 {{0, 5, "moved", NULL}, {1, 5, "moved", NULL}, {2, 5, "moved", NULL}},
	 FOUND(2, 102, 5, 6)},
	{"a damaged record is not free", ANY, 0, {{2, 0, NULL, "no end"}}, FOUND(0, -1, -1, 1)},
	{"my own, from a late write, if nothing else is free", ANY, 0,
	 {{0, 5, "alive", NULL}, {1, 999, MINE, NULL}, {2, 1500, "dead", NULL},
	  {3, 5, "alive", NULL}},
	 FOUND(1, 101, 999, 1000)},
	{"my own, once it is past, and another is free", ANY, 0,
	 {{1, 999, MINE, NULL}, {2, 999, "dead", NULL}}, FOUND(2, 102, 999, 1000)},
	{"my own, once it is past, and no other is wanted", 1, 0,
	 {{1, 999, MINE, NULL}}, FOUND(1, 101, 999, 1000)},
	{"my own, but not past", ANY, 0, {{1, 1000, MINE, NULL}}, FOUND(0, -1, -1, 1)},
	{"none is free: waits for the first quarantine to end", ANY, 0,
	 {{0, 5, "alive", NULL}, {1, 1500, "dead", NULL}, {2, 1200, "dead", NULL},
	  {3, 1100, "alive", NULL}},
	 WAITS(1201)},
	{"none is free, and none is quarantined", ANY, 0,
	 {{0, 5, "alive", NULL}, {1, 5, "alive", NULL}, {2, 5, "alive", NULL},
	  {3, 0, NULL, "no end"}},
	 WAITS(G_MAXINT64)},
	{"a pinned one is free", 3, 0, {{0, 5, "alive", NULL}}, FOUND(3, -1, -1, 1)},
	{"a pinned one is held: no other is looked at", 3, 0,
	 {{2, 1500, "dead", NULL}, {3, 5, "alive", NULL}}, WAITS(G_MAXINT64)},
	{"a pinned one is quarantined", 3, 0,
	 {{2, 1500, "dead", NULL}, {3, 1700, "dead", NULL}}, WAITS(1701)},
	{"ended below the floor: begins after the floor", ANY, 899,
	 {{2, 700, "dead", NULL}}, FOUND(2, 102, 700, 900)},
	{"ended at the floor: begins after the floor", ANY, 899,
	 {{2, 899, "", NULL}}, FOUND(2, 102, 899, 900)},
	{"ended after the floor: begins after its end", ANY, 899,
	 {{2, 900, "dead", NULL}}, FOUND(2, 102, 900, 901)},
	{"an unused worker ID begins after the floor", ANY, 899, {{0}},
	 FOUND(0, -1, -1, 900)},
	{"the floor is past by one tick", ANY, 999, {{0}}, FOUND(0, -1, -1, 1000)},
	{"up to and including the floor, nothing is free", ANY, 1000,
	 {{2, 5, "dead", NULL}}, WAITS(1001)},
	{"a pinned one waits for the floor, not for its record", 3, 1600,
	 {{3, 1700, "dead", NULL}}, WAITS(1601)},
	/* clang-format on */
};

TEST("/worker-id-choice/choose", test_choose)
{
	for (guint i = 0; i < G_N_ELEMENTS(CHOICES); i++) {
		guint n_rows = 0;

		while (CHOICES[i].rows[n_rows].owner != NULL ||
		       CHOICES[i].rows[n_rows].damage != NULL)
			n_rows++;

		g_auto(DatacenterListing) listing = make_listing(CHOICES[i].rows, n_rows, LIVE);
		const WorkerIdWish wish = {
			.nonce = MINE,
			.worker_id = CHOICES[i].wanted,
			.preferred = -1,
			.n_workers = 4,
			.now_tick = 1000,
		};
		const WorkerIdChoice *expected = &CHOICES[i].choice;

		listing.floor.tick = CHOICES[i].floor_tick;
		listing.floor.version = 5;

		WorkerIdChoice choice = worker_id_choice_make(&listing, &wish);

		g_test_message("%s", CHOICES[i].name);
		g_assert_cmpint(choice.found, ==, expected->found);
		g_assert_cmpuint(choice.worker_id, ==, expected->worker_id);
		g_assert_cmpint(choice.version, ==, expected->version);
		g_assert_cmpint(choice.end_tick, ==, expected->end_tick);
		g_assert_cmpint(choice.first_tick, ==, expected->first_tick);
		g_assert_cmpint(choice.floor_version, ==, expected->found ? 5 : 0);
		g_assert_cmpint(choice.wait_until_tick, ==, expected->wait_until_tick);
	}
}

/* Eight worker IDs, four of them with a record: 1 and 6 are free, 3 is held, 4 is quarantined. */
static const Row EIGHT[] = {{1, 900, "", NULL},
			    {3, 1500, "holder", NULL},
			    {4, 1500, "dead", NULL},
			    {6, 999, "dead", NULL}};

#define BEFORE(n)                                                                                  \
	{                                                                                          \
		"waits-" #n, -1, 10 + (n)                                                          \
	}
#define HOLDER                                                                                     \
	{                                                                                          \
		"holder", 3, 5                                                                     \
	}

/* The order of the claim is 20. */
static const struct {
	const char *name;
	LiveRow live[10];
	gint64 preferred;
	gboolean lost_race;
	guint n_skipped_records;
	guint worker_id;
} ORDER[] = {
	/* clang-format off */
	{"the lowest that is free and has a record", {HOLDER}, -1, FALSE, 0, 1},
	{"one is before: the next of those", {HOLDER, BEFORE(0)}, -1, FALSE, 0, 6},
	{"two are: the lowest that has none", {HOLDER, BEFORE(0), BEFORE(1)}, -1, FALSE, 0, 0},
	{"five are: the highest that has none",
	 {HOLDER, BEFORE(0), BEFORE(1), BEFORE(2), BEFORE(3), BEFORE(4)}, -1, FALSE, 0, 7},
	{"more than are free: around",
	 {HOLDER, BEFORE(0), BEFORE(1), BEFORE(2), BEFORE(3), BEFORE(4), BEFORE(5), BEFORE(6)}, -1,
	 FALSE, 0, 6},
	{"a later claim takes another worker ID", {HOLDER, {"later", -1, 21}}, -1, FALSE, 0, 1},
	{"its claim was read before it had a worker ID", {{"holder", -1, 5}}, -1, FALSE, 0, 1},
	{"its record did not exist yet when its claim named it", {HOLDER, {"newer", 0, 15}}, -1,
	 FALSE, 0, 6},
	{"a race was lost: the lowest that has no record", {HOLDER}, -1, TRUE, 0, 0},
	{"by two", {HOLDER, BEFORE(0)}, -1, TRUE, 0, 2},
	{"by more than there are new ones: records again",
	 {HOLDER, BEFORE(0), BEFORE(1), BEFORE(2), BEFORE(3)}, -1, TRUE, 0, 1},
	{"one may not be written to", {HOLDER}, -1, FALSE, 1, 6},
	{"nor may three", {HOLDER}, -1, FALSE, 3, 2},
	{"one is preferred", {HOLDER}, 6, FALSE, 0, 6},
	{"and has no record", {HOLDER}, 5, FALSE, 0, 5},
	{"whichever is before", {HOLDER, BEFORE(0)}, 1, FALSE, 0, 1},
	{"and after a race", {HOLDER}, 6, TRUE, 0, 6},
	{"it is held", {HOLDER}, 3, FALSE, 0, 1},
	{"it is quarantined", {HOLDER}, 4, FALSE, 0, 1},
	/* clang-format on */
};

TEST("/worker-id-choice/order", test_order)
{
	for (guint i = 0; i < G_N_ELEMENTS(ORDER); i++) {
		g_auto(DatacenterListing) listing =
			make_listing(EIGHT, G_N_ELEMENTS(EIGHT), ORDER[i].live);
		const WorkerIdWish wish = {
			.nonce = MINE,
			.order = 20,
			.worker_id = -1,
			.preferred = ORDER[i].preferred,
			.lost_race = ORDER[i].lost_race,
			.n_skipped_records = ORDER[i].n_skipped_records,
			.n_workers = 8,
			.now_tick = 1000,
		};
		WorkerIdChoice choice = worker_id_choice_make(&listing, &wish);

		g_test_message("%s", ORDER[i].name);
		g_assert_true(choice.found);
		g_assert_cmpuint(choice.worker_id, ==, ORDER[i].worker_id);
		g_assert_cmpint(choice.version, ==,
				datacenter_listing_find_reservation(&listing, choice.worker_id) !=
						NULL
					? (gint)choice.worker_id + 100
					: -1);
	}
}

/* Servers that choose at the same time take different worker IDs, and as few new ones as possible.
 */
TEST("/worker-id-choice/together", test_together)
{
	enum { N_STARTERS = 24, N_RECORDS = 10 };
	gboolean taken[N_STARTERS] = {FALSE};
	char nonces[N_STARTERS][3];
	LiveRow live[N_STARTERS + 1] = {{NULL, -1, 0}};
	Row rows[N_RECORDS];

	for (guint i = 0; i < N_RECORDS; i++)
		rows[i] = (Row){i, 5, "", NULL};
	for (guint i = 0; i < N_STARTERS; i++) {
		g_snprintf(nonces[i], sizeof nonces[i], "%02u", i);
		/* the order has wrapped */
		live[i] = (LiveRow){nonces[i], -1, (gint32)((guint)G_MAXINT32 - 7 + i)};
	}

	g_auto(DatacenterListing) listing = make_listing(rows, N_RECORDS, live);

	for (guint i = 0; i < N_STARTERS; i++) {
		const WorkerIdWish wish = {.nonce = nonces[i],
					   .order = live[i].order,
					   .worker_id = -1,
					   .preferred = -1,
					   .n_workers = 1u << 31,
					   .now_tick = 1000};
		WorkerIdChoice choice = worker_id_choice_make(&listing, &wish);

		g_assert_true(choice.found);
		g_assert_cmpuint(choice.worker_id, <, N_STARTERS);
		g_assert_false(taken[choice.worker_id]);
		taken[choice.worker_id] = TRUE;
	}
}

/* Each server has its current reservation, not an earlier one. */
TEST("/listing/workers", test_workers)
{
	static const Row ROWS[] = {{0, 1200, "left", NULL},
				   {1, 1500, "two", NULL},
				   {2, 1400, "two", NULL},
				   {3, 1300, "alive", NULL}};
	static const LiveRow CLAIMS[] = {
		{"alive", -1, 1}, {"left", 7, 2}, {"two", 2, 3}, {NULL, -1, 0}};
	static const gint WORKER_IDS[] = {3, -1, 2};
	g_auto(DatacenterListing) listing = make_listing(ROWS, G_N_ELEMENTS(ROWS), CLAIMS);
	g_autoptr(GPtrArray) workers =
		g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_client_worker_free);

	listing.layout = LAYOUT_TWITTER;
	datacenter_listing_add_workers(&listing, workers);
	g_assert_cmpuint(workers->len, ==, G_N_ELEMENTS(WORKER_IDS));
	for (guint i = 0; i < workers->len; i++) {
		const SnowflakeClientWorker *worker = workers->pdata[i];

		g_assert_cmpint(worker->worker_id, ==, WORKER_IDS[i]);
		g_assert_cmpint(worker->reserved_until_ms != 0, ==, WORKER_IDS[i] >= 0);
	}
}

TEST("/worker-id-choice/describe", test_describe)
{
	static const Row ROWS[] = {{0, 5, "alive", NULL},
				   {1, 5, "dead", NULL},
				   {2, 1500, "moved", NULL},
				   {3, 0, NULL, "no end"}};
	const WorkerIdWish any = {MINE, .worker_id = -1, .n_workers = 4, .now_tick = 1000};
	const WorkerIdWish pinned = {MINE, .worker_id = 2, .n_workers = 4, .now_tick = 1000};
	g_auto(DatacenterListing) listing = make_listing(ROWS, G_N_ELEMENTS(ROWS), LIVE);
	g_autofree char *all = worker_id_choice_describe_obstacles(&listing, &any, &LAYOUT_TWITTER);
	g_autofree char *one =
		worker_id_choice_describe_obstacles(&listing, &pinned, &LAYOUT_TWITTER);

	g_assert_cmpstr(all, ==,
			"1 is held (worker 0 by a.example:7609), 1 is quarantined (worker 2), "
			"1 is damaged (worker 3)");
	g_assert_cmpstr(one, ==, "worker 2 is quarantined until 2010-11-04T01:42:56.157Z");
}

/* With many blocking servers, the text names only a few, in order. */
TEST("/worker-id-choice/describe/many", test_describe_many)
{
	static const LiveRow ALIVE[] = {{"alive", -1, 1}, {NULL, -1, 0}};
	const WorkerIdWish any = {MINE, .worker_id = -1, .n_workers = 1024, .now_tick = 1000};
	Row rows[1024];

	for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
		rows[i] = (Row){i, 5, "alive", NULL};
		if (i >= 1000)
			rows[i] = (Row){i, 2000 + ABS((gint64)i - 1010), "dead", NULL};
		if (i >= 1020)
			rows[i].damage = "no end";
	}

	g_auto(DatacenterListing) listing = make_listing(rows, G_N_ELEMENTS(rows), ALIVE);
	g_autofree char *text =
		worker_id_choice_describe_obstacles(&listing, &any, &LAYOUT_TWITTER);

	g_assert_cmpstr(text, ==,
			"1000 are held (worker 0 by a.example:7609, worker 1 by a.example:7609, "
			"worker 2 by a.example:7609, ...), 20 are quarantined (first worker 1010), "
			"4 are damaged (first worker 1020)");
}

TEST("/worker-id-choice/describe/floor", test_describe_floor)
{
	static const Row ROWS[] = {{2, 1500, "dead", NULL}};
	const WorkerIdWish any = {MINE, .worker_id = -1, .n_workers = 4, .now_tick = 1000};
	g_auto(DatacenterListing) listing = make_listing(ROWS, G_N_ELEMENTS(ROWS), LIVE);

	listing.datacenter_id = 3;
	listing.floor.tick = 1500;

	g_autofree char *text =
		worker_id_choice_describe_obstacles(&listing, &any, &LAYOUT_TWITTER);

	g_assert_cmpstr(text, ==,
			"datacenter 3 is quarantined until 2010-11-04T01:42:56.157Z by an operator "
			"(snowflakectl registry quarantine)");

	listing.floor.history = znode_history_of("1/00000002/3/4");

	g_autofree char *with_history =
		worker_id_choice_describe_obstacles(&listing, &any, &LAYOUT_TWITTER);

	g_assert_nonnull(strstr(with_history, "Z because the history of the database has changed "
					      "(a failover or a restore), or by an operator "));
}
