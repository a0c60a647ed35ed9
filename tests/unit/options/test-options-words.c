/* SPDX-License-Identifier: Apache-2.0 */

/* Options whose value is a number or a word. */
#include <string.h>

#include "core/generator.h"
#include "options/options.h"

#define OF_ZOOKEEPER "--zookeeper a --datacenter-id 0"

static Options *parse(const char *args, GError **error)
{
	g_autofree char *line = g_strconcat("snowflaked ", args, NULL);
	g_auto(GStrv) argv = g_strsplit(line, " ", -1);

	return options_new_from_args((int)g_strv_length(argv), argv, error);
}

static void test_good(void)
{
	static const struct {
		const char *args;
		gint64 worker_id;
		gint64 sequence_start;
	} CASES[] = {
		{"--worker-id mac", OPTIONS_WORKER_ID_MAC, 1},
		{"--worker-id=ip", OPTIONS_WORKER_ID_IP, 1},
		{"--worker-id 3 --worker-id ordinal", OPTIONS_WORKER_ID_ORDINAL, 1},
		{"--worker-id mac --worker-id 3", 3, 1},
		{OF_ZOOKEEPER " --worker-id ip --on-clock-step reclaim", OPTIONS_WORKER_ID_IP, 1},
		{"--sequence-start continue", OPTIONS_WORKER_ID_NONE, GENERATOR_SEQUENCE_CONTINUES},
		{"--sequence-start continue --sequence-start 2", OPTIONS_WORKER_ID_NONE, 2},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(Options) options = parse(CASES[i].args, &error);

		g_test_message("%s", CASES[i].args);
		g_assert_no_error(error);
		g_assert_cmpint(options->worker_id, ==, CASES[i].worker_id);
		g_assert_cmpint(options->sequence_start, ==, CASES[i].sequence_start);
	}
}

static void test_bad(void)
{
	static const struct {
		const char *args;
		const char *message;
	} CASES[] = {
		{"--worker-id MAC", "--worker-id: \"MAC\" is not a whole number in the range 0 to "
				    "what fits the layout, or mac or ip or ordinal"},
		{"--worker-id mac0", "--worker-id: \"mac0\" is not a whole number"},
		{"--worker-id mac,ip", "--worker-id: \"mac,ip\" is not a whole number"},
		{"--worker-id continue", "--worker-id: \"continue\" is not a whole number"},
		{"--worker-id -2", "--worker-id: \"-2\" is not a whole number"},
		{"--worker-id=", "--worker-id: \"\" is not a whole number"},
		{"--on-clock-step reclaim", "on-clock-step: reclaim takes another worker ID, so it "
					    "needs zookeeper, and no number for worker-id"},
		{OF_ZOOKEEPER " --on-clock-step reclaim --worker-id 0",
		 "on-clock-step: reclaim takes another worker ID"},
		{"--on-clock-step reclaim --worker-id ip", "on-clock-step: reclaim takes another"},
		{"--sequence-start 0", "--sequence-start: \"0\" is not a whole number in the range "
				       "1 to what fits the layout, or continue"},
		{"--sequence-start Continue", "--sequence-start: \"Continue\" is not a whole"},
		{"--sequence-start=", "--sequence-start: \"\" is not a whole number"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(Options) options = parse(CASES[i].args, &error);

		g_test_message("%s", CASES[i].args);
		g_assert_null(options);
		g_assert_nonnull(error);
		g_assert_null(strchr(error->message, '\n'));
		g_assert_nonnull(strstr(error->message, CASES[i].message));
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/options-words/good", test_good);
	g_test_add_func("/options-words/bad", test_bad);
	return g_test_run();
}
