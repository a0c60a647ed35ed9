/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit-test.h"
#include "worker/zookeeper/listing.h"

#include <string.h>

/* In the place of a session: what was asked for and not answered yet, in order. */
static GPtrArray *asked;
static guint64 last_request, first_waiting;

static guint64 ask(const char *path)
{
	g_ptr_array_add(asked, g_strdup(path));
	return ++last_request;
}

guint64 zookeeper_session_get(ZookeeperSession *self G_GNUC_UNUSED, const char *path,
			      gboolean watch G_GNUC_UNUSED)
{
	return ask(path);
}

guint64 zookeeper_session_children(ZookeeperSession *self G_GNUC_UNUSED, const char *path,
				   gboolean watch G_GNUC_UNUSED)
{
	return ask(path);
}

/* What stands there. */
typedef struct {
	const char *name; /* of the znode, below claims or reservations */
	const char *data;
} Znode;

static const char *find(const Znode *znodes, const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	for (; znodes->name != NULL; znodes++)
		if (g_str_equal(znodes->name, name))
			return znodes->data;
	return NULL;
}

static GStrv names_of(const Znode *znodes)
{
	GStrvBuilder *names = g_strv_builder_new();
	GStrv all;

	for (; znodes->name != NULL; znodes++)
		g_strv_builder_add(names, znodes->name);
	all = g_strv_builder_end(names);
	g_strv_builder_unref(names);
	return all;
}

/* Answers the request that has waited longest. */
static void answer(ZookeeperListing *listing, const Znode *claims, const Znode *reservations,
		   const char *floor)
{
	g_autofree char *path = g_ptr_array_steal_index(asked, 0);
	gboolean is_claim = strstr(path, "/claims") != NULL;
	ZookeeperMessage message = {.type = ZOOKEEPER_REPLY, .request = ++first_waiting};

	if (g_str_has_suffix(path, "/claims") || g_str_has_suffix(path, "/reservations"))
		message.children = names_of(is_claim ? claims : reservations);
	else if (g_str_has_suffix(path, "/floor"))
		message.data = (char *)floor;
	else
		message.data = (char *)find(is_claim ? claims : reservations, path);
	message.length = message.data != NULL ? strlen(message.data) : 0;
	g_assert_true(zookeeper_listing_take(listing, &message));
	g_strfreev(message.children);
}

static ZookeeperListing *begin(void)
{
	last_request = first_waiting = 0;
	asked = g_ptr_array_new_with_free_func(g_free);
	return zookeeper_listing_new(NULL, "/r", &LAYOUT_TWITTER, 3, FALSE);
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
	{CLAIM("1"), CLAIM_DATA(",\"worker_id\":1")}, /* holds 1, and has left 2 */
	{CLAIM("2"), CLAIM_DATA("")},                 /* is about to get one */
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

/* At tick 1000. */
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
		g_autoptr(ZookeeperListing) listing = begin();
		g_autoptr(GPtrArray) found =
			g_ptr_array_new_with_free_func((GDestroyNotify)worker_free);
		guint n = 0;

		g_test_message("%s", CASES[i].name);
		while (!listing->finished)
			answer(listing, CLAIMS, RESERVATIONS, CASES[i].floor);
		zookeeper_listing_add_quarantined(listing, 1000, found);
		for (; n < found->len; n++) {
			const Worker *worker = found->pdata[n];

			g_assert_cmpint(worker->worker_id, ==, CASES[i].expected[n].worker_id);
			g_assert_cmpint(worker->datacenter_id, ==, 3);
			g_assert_cmpint(worker->reserved_until_ms, ==,
					layout_tick_start_ms(&LAYOUT_TWITTER,
							     CASES[i].expected[n].until_tick));
			g_assert_cmpstr(worker->address, ==,
					worker->worker_id == 7 ? "" : "a:1"); /* damaged */
		}
		g_assert_cmpint(CASES[i].expected[n].until_tick, ==, 0);
		g_ptr_array_unref(asked);
	}
}

/* What is sent after a listing has begun waits for some of it, however large it is. */
TEST("/listing/reads-under-way", test_reads_under_way)
{
	static const Znode NOBODY[] = {{NULL, NULL}};
	g_autoptr(ZookeeperListing) listing = begin();
	g_autofree Znode *many = g_new0(Znode, 1001);
	guint most = 0, n_reads = 0;

	for (guint i = 0; i < 1000; i++) {
		g_autofree char *name = g_strdup_printf("%u", i % 32);

		many[i] = (Znode){g_intern_string(name), RESERVATION("1", "")};
	}
	while (!listing->finished) {
		most = MAX(most, asked->len);
		n_reads++;
		answer(listing, NOBODY, many, NO_FLOOR);
	}
	g_assert_cmpuint(most, ==, 256);
	g_assert_cmpuint(n_reads, ==, 1003);
	g_assert_cmpuint(listing->n_reads, ==, n_reads);
	g_assert_cmpuint(asked->len, ==, 0);
	g_assert_cmpuint(listing->reservations->len, ==, 1000);
	g_ptr_array_unref(asked);
}
