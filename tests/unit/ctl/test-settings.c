/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/settings.h"

#include <glib/gstdio.h>
#include <string.h>

#define UNIT_TEST_SET_UP    make_files
#define UNIT_TEST_TEAR_DOWN remove_files
#include "tests/unit/unit-test.h"

#define GROUP "[snowflakectl]\n"

static char *directory;
static char *user_file;
static char *system_file;
static char *named_file;
static CtlSettingFiles files;

static void make_files(void)
{
	directory = g_dir_make_tmp("settings-XXXXXX", NULL);
	user_file = g_build_filename(directory, "user", NULL);
	system_file = g_build_filename(directory, "system", NULL);
	named_file = g_build_filename(directory, "named", NULL);
	files = (CtlSettingFiles){user_file, system_file};
}

/* @text: (nullable): %NULL: there is no file */
static void write_file(const char *path, const char *text)
{
	if (text != NULL)
		g_assert_true(g_file_set_contents(path, text, -1, NULL));
	else
		g_unlink(path);
}

static void remove_files(void)
{
	write_file(user_file, NULL);
	write_file(system_file, NULL);
	write_file(named_file, NULL);
	g_assert_cmpint(g_rmdir(directory), ==, 0);
	g_free(user_file);
	g_free(system_file);
	g_free(named_file);
	g_free(directory);
}

/* @text: (nullable): %NULL: it is not set */
static void set_variable(const char *name, const char *text)
{
	if (text != NULL)
		g_setenv(name, text, TRUE);
	else
		g_unsetenv(name);
}

static void load_well(CtlOptions *options, guint uses)
{
	g_autoptr(GError) error = NULL;
	gboolean loaded = ctl_settings_load(options, uses, &files, &error);

	g_assert_no_error(error);
	g_assert_true(loaded);
}

/* The source with the highest precedence that sets a value applies, and messages name it. An empty
 * value is the default. */
TEST("/settings/precedence", test_precedence)
{
	static const struct {
		const char *option, *variable, *user, *system;
		CtlSource source;
		const char *text, *name;
	} CASES[] = {
		{NULL, NULL, NULL, NULL, CTL_SOURCE_DEFAULT, NULL, "--tls-ca"},
		{NULL, NULL, NULL, "/s", CTL_SOURCE_SYSTEM_FILE, "/s", "/system:2: tls-ca"},
		{NULL, NULL, "/u", "/s", CTL_SOURCE_USER_FILE, "/u", "/user:2: tls-ca"},
		{NULL, "v", "/u", "/s", CTL_SOURCE_ENVIRONMENT, "v", "SNOWFLAKE_TLS_CA"},
		{"o", "v", "/u", "/s", CTL_SOURCE_COMMAND_LINE, "o", "--tls-ca"},
		{"o", NULL, NULL, NULL, CTL_SOURCE_COMMAND_LINE, "o", "--tls-ca"},
		{NULL, "", "/u", "/s", CTL_SOURCE_ENVIRONMENT, NULL, "SNOWFLAKE_TLS_CA"},
		{NULL, NULL, "", "/s", CTL_SOURCE_USER_FILE, NULL, "/user:2: tls-ca"},
		{NULL, NULL, NULL, "", CTL_SOURCE_SYSTEM_FILE, NULL, "/system:2: tls-ca"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		CtlOptions options = {.tls.ca = CASES[i].option};
		g_autofree char *user = g_strconcat(GROUP "tls-ca=", CASES[i].user, NULL);
		g_autofree char *system = g_strconcat(GROUP "tls-ca=", CASES[i].system, NULL);
		g_autofree char *name = NULL;
		g_autofree char *text = NULL;

		g_test_message("case %zu", i);
		write_file(user_file, CASES[i].user != NULL ? user : NULL);
		write_file(system_file, CASES[i].system != NULL ? system : NULL);
		set_variable("SNOWFLAKE_TLS_CA", CASES[i].variable);
		load_well(&options, CTL_USE_SERVERS);
		g_assert_cmpint(options.origins[CTL_TLS_CA].source, ==, CASES[i].source);
		g_assert_cmpstr(options.tls.ca, ==, CASES[i].text);
		name = ctl_settings_name(&options, CTL_TLS_CA);
		g_assert_true(g_str_has_suffix(name, CASES[i].name));
		text = ctl_settings_text(&options, CTL_TLS_CA);
		g_assert_cmpstr(text, ==, CASES[i].text);
	}
	set_variable("SNOWFLAKE_TLS_CA", NULL);
}

/* Each option has a key and a variable; a command gets only the options that it uses. */
TEST("/settings/uses", test_uses)
{
	static const struct {
		guint uses;
		const char *texts[CTL_N_SETTINGS];
	} CASES[] = {
		{0,
		 {SNOWFLAKE_CLIENT_DEFAULT_SERVER, NULL, NULL, NULL, "snowflake", NULL, NULL, NULL,
		  "false", "3000"}},
		{CTL_USE_SERVERS,
		 {"a,b:1", NULL, NULL, NULL, "snowflake", "/ca", "/cert", "/key", "true", "7"}},
		{CTL_USE_REGISTRY,
		 {SNOWFLAKE_CLIENT_DEFAULT_SERVER, "z/r", "/auth", "host=p", "s", "/ca", "/cert",
		  "/key", "true", "7"}},
		{CTL_USE_ALL,
		 {"a,b:1", "z/r", "/auth", "host=p", "s", "/ca", "/cert", "/key", "true", "7"}},
	};
	static const char *const VALUES[CTL_N_SETTINGS] = {
		" a, ,b:1 ,", "z/r", "/auth", "host=p", "s", "/ca", "/cert", "/key", "true", "7"};

	for (guint from_file = 0; from_file < 2; from_file++) {
		g_autoptr(GString) text = g_string_new(GROUP);

		for (guint i = 0; i < CTL_N_SETTINGS; i++) {
			g_string_append_printf(text, "%s=%s\n", CTL_SETTINGS[i].option, VALUES[i]);
			set_variable(CTL_SETTINGS[i].variable, from_file ? NULL : VALUES[i]);
		}
		write_file(system_file, from_file ? text->str : NULL);
		write_file(user_file, NULL);
		for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
			CtlOptions options = {0};

			g_test_message("case %zu", i);
			load_well(&options, CASES[i].uses);
			for (guint j = 0; j < CTL_N_SETTINGS; j++) {
				g_autofree char *value = ctl_settings_text(&options, j);

				g_assert_cmpstr(value, ==, CASES[i].texts[j]);
			}
		}
	}
	for (guint i = 0; i < CTL_N_SETTINGS; i++)
		set_variable(CTL_SETTINGS[i].variable, NULL);
}

/* "false" replaces "true" of a source with lower precedence. */
TEST("/settings/flag", test_flag)
{
	CtlOptions options = {0};

	write_file(system_file, GROUP "tls-any-name=true\n");
	write_file(user_file, GROUP "tls-any-name=false\n");
	load_well(&options, CTL_USE_SERVERS);
	g_assert_false(options.tls.any_name);
	g_assert_cmpint(options.origins[CTL_TLS_ANY_NAME].source, ==, CTL_SOURCE_USER_FILE);
}

/* A file that the user names replaces both usual files. */
TEST("/settings/named-file", test_named_file)
{
	CtlOptions by_variable = {0};
	CtlOptions by_option = {.config = user_file};

	write_file(user_file, GROUP "tls-ca=/u\n");
	write_file(system_file, GROUP "tls-key=/s\n");
	write_file(named_file, GROUP "tls-certificate=/n\n");
	g_setenv(CTL_SETTINGS_VARIABLE, named_file, TRUE);
	load_well(&by_variable, CTL_USE_SERVERS);
	g_assert_cmpstr(by_variable.tls.certificate, ==, "/n");
	g_assert_null(by_variable.tls.ca);
	g_assert_null(by_variable.tls.key);
	load_well(&by_option, CTL_USE_SERVERS);
	g_assert_cmpstr(by_option.tls.ca, ==, "/u");
	g_assert_null(by_option.tls.certificate);
	g_unsetenv(CTL_SETTINGS_VARIABLE);
}

static void assert_refused(CtlOptions *options, const char *begin, const char *words)
{
	g_autoptr(GError) error = NULL;

	g_assert_false(ctl_settings_load(options, CTL_USE_ALL, &files, &error));
	g_assert_nonnull(error);
	g_test_message("%s", error->message);
	g_assert_true(g_str_has_prefix(error->message, begin));
	g_assert_nonnull(strstr(error->message, words));
}

/* Errors name the file or the variable, and the key. */
TEST("/settings/errors", test_errors)
{
	static const struct {
		const char *text, *words;
	} CASES[] = {
		{GROUP "tls-cas=/a\n", ":2: unknown key \"tls-cas\"; did you mean tls-ca?"},
		{GROUP "x=1\n", ":2: unknown key \"x\"; config show lists all keys"},
		{GROUP "tls-ca=a\n", ":2: tls-ca: \"a\" is not an absolute path"},
		{GROUP "tls-ca=\"/a\"\n", "is not an absolute path; remove the quotes"},
		{GROUP "tls-ca=/a # b\n",
		 ":2: tls-ca: the path contains \" #\"; put the comment on its own line"},
		{GROUP "tls-any-name=yes\n", ":2: tls-any-name: \"yes\" is neither true nor false"},
		{GROUP "tls-any-name=true # b\n",
		 "is neither true nor false; put the comment on its own line"},
		{GROUP "timeout=1\ntimeout=2\n", ":3: timeout is given twice; remove one"},
		{"[snowflaked]\n",
		 ":1: unknown group [snowflaked]; the only group is [snowflakectl]"},
		{"tls-ca=/a\n", ":1: a key before the group; add a line [snowflakectl] above it"},
	};
	CtlOptions named = {.config = named_file};

	write_file(system_file, NULL);
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		CtlOptions options = {0};

		write_file(user_file, CASES[i].text);
		assert_refused(&options, user_file, CASES[i].words);
	}
	write_file(user_file, NULL);
	g_setenv("SNOWFLAKE_TLS_ANY_NAME", "1", TRUE);
	assert_refused(&(CtlOptions){0},
		       "SNOWFLAKE_TLS_ANY_NAME: ", "\"1\" is neither true nor false");
	g_unsetenv("SNOWFLAKE_TLS_ANY_NAME");
	/* a named file must exist */
	write_file(named_file, NULL);
	assert_refused(&named, "--config: ", named_file);
	g_setenv(CTL_SETTINGS_VARIABLE, named_file, TRUE);
	assert_refused(&(CtlOptions){0}, CTL_SETTINGS_VARIABLE ": ", named_file);
	g_unsetenv(CTL_SETTINGS_VARIABLE);
	/* even if the command uses none of the options */
	g_assert_false(ctl_settings_load(&named, 0, &files, NULL));
}
