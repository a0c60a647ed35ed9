/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit-test.h"
#include "worker/registration/plan.h"

#define MINE "nonce-mine"

#define NOW 5000000 /* us */

/* Connected and prepared, with a claim and no request. Each case changes some members. */
#define SETTLED                                                                                    \
	.now_us = NOW, .connected = TRUE, .prepared = TRUE, .acls_checked = TRUE,                  \
	.claim = CLAIM_MADE

/* Rules that tests/simulation does not check. */
TEST("/registration-plan/next", test_next)
{
	static const struct {
		const char *name;
		RegistrationFacts facts;
		RegistrationState next;
	} CASES[] = {
		/* clang-format off */
		{"a release needs no claim",
		 {.connected = TRUE, .claim = CLAIM_UNKNOWN, .operation = REGISTRY_RELEASE},
		 REGISTRATION_RELEASING},
		{"the ACL is read after the layout",
		 {.connected = TRUE, .prepared = TRUE, .claim = CLAIM_NONE},
		 REGISTRATION_CHECKING_ACLS},
		{"the ACL is read before an extension",
		 {.connected = TRUE, .prepared = TRUE, .claim = CLAIM_MADE,
		  .operation = REGISTRY_EXTEND}, REGISTRATION_CHECKING_ACLS},
		{"waits after a contradiction",
		 {SETTLED, .operation = REGISTRY_CLAIM, .recheck_peers_at_us = NOW + 1},
		 REGISTRATION_WAITING_TO_RECHECK_PEERS},
		{"lists the peers again after the wait",
		 {SETTLED, .operation = REGISTRY_CLAIM, .recheck_peers_at_us = NOW},
		 REGISTRATION_READING_DATACENTER},
		{"lists the worker IDs again after the check",
		 {SETTLED, .operation = REGISTRY_CLAIM, .datacenter_was_read = TRUE,
		  .peers_checked = TRUE},
		 REGISTRATION_READING_DATACENTER},
		{"a list if nothing else is wanted", {SETTLED, .wants_list = TRUE},
		 REGISTRATION_LISTING_WORKERS},
		{"a list comes after an extension",
		 {SETTLED, .wants_list = TRUE, .operation = REGISTRY_EXTEND},
		 REGISTRATION_EXTENDING},
		/* clang-format on */
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_test_message("%s", CASES[i].name);
		g_assert_cmpstr(registration_state_name(registration_plan_next(&CASES[i].facts)),
				==, registration_state_name(CASES[i].next));
	}
}

/* A write of the end 200 over version 4, which has the end 100. */
TEST("/registration-plan/settle", test_settle)
{
	static const struct {
		const char *name;
		gint32 read_version;
		const char *read_owner;
		gboolean refused, exists;
		const char *owner;
		gint64 end_tick;
		gint32 version;
		RegistrationSettlement settlement;
	} CASES[] = {
		{"it took place", 4, MINE, FALSE, TRUE, MINE, 200, 5, SETTLED_WRITTEN},
		{"it did not", 4, MINE, FALSE, TRUE, MINE, 100, 4, SETTLED_NOT},
		{"a claim did not", 4, NULL, FALSE, TRUE, "other", 100, 4, SETTLED_NOT},
		{"another was first", 4, NULL, FALSE, TRUE, "other", 300, 5, SETTLED_LOST},
		{"it was refused: another of my name", 4, MINE, TRUE, TRUE, MINE, 200, 5,
		 SETTLED_LOST},
		{"it was refused", 4, MINE, TRUE, TRUE, MINE, 100, 4, SETTLED_NOT},
		{"mine, with another end", 4, MINE, FALSE, TRUE, MINE, 201, 5, SETTLED_LOST},
		{"mine, but later than mine could be", 4, MINE, FALSE, TRUE, MINE, 200, 6,
		 SETTLED_LOST},
		{"mine, but earlier: rolled back", 4, MINE, FALSE, TRUE, MINE, 50, 3, SETTLED_LOST},
		{"rolled back, and taken back by an operator", 4, MINE, FALSE, TRUE, "", 900, 4,
		 SETTLED_LOST},
		{"rolled back, and written by my name", 4, MINE, FALSE, TRUE, MINE, 90, 4,
		 SETTLED_LOST},
		{"gone", 4, MINE, FALSE, FALSE, NULL, 0, 0, SETTLED_LOST},
		{"it was created", -1, NULL, FALSE, TRUE, MINE, 200, 0, SETTLED_WRITTEN},
		{"it was not", -1, NULL, FALSE, FALSE, NULL, 0, 0, SETTLED_NOT},
		{"another created it", -1, NULL, FALSE, TRUE, "other", 200, 0, SETTLED_LOST},
		{"the version wraps", G_MAXINT32, MINE, FALSE, TRUE, MINE, 200, G_MININT32,
		 SETTLED_WRITTEN},
	};

	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const ReservationRecord record = {.end_tick = CASES[i].end_tick,
						  .owner = (char *)CASES[i].owner};
		const RegistrationWrite write = {
			.read_version = CASES[i].read_version,
			.read_end_tick = 100,
			.read_owner = CASES[i].read_owner,
			.owner = MINE,
			.end_tick = 200,
			.refused = CASES[i].refused,
		};

		g_test_message("%s", CASES[i].name);
		g_assert_cmpint(registration_plan_settle(&write, CASES[i].exists ? &record : NULL,
							 CASES[i].version),
				==, CASES[i].settlement);
	}
}
