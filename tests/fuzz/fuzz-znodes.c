/* SPDX-License-Identifier: Apache-2.0 */

/* Names and records of ZooKeeper and of state directories. The first byte selects the format. Data
 * that is parsed, formatted and parsed again is the same, so no parser ignores a part of it. */
#include <string.h>

#include "common/zookeeper/znodes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inputs.h"

#define MAX_WORKER_ID 1023

static void check_claim_name(const char *text, gsize length)
{
	g_autofree char *name = input_text((const guint8 *)text, length);
	g_autofree char *nonce = znode_claim_nonce(name);
	g_autofree char *prefix = NULL;

	if (nonce == NULL)
		return;
	prefix = znode_claim_prefix(nonce);
	g_assert_true(g_str_has_prefix(name, prefix));
}

static void check_number(const char *text, gsize length)
{
	g_autofree char *name = input_text((const guint8 *)text, length);
	g_autofree char *written = NULL;
	guint number;

	if (!znode_parse_number(name, MAX_WORKER_ID, &number))
		return;
	g_assert_cmpuint(number, <=, MAX_WORKER_ID);
	written = g_strdup_printf("%u", number);
	g_assert_cmpstr(written, ==, name);
}

static void check_reservation(const char *text, gsize length)
{
	g_autoptr(GError) error = NULL;
	g_auto(ReservationRecord) record = {0}, again = {0};
	g_autofree char *written = NULL, *rewritten = NULL;
	gboolean is_one = reservation_record_from_json(text, length, &record, &error);

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	g_assert_cmpint(record.end_tick, >=, 0);
	written = reservation_record_to_json(&record);
	g_assert_true(reservation_record_from_json(written, strlen(written), &again, NULL));
	rewritten = reservation_record_to_json(&again);
	g_assert_cmpstr(written, ==, rewritten);
}

static void check_claim(const char *text, gsize length)
{
	g_autoptr(GError) error = NULL;
	g_auto(ClaimRecord) record = {0}, again = {0};
	g_autofree char *written = NULL, *rewritten = NULL, *address = NULL;
	gboolean is_one = claim_record_from_json(text, length, &record, &error);

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	g_assert_true((record.program != NULL) == (record.port == 0));
	address = claim_record_address(&record);
	written = claim_record_to_json(&record);
	g_assert_true(claim_record_from_json(written, strlen(written), &again, NULL));
	rewritten = claim_record_to_json(&again);
	g_assert_cmpstr(written, ==, rewritten);
}

static void check_layout(const char *text, gsize length)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *written = NULL;
	Layout layout, again;
	gboolean is_one = znode_layout_from_json(text, length, &layout, &error);

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	g_assert_true(layout_check(&layout, NULL));
	written = znode_layout_to_json(&layout);
	g_assert_true(znode_layout_from_json(written, strlen(written), &again, NULL));
	g_assert_true(layout_equal(&layout, &again));
}

static void check_registry(const char *text, gsize length)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *id = znode_registry_from_json(text, length, &error);
	g_autofree char *written = NULL, *again = NULL;
	ZnodeHistory history;

	input_check_error(id == NULL, &error);
	if (id == NULL)
		return;
	history = znode_registry_history(text, length);
	written = znode_registry_to_json(id, &history);
	again = znode_registry_from_json(written, strlen(written), NULL);
	g_assert_cmpstr(id, ==, again);
}

static void check_limits(const char *text, gsize length)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *written = NULL;
	ZnodeLimits limits, again;
	gboolean is_one = znode_limits_from_json(text, length, &limits, &error);

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	g_assert_cmpint(limits.max_clock_skew_ms, <=, ZNODES_MAX_CLOCK_SKEW_MS);
	g_assert_cmpint(limits.reservation_ms, <=, ZNODES_MAX_RESERVATION_MS);
	written = znode_limits_to_json(&limits);
	g_assert_true(znode_limits_from_json(written, strlen(written), &again, NULL));
	g_assert_cmpint(limits.max_clock_skew_ms, ==, again.max_clock_skew_ms);
	g_assert_cmpint(limits.reservation_ms, ==, again.reservation_ms);
}

static void check_floor(const char *text, gsize length)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *written = NULL;
	ZnodeFloor floor, again;
	gboolean is_one = znode_floor_from_json(text, length, &LAYOUT_TWITTER, &floor, &error);

	input_check_error(!is_one, &error);
	if (!is_one)
		return;
	g_assert_cmpint(floor.tick, <=, layout_max_tick(&LAYOUT_TWITTER));
	g_assert_cmpint(floor.clock_tick, <=, floor.tick);
	written = znode_floor_to_json(&floor);
	g_assert_true(
		znode_floor_from_json(written, strlen(written), &LAYOUT_TWITTER, &again, NULL));
	g_assert_cmpint(floor.tick, ==, again.tick);
	g_assert_cmpint(floor.clock_tick, ==, again.clock_tick);
	g_assert_true(znode_history_equal(&floor.history, &again.history));
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	static void (*const CHECKS[])(const char *text, gsize length) = {
		check_claim_name, check_number, check_reservation, check_claim,
		check_layout,     check_limits, check_floor,       check_registry,
	};

	if (size > 0)
		CHECKS[data[0] % G_N_ELEMENTS(CHECKS)]((const char *)data + 1, size - 1);
	return 0;
}
