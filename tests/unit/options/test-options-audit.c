/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "options/options.h"

#define FILE_HEAD "[snowflaked]\n"

/* What --audit-log becomes, and how it is refused. */
static const struct {
	const char *args[4];
	const char *file; /* of a config file; NULL: none */
	const char *expected;
	const char *error; /* how it begins, after the name of a file */
} CASES[] = {
	{{NULL}, NULL, "", NULL},
	{{"--audit-log=file:/a", "--audit-log=scribe://b"}, NULL, "file:/a;scribe://b", NULL},
	{{NULL}, "audit-log=file:/a b ; scribe://c:1/d", "file:/a b;scribe://c:1/d", NULL},
	{{"--audit-log=file:/a"}, "audit-log=file:/b;file:/c", "file:/a", NULL},
	{{"--audit-log=/a"}, NULL, NULL, "--audit-log: \"/a\" is neither file:PATH nor"},
	{{"--audit-log="}, NULL, NULL, "--audit-log: \"\" is neither file:PATH nor"},
	{{"--audit-log=file:/a", "--audit-log=scribe:b"},
	 NULL,
	 NULL,
	 "--audit-log: \"scribe:b\" is neither file:PATH nor"},
	{{"--audit-log=file:/a", "--audit-log=file:/b", "--audit-log=file:/a"},
	 NULL,
	 NULL,
	 "--audit-log: \"file:/a\" is given twice; leave one"},
	{{"--audit-log=file:/a\nb", "--audit-log=file:/a\nb"},
	 NULL,
	 NULL,
	 "--audit-log: \"file:/a\\x0ab\" is given twice; leave one"},
	{{NULL}, "audit-log=", NULL, "audit-log: \"\" is neither file:PATH nor"},
	{{NULL}, "audit-log=file:/a;", NULL, "audit-log: \"\" is neither file:PATH nor"},
	{{NULL}, "audit-log=file:a", NULL, "audit-log: \"file:a\" does not name a file by an"},
	{{"--audit-queue=65535"}, NULL, NULL, "--audit-queue: \"65535\" is not a whole number in"},
};

/* (transfer full): the name of a file with @text */
static char *write_file(const char *text)
{
	g_autofree char *all = g_strconcat(FILE_HEAD, text, "\n", NULL);
	char *path;

	close(g_file_open_tmp("options-XXXXXX", &path, NULL));
	g_assert_true(g_file_set_contents(path, all, -1, NULL));
	return path;
}

static char *list_to_string(const GPtrArray *targets)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < targets->len; i++)
		g_string_append_printf(text, "%s%s", i > 0 ? ";" : "",
				       ((const AuditTarget *)targets->pdata[i])->text);
	return g_string_free(text, FALSE);
}

static void test_cases(void)
{
	for (guint i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *path = CASES[i].file != NULL ? write_file(CASES[i].file) : NULL;
		g_autoptr(GPtrArray) args = g_ptr_array_new();
		g_autoptr(Options) options = NULL;
		g_autoptr(GError) error = NULL;

		g_ptr_array_add(args, (gpointer) "snowflaked");
		for (guint k = 0; k < G_N_ELEMENTS(CASES[i].args) && CASES[i].args[k]; k++)
			g_ptr_array_add(args, (gpointer)CASES[i].args[k]);
		if (path != NULL) {
			g_ptr_array_add(args, (gpointer) "--config");
			g_ptr_array_add(args, path);
		}
		options = options_new_from_args((int)args->len, (char **)args->pdata, &error);
		g_test_message("%u: %s", i, error != NULL ? error->message : "good");
		if (CASES[i].expected != NULL) {
			g_autofree char *text = NULL;

			g_assert_no_error(error);
			text = list_to_string(options->audit_log);
			g_assert_cmpstr(text, ==, CASES[i].expected);
		} else {
			g_assert_null(options);
			g_assert_nonnull(strstr(error->message, CASES[i].error));
		}
		if (path != NULL)
			unlink(path);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/options/audit", test_cases);
	return g_test_run();
}
