/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Defines the main function of a unit test.
 *
 * TEST("/name/behaviour", test_behaviour) { ... } defines a test. The tests of a file run in the
 * order in which they are defined. UNIT_TEST_SET_UP and UNIT_TEST_TEAR_DOWN, if defined before this
 * header is included, are functions that run before and after all of them.
 */
#define TEST(path, function)                                                                       \
	static void function(void);                                                                \
	__attribute__((constructor)) static void register_##function(void)                         \
	{                                                                                          \
		unit_test_register(path, function);                                                \
	}                                                                                          \
	static void function(void)

static struct {
	const char *path;
	GTestFunc run;
} unit_tests[64];
static guint n_unit_tests;

static void unit_test_register(const char *path, GTestFunc run)
{
	g_assert_cmpuint(n_unit_tests, <, G_N_ELEMENTS(unit_tests));
	unit_tests[n_unit_tests].path = path;
	unit_tests[n_unit_tests++].run = run;
}

#ifdef UNIT_TEST_SET_UP
static void UNIT_TEST_SET_UP(void);
#endif
#ifdef UNIT_TEST_TEAR_DOWN
static void UNIT_TEST_TEAR_DOWN(void);
#endif

int main(int argc, char **argv)
{
	int status;

	g_test_init(&argc, &argv, NULL);
#ifdef UNIT_TEST_SET_UP
	UNIT_TEST_SET_UP();
#endif
	for (guint i = 0; i < n_unit_tests; i++)
		g_test_add_func(unit_tests[i].path, unit_tests[i].run);
	status = g_test_run();
#ifdef UNIT_TEST_TEAR_DOWN
	UNIT_TEST_TEAR_DOWN();
#endif
	return status;
}
