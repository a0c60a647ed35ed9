/* SPDX-License-Identifier: Apache-2.0 */
#include "options/help-text.h"
#include "tests/unit/unit-test.h"

static const struct {
	const char *a;
	const char *b;
	guint distance;
} DISTANCES[] = {
	{"", "", 0},
	{"", "ping", 4},
	{"ping", "ping", 0},
	{"ping", "pings", 1},
	{"ping", "ing", 1},
	{"ping", "pong", 1},
	{"ping", "ipng", 1},
	{"ping", "pign", 1},
	{"ping", "ingp", 2},
	{"ping", "ignp", 3},
	{"ping", "gnip", 3},
	{"ab", "ba", 1},
	{"abc", "ca", 3}, /* two swapped characters stay adjacent */
	{"abcd", "badc", 2},
	{"a", "b", 1},
	{"decode", "dcoede", 2},
	{"workers", "wokers", 1},
	{"sitting", "kitten", 3},
};

/* A common prefix, long enough that all distances count as near. It does not change the distances.
 */
#define BEFORE "0123456789ABCDEF"

/* Checks the distance: @b and a name with this known distance are equally near to @a, so the first
 * one is found. */
static void check_distance(const char *a, const char *b, guint distance)
{
	g_autofree char *typed = g_strconcat(BEFORE, a, NULL);
	g_autofree char *name = g_strconcat(BEFORE, b, NULL);
	g_autofree char *longer = g_strdup_printf("%s%.*s", typed, (int)distance, "######");

	g_test_message("%s, %s", a, b);
	g_assert_true(help_text_suggest(typed, (const char *[]){name, longer, NULL}) == name);
	g_assert_true(help_text_suggest(typed, (const char *[]){longer, name, NULL}) == longer);
}

TEST("/help-text/suggestion/distance", test_distance)
{
	for (gsize i = 0; i < G_N_ELEMENTS(DISTANCES); i++) {
		check_distance(DISTANCES[i].a, DISTANCES[i].b, DISTANCES[i].distance);
		check_distance(DISTANCES[i].b, DISTANCES[i].a, DISTANCES[i].distance);
	}
}

#define TEN "0123456789"

static const struct {
	const char *typed;
	const char *found;
} SUGGESTIONS[] = {
	{"wokers", "workers"},
	{"wrokers", "workers"},
	{"worker", "workers"},
	{"Workers", "workers"},
	{"pnig", "ping"},
	{"pong", "ping"},
	{"is", "id"},
	{"ping", "ping"},
	/* a step for three bytes */
	{"wkrs", NULL},
	{"wokrs", "workers"},
	{"wkrs-", NULL},
	{"worxxx", NULL},
	/* the first of two equally near ones */
	{"pig", "ping"},
	{"nonsense", NULL},
	{"x", NULL},
	{"", NULL},
	{TEN TEN TEN TEN TEN TEN "0123", TEN TEN TEN TEN TEN TEN "01234"},
	{TEN TEN TEN TEN TEN TEN "012345", NULL},
};

TEST("/help-text/suggestion/find", test_suggestion)
{
	static const char *const names[] = {
		"id", "ping", "pigs", "workers", TEN TEN TEN TEN TEN TEN "01234", NULL,
	};
	static const char *const none[] = {NULL};

	for (gsize i = 0; i < G_N_ELEMENTS(SUGGESTIONS); i++) {
		g_test_message("%s", SUGGESTIONS[i].typed);
		g_assert_cmpstr(help_text_suggest(SUGGESTIONS[i].typed, names), ==,
				SUGGESTIONS[i].found);
	}
	g_assert_null(help_text_suggest("ping", none));
}
