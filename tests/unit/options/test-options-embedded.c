/* SPDX-License-Identifier: Apache-2.0 */
#include "options/options.h"
#include "tests/unit/unit-test.h"

#include <string.h>

TEST("/options-embedded/good", test_good)
{
	const char *const settings[] = {"zookeeper=a.example:2181", "datacenter-id=3",
					"create-registry",          "skip-sanity-checks",
					"session-timeout=4000",     "on-clock-step=reclaim",
					"session-timeout=5000",     NULL};
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = options_embedded_new(settings, &error);

	g_assert_no_error(error);
	g_assert_cmpstr(options->zookeeper->servers, ==, "a.example:2181");
	g_assert_cmpint(options->datacenter_id, ==, 3);
	g_assert_cmpint(options->session_timeout_ms, ==, 5000);
	g_assert_true(options->create_registry);
	g_assert_true(options->skip_sanity_checks);
}

/* A node without listeners can present a certificate to the servers that it calls. */
TEST("/options-embedded/certificate", test_certificate)
{
	const char *const settings[] = {"zookeeper=a.example:2181", "datacenter-id=3",
					"tls-certificate=/c", "tls-key=/k", NULL};
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = options_embedded_new(settings, &error);

	g_assert_no_error(error);
	g_assert_cmpstr(options->tls_certificate, ==, "/c");
}

TEST("/options-embedded/none", test_none)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = options_embedded_new(NULL, &error);

	g_assert_no_error(error);
	g_assert_cmpint(options->worker_id, ==, OPTIONS_WORKER_ID_NONE);
	g_assert_null(options->zookeeper);
}

TEST("/options-embedded/bad", test_bad)
{
	static const struct {
		const char *setting;
		const char *message;
	} CASES[] = {
		{"", "unknown option \"\""},
		{"listen=127.0.0.1:1",
		 "option \"listen\" has no effect in an embedded node; remove"},
		{"config=/etc/x", "option \"config\" has no effect"},
		{"help", "option \"help\" has no effect"},
		{"datacenter-ip=1",
		 "unknown option \"datacenter-ip\"; did you mean datacenter-id?"},
		{"lissten=1", "unknown option \"lissten\"; see snowflaked(8)"},
		{"--datacenter-id=1", "unknown option \"--datacenter-id\""},
		{"datacenter-id", "Missing argument for --datacenter-id"},
		{"datacenter-id=", "--datacenter-id: \"\" is not a whole number"},
		{"datacenter-id=1\n", "--datacenter-id: \"1\\x0a\" is not a whole number"},
		{"max-ahead=60001", "--max-ahead: \"60001\" is not a whole number, 0 to 60000 ms"},
		{"session-timeout=4000",
		 "session-timeout: has no effect without zookeeper or postgresql; remove it"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		const char *const settings[] = {CASES[i].setting, NULL};
		g_autoptr(GError) error = NULL;

		g_test_message("%s", CASES[i].setting);
		g_assert_null(options_embedded_new(settings, &error));
		g_assert_nonnull(error);
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, CASES[i].message));
	}
}
