/* SPDX-License-Identifier: Apache-2.0 */
#include "server/health.h"
#include "tests/unit/unit-test.h"

TEST("/health/alive", test_alive)
{
	static const struct {
		gint64 check_ms; /* 0: the default, postponed by 60 s */
		gint64 ago_ms;
		gboolean is_alive;
	} CASES[] = {
		{HEALTH_CHECK_MS, 0, TRUE},
		{HEALTH_CHECK_MS, 19000, TRUE},
		{HEALTH_CHECK_MS, 20000, FALSE},
		{1000, 3000, TRUE},
		{1000, 4000, FALSE},
		{100000, 20000, TRUE},
		{0, 0, TRUE},
		{0, 29000, TRUE},
		{0, 79000, TRUE},
		{0, 80000, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		Health health;
		g_autofree char *why_not = NULL;

		health_init(&health, NULL);
		if (CASES[i].check_ms == 0)
			health_put_off_checks(&health, 60000);
		else
			health_set_check_ms(&health, CASES[i].check_ms);
		health.progress_at_us -= CASES[i].ago_ms * 1000;
		why_not = health_why_not_alive(&health);
		g_test_message("%" G_GINT64_FORMAT ": %s", CASES[i].ago_ms, why_not);
		g_assert_true((why_not == NULL) == CASES[i].is_alive);
		health_note(&health);
		g_assert_null(health_why_not_alive(&health));
	}
}
