/* SPDX-License-Identifier: Apache-2.0 */
#include "load/options.h"
#include "tests/unit/unit-test.h"

#include <string.h>

/* Sets the options of "name=value ..." and checks them; "check" has no value. */
static gboolean parse(const char *text, LoadOptions *options, GError **error)
{
	g_auto(GStrv) parts = g_strsplit(text, " ", -1);

	for (gsize i = 0; parts[i] != NULL; i++) {
		char *value = strchr(parts[i], '=');

		if (strcmp(parts[i], "check") == 0) {
			options->check = TRUE;
			continue;
		}
		if (value == NULL)
			continue;
		*value = '\0';
		if (!load_options_set(options, parts[i], value + 1, error))
			return FALSE;
	}
	return load_options_check(options, error);
}

TEST("/load-options/bad", bad_values_are_named_with_their_limits)
{
	static const struct {
		const char *text;
		const char *message;
	} cases[] = {
		{"connections=0", "--connections: \"0\" is not a whole number from 1 to 100000"},
		{"connections=100001",
		 "--connections: \"100001\" is not a whole number from 1 to 100000"},
		{"connections=-1", "--connections: \"-1\" is not a whole number from 1 to 100000"},
		{"connections=1.5",
		 "--connections: \"1.5\" is not a whole number from 1 to 100000"},
		{"connections=", "--connections: \"\" is not a whole number from 1 to 100000"},
		{"in-flight=65537", "--in-flight: \"65537\" is not a whole number from 1 to 65536"},
		{"threads=1025", "--threads: \"1025\" is not a whole number from 1 to 1024"},
		{"duration=0.009", "--duration: \"0.009\" is not a number from 0.01 to 86400"},
		{"duration=86401", "--duration: \"86401\" is not a number from 0.01 to 86400"},
		{"duration=1s", "--duration: \"1s\" is not a number from 0.01 to 86400"},
		{"duration=nan", "--duration: \"nan\" is not a number from 0.01 to 86400"},
		{"duration=0x1", "--duration: \"0x1\" is not a number from 0.01 to 86400"},
		{"duration=", "--duration: \"\" is not a number from 0.01 to 86400"},
		{"warmup=-1", "--warmup: \"-1\" is not a number from 0 to 3600"},
		{"rate=0", "--rate: \"0\" is not a number from 1 to 100000000"},
		{"calls=0", "--calls: \"0\" is not a whole number from 1 to 1000000000000000"},
		{"call=get", "--call: \"get\" is not one of get_id, get_ids, get_id_runs, "
			     "redis-incr"},
		{"count=1000001", "--count: \"1000001\" is not a whole number from 1 to 1000000"},
		{"idle-connections=100001",
		 "--idle-connections: \"100001\" is not a whole number from 0 to 100000"},
		{"calls=1 duration=1", "--calls and --duration cannot be combined; remove one"},
		{"calls=1 warmup=0", "--calls and --warmup cannot be combined; remove one"},
		{"rate=1 calls=1", "--calls and --rate cannot be combined; remove one"},
		{"connections=2 threads=3", "--threads: 3 is more than the 2 --connections"},
		{"count=1", "--count has no effect with --call get_id; remove it"},
		{"count=2 call=redis-incr",
		 "--count has no effect with --call redis-incr; remove it"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		LoadOptions options = LOAD_OPTIONS_DEFAULTS;
		g_autoptr(GError) error = NULL;

		g_assert_false(parse(cases[i].text, &options, &error));
		g_assert_cmpstr(error->message, ==, cases[i].message);
	}
}

TEST("/load-options/untouched", a_bad_value_changes_nothing)
{
	static const char *const cases[] = {"connections=x", "duration=x", "call=x"};
	const LoadOptions defaults = LOAD_OPTIONS_DEFAULTS;

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		LoadOptions options = LOAD_OPTIONS_DEFAULTS;

		g_assert_false(parse(cases[i], &options, NULL));
		g_assert_cmpuint(options.connections, ==, defaults.connections);
		g_assert_cmpfloat(options.duration_s, ==, defaults.duration_s);
		g_assert_cmpuint(options.form.call, ==, defaults.form.call);
		g_assert_cmpuint(options.given, ==, 0);
	}
}

TEST("/load-options/good", good_values_are_taken)
{
	LoadOptions options = LOAD_OPTIONS_DEFAULTS;
	g_autoptr(GError) error = NULL;

	g_assert_true(parse("connections=100000 in-flight=65536 threads=1024 duration=0.01 "
			    "warmup=3600 rate=2.5e5 call=get_ids count=1000000 "
			    "idle-connections=7 check",
			    &options, &error));
	g_assert_no_error(error);
	g_assert_cmpuint(options.connections, ==, 100000);
	g_assert_cmpuint(options.in_flight, ==, 65536);
	g_assert_cmpuint(options.threads, ==, 1024);
	g_assert_cmpfloat_with_epsilon(options.duration_s, 0.01, 1e-9);
	g_assert_cmpfloat(options.warmup_s, ==, 3600);
	g_assert_cmpfloat(options.rate, ==, 250000);
	g_assert_cmpuint(options.form.call, ==, LOAD_WIRE_GET_IDS);
	g_assert_cmpuint(options.form.count, ==, 1000000);
	g_assert_cmpuint(options.idle_connections, ==, 7);
	g_assert_true(options.check);
}

TEST("/load-options/combinations", good_combinations_pass)
{
	static const char *const cases[] = {
		"",
		"calls=1000 check",
		"rate=1 duration=1 warmup=0",
		"call=redis-incr check",
		"call=get_ids count=1",
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		LoadOptions options = LOAD_OPTIONS_DEFAULTS;
		g_autoptr(GError) error = NULL;

		parse(cases[i], &options, &error);
		g_assert_no_error(error);
	}
}
