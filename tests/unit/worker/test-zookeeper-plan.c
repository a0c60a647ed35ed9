/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/plan.h"

#define MINE "nonce-mine"
#define NOW  5000000 /* us */

/* Connected and prepared, with a claim, wanting nothing; each case changes some of it. */
#define SETTLED                                                                                    \
	.now_us = NOW, .connected = TRUE, .prepared = TRUE, .secured = TRUE, .claim = CLAIM_MADE

typedef struct {
	const char *name;
	RegistrationFacts facts;
	RegistrationState next;
} NextCase;

static void check_next(const NextCase *cases, guint n)
{
	for (guint i = 0; i < n; i++) {
		g_test_message("%s", cases[i].name);
		g_assert_cmpstr(registration_state_name(zookeeper_plan_next(&cases[i].facts)), ==,
				registration_state_name(cases[i].next));
	}
}

static void test_session(void)
{
	static const NextCase CASES[] = {
		{"nothing is known", {.now_us = NOW}, REGISTRATION_CONNECTING},
		{"without a connection nothing else is done",
		 {.goal = REGISTRY_HAND_BACK, .unsettled = TRUE, .now_us = NOW},
		 REGISTRATION_CONNECTING},
		{"a new session looks at the layout first",
		 {.connected = TRUE, .claim = CLAIM_NONE},
		 REGISTRATION_PREPARING},
		{"then at who may write there",
		 {.connected = TRUE, .prepared = TRUE, .claim = CLAIM_NONE},
		 REGISTRATION_SECURING},
		{"before it extends",
		 {.connected = TRUE,
		  .prepared = TRUE,
		  .claim = CLAIM_MADE,
		  .goal = REGISTRY_EXTEND},
		 REGISTRATION_SECURING},
		{"then it announces itself",
		 {.connected = TRUE, .prepared = TRUE, .secured = TRUE, .claim = CLAIM_NONE},
		 REGISTRATION_ANNOUNCING},
		{"it looks first, where a claim may be left",
		 {.connected = TRUE, .prepared = TRUE, .secured = TRUE, .claim = CLAIM_UNKNOWN},
		 REGISTRATION_LOOKING},
		{"whatever is wanted",
		 {.connected = TRUE,
		  .prepared = TRUE,
		  .secured = TRUE,
		  .claim = CLAIM_UNKNOWN,
		  .goal = REGISTRY_EXTEND,
		  .wants_list = TRUE,
		  .wants_time = TRUE},
		 REGISTRATION_LOOKING},
		{"and when nothing is", {SETTLED}, REGISTRATION_RESTING},
		{"a pause goes before all of it",
		 {SETTLED, .goal = REGISTRY_CLAIM, .unsettled = TRUE, .pause_till_us = NOW + 1},
		 REGISTRATION_PAUSING},
		{"until it is over", {SETTLED, .pause_till_us = NOW}, REGISTRATION_RESTING},
	};

	check_next(CASES, G_N_ELEMENTS(CASES));
}

static void test_claim(void)
{
	static const NextCase CASES[] = {
		{"it reads who is there", {SETTLED, .goal = REGISTRY_CLAIM}, REGISTRATION_LOOKING},
		{"it asks them",
		 {SETTLED, .goal = REGISTRY_CLAIM, .listed = TRUE},
		 REGISTRATION_CHECKING},
		{"they contradict: it waits",
		 {SETTLED, .goal = REGISTRY_CLAIM, .doubtful_till_us = NOW + 1},
		 REGISTRATION_DOUBTING},
		{"and reads anew whom to ask",
		 {SETTLED, .goal = REGISTRY_CLAIM, .doubtful_till_us = NOW},
		 REGISTRATION_LOOKING},
		{"asked, it reads anew what is free",
		 {SETTLED, .goal = REGISTRY_CLAIM, .peers_checked = TRUE},
		 REGISTRATION_LOOKING},
		{"a worker ID is chosen",
		 {SETTLED, .goal = REGISTRY_CLAIM, .peers_checked = TRUE, .listed = TRUE,
		  .chosen = TRUE},
		 REGISTRATION_RESERVING},
		{"nobody knows whether it was written",
		 {SETTLED, .goal = REGISTRY_CLAIM, .peers_checked = TRUE, .chosen = TRUE,
		  .unsettled = TRUE},
		 REGISTRATION_SETTLING},
		{"nor whether the claim is there: the record first",
		 {.connected = TRUE,
		  .prepared = TRUE,
		  .secured = TRUE,
		  .claim = CLAIM_UNKNOWN,
		  .goal = REGISTRY_CLAIM,
		  .unsettled = TRUE},
		 REGISTRATION_SETTLING},
		{"the claim is gone: no reservation without it",
		 {.connected = TRUE,
		  .prepared = TRUE,
		  .secured = TRUE,
		  .claim = CLAIM_NONE,
		  .goal = REGISTRY_CLAIM,
		  .peers_checked = TRUE,
		  .chosen = TRUE},
		 REGISTRATION_ANNOUNCING},
	};

	check_next(CASES, G_N_ELEMENTS(CASES));
}

static void test_life(void)
{
	static const NextCase CASES[] = {
		{"an extension", {SETTLED, .goal = REGISTRY_EXTEND}, REGISTRATION_EXTENDING},
		{"the one before is settled first",
		 {SETTLED, .goal = REGISTRY_EXTEND, .unsettled = TRUE},
		 REGISTRATION_SETTLING},
		{"without a claim nothing is extended",
		 {.connected = TRUE,
		  .prepared = TRUE,
		  .secured = TRUE,
		  .claim = CLAIM_NONE,
		  .goal = REGISTRY_EXTEND},
		 REGISTRATION_ANNOUNCING},
		{"a hand-back needs no claim",
		 {.connected = TRUE, .claim = CLAIM_UNKNOWN, .goal = REGISTRY_HAND_BACK},
		 REGISTRATION_RETURNING},
		{"but that the last write is settled",
		 {SETTLED, .goal = REGISTRY_HAND_BACK, .unsettled = TRUE},
		 REGISTRATION_SETTLING},
		{"what nobody waits for is settled too",
		 {SETTLED, .unsettled = TRUE},
		 REGISTRATION_SETTLING},
		{"ZooKeeper's time", {SETTLED, .wants_time = TRUE}, REGISTRATION_TIMING},
		{"goes before a claim, which reserves by it",
		 {SETTLED, .goal = REGISTRY_CLAIM, .wants_time = TRUE},
		 REGISTRATION_TIMING},
		{"a list", {SETTLED, .wants_list = TRUE}, REGISTRATION_LISTING},
		{"a list goes before what is owed",
		 {SETTLED, .wants_list = TRUE, .repay_at_us = NOW},
		 REGISTRATION_LISTING},
		{"waits for what the worker ID needs",
		 {SETTLED, .wants_list = TRUE, .goal = REGISTRY_EXTEND},
		 REGISTRATION_EXTENDING},
	};

	check_next(CASES, G_N_ELEMENTS(CASES));
}

/* What is owed is never in the way. */
static void test_debt(void)
{
	static const NextCase CASES[] = {
		{"due", {SETTLED, .repay_at_us = NOW}, REGISTRATION_REPAYING},
		{"not due yet", {SETTLED, .repay_at_us = NOW + 1}, REGISTRATION_RESTING},
		{"in doubt", {SETTLED, .repay_at_us = NOW, .unsettled = 1}, REGISTRATION_SETTLING},
		{"an extension",
		 {SETTLED, .repay_at_us = NOW, .goal = REGISTRY_EXTEND},
		 REGISTRATION_EXTENDING},
		{"a claim",
		 {SETTLED, .repay_at_us = NOW, .goal = REGISTRY_CLAIM},
		 REGISTRATION_LOOKING},
		{"another hand-back",
		 {SETTLED, .repay_at_us = NOW, .goal = REGISTRY_HAND_BACK},
		 REGISTRATION_RETURNING},
		{"without a claim",
		 {.connected = TRUE,
		  .prepared = TRUE,
		  .secured = TRUE,
		  .claim = CLAIM_NONE,
		  .repay_at_us = 1},
		 REGISTRATION_ANNOUNCING},
	};
	static const struct {
		guint tries;
		gint64 pause_s;
	} PAUSES[] = {{1, 1}, {2, 2}, {3, 4}, {5, 16}, {6, 30}, {7, 30}, {G_MAXUINT, 30}};

	check_next(CASES, G_N_ELEMENTS(CASES));
	for (guint i = 0; i < G_N_ELEMENTS(PAUSES); i++)
		g_assert_cmpint(zookeeper_plan_repay_pause_us(PAUSES[i].tries), ==,
				PAUSES[i].pause_s * G_USEC_PER_SEC);
}

/* A write on version 4, with end 100, of the end 200. */
static void test_settle(void)
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
		g_assert_cmpint(zookeeper_plan_settle(&write, CASES[i].exists ? &record : NULL,
						      CASES[i].version),
				==, CASES[i].settlement);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/zookeeper-plan/next/session", test_session);
	g_test_add_func("/zookeeper-plan/next/claim", test_claim);
	g_test_add_func("/zookeeper-plan/next/life", test_life);
	g_test_add_func("/zookeeper-plan/next/debt", test_debt);
	g_test_add_func("/zookeeper-plan/settle", test_settle);
	return g_test_run();
}
