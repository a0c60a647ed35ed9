/* SPDX-License-Identifier: Apache-2.0 */

/* Checks the target of the pool against the rates that hold for all clients. */
#include "client/pool/refill.h"
#include "tests/unit/core/vectors.h"
#include "tests/unit/unit-test.h"

#define PREFETCH_US (50 * G_TIME_SPAN_MILLISECOND) /* the value of the vectors */
#define IDLE_US     (500 * G_TIME_SPAN_MILLISECOND)
#define OBSERVE_US  (PREFETCH_US / 16)

static guint target_at_rate(gint64 per_second, gint64 round_trip_us)
{
	PoolRate rate;

	pool_rate_init(&rate, IDLE_US, 0);
	for (gint64 now_us = OBSERVE_US; now_us <= G_USEC_PER_SEC; now_us += OBSERVE_US)
		pool_rate_observe(&rate, now_us, now_us * per_second / G_USEC_PER_SEC, FALSE);
	return pool_rate_target(&rate, PREFETCH_US + 2 * round_trip_us);
}

TEST("/pool-prefetch/rates", test_rates)
{
	g_autoptr(JsonNode) root = vectors_load("prefetch.json");
	JsonArray *rates = vectors_array(root, "rates");

	for (guint i = 0; i < json_array_get_length(rates); i++) {
		JsonObject *rate = json_array_get_object_element(rates, i);
		guint target = target_at_rate(json_object_get_int_member(rate, "per_second"),
					      json_object_get_int_member(rate, "round_trip_ms") *
						      G_TIME_SPAN_MILLISECOND);

		g_assert_cmpuint(target, >=, json_object_get_int_member(rate, "least"));
		g_assert_cmpuint(target, <=, json_object_get_int_member(rate, "most"));
	}
}
