/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/target.h"
#include "tests/unit/unit-test.h"

TEST("/target/good", test_good)
{
	static const struct {
		const char *text;
		const char *path, *address, *category;
	} cases[] = {
		{"file:/var/log/audit", "/var/log/audit", NULL, NULL},
		{"file:/a b", "/a b", NULL, NULL},
		{"scribe://localhost", NULL, "localhost:1463", "snowflake"},
		{"scribe://localhost:7", NULL, "localhost:7", "snowflake"},
		{"scribe://localhost/ids", NULL, "localhost:1463", "ids"},
		{"scribe://10.0.0.1:7/ids", NULL, "10.0.0.1:7", "ids"},
		{"scribe://[::1]", NULL, "[::1]:1463", "snowflake"},
		{"scribe://[::1]:7/ids", NULL, "[::1]:7", "ids"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(AuditTarget) target = audit_target_parse(cases[i].text, &error);

		g_test_message("%s", cases[i].text);
		g_assert_no_error(error);
		g_assert_cmpstr(target->text, ==, cases[i].text);
		g_assert_cmpstr(target->path, ==, cases[i].path);
		g_assert_cmpstr(target->address ? target->address->text : NULL, ==,
				cases[i].address);
		g_assert_cmpstr(target->category, ==, cases[i].category);
	}
}

TEST("/target/bad", test_bad)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{"", "\"\" is neither file:PATH nor scribe://*"},
		{"/var/log/audit", "\"/var/log/audit\" is neither*"},
		{"file:", "\"file:\" does not name a file by an absolute path"},
		{"file:audit", "\"file:audit\" does not name a file by an absolute path"},
		{"scribe:localhost", "* is neither file:PATH nor *"},
		{"scribe://", "\"scribe://\" has no server*"},
		{"scribe:///ids", "\"scribe:///ids\" has no server*"},
		{"scribe://localhost:", "\"localhost:\" *"},
		{"scribe://localhost:0", "\"localhost:0\" *"},
		{"scribe://localhost:65536", "\"localhost:65536\" *"},
		{"scribe://*:1", "\"?:1\" *"},
		{"scribe://::1", "\"::1\" *"},
		{"scribe://localhost/", "* has no category after the server*"},
		{"scribe://localhost/a/b", "* has no category after the server*"},
		{"scribe://localhost/a b", "* has no category after the server*"},
	};

	for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;

		g_test_message("%s", cases[i].text);
		g_assert_null(audit_target_parse(cases[i].text, &error));
		g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
		g_test_message("%s", error->message);
		g_assert_true(g_pattern_match_simple(cases[i].error, error->message));
	}
}
