/* SPDX-License-Identifier: Apache-2.0 */

/* Options of local sockets. */
#include <string.h>

#include "options/options.h"

static Options *parse(const char *args, GError **error)
{
	g_autofree char *line = g_strconcat("snowflaked ", args, NULL);
	g_auto(GStrv) argv = g_strsplit(line, " ", -1);

	return options_new_from_args((int)g_strv_length(argv), argv, error);
}

static char *listen_text(const Options *options)
{
	GString *text = g_string_new(NULL);

	for (guint i = 0; i < options->listen->len; i++)
		g_string_append_printf(text, "%s%s", i > 0 ? " " : "",
				       ((const Address *)options->listen->pdata[i])->text);
	return g_string_free(text, FALSE);
}

static void test_good(void)
{
	static const struct {
		const char *args;
		const char *listen;
		guint mode;
		const char *group;
	} CASES[] = {
		{"--listen unix:/run/ids --listen localhost --listen @ids",
		 "unix:/run/ids localhost:7609 unix:@ids", 0666, NULL},
		{"--listen unix:/ids --socket-mode 660 --socket-group ids", "unix:/ids", 0660,
		 "ids"},
		{"--listen @ids --listen unix:/ids --socket-mode=0000 --socket-group=0",
		 "unix:@ids unix:/ids", 0, "0"},
		{"--listen unix:/ids --socket-mode 0777 --socket-mode 1", "unix:/ids", 1, NULL},
		/* nothing is said of a file there is not */
		{"--listen @ids --socket-mode 666", "unix:@ids", 0666, NULL},
		{"--socket-mode 0666", "127.0.0.1:7609", 0666, NULL},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(Options) options = parse(CASES[i].args, &error);
		g_autofree char *listen = NULL;

		g_test_message("%s", CASES[i].args);
		g_assert_no_error(error);
		listen = listen_text(options);
		g_assert_cmpstr(listen, ==, CASES[i].listen);
		g_assert_cmpuint(options->socket_mode, ==, CASES[i].mode);
		g_assert_cmpstr(options->socket_group, ==, CASES[i].group);
	}
}

static void test_bad(void)
{
	static const struct {
		const char *args;
		const char *message;
	} CASES[] = {
		{"--listen unix:ids", "--listen: \"unix:ids\" is not unix:PATH: the path is not"},
		{"--listen /ids", "--listen: \"/ids\" is not HOST:PORT: a path stands after unix:"},
		{"--advertise unix:/ids", "--advertise: \"unix:/ids\" is not HOST:PORT: a local"},
		{"--admin-listen @ids",
		 "--admin-listen: \"@ids\" is not HOST:PORT: a local socket"},
		{"--socket-mode 1000",
		 "--socket-mode: \"1000\" is not an octal number from 0000 to "
		 "0777"},
		{"--socket-mode 0680", "--socket-mode: \"0680\" is not an octal number"},
		{"--socket-mode=", "--socket-mode: \"\" is not an octal number"},
		{"--socket-mode u=rw", "--socket-mode: \"u=rw\" is not an octal number"},
		{"--socket-mode 0660", "socket-mode: does nothing without unix:/PATH in listen"},
		{"--socket-mode 0660 --listen @ids",
		 "socket-mode: does nothing without unix:/PATH"},
		{"--socket-group ids", "socket-group: does nothing without unix:/PATH in listen"},
		{"--socket-group= --listen unix:/ids", "--socket-group: the name is empty"},
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
	g_test_add_func("/options-sockets/good", test_good);
	g_test_add_func("/options-sockets/bad", test_bad);
	return g_test_run();
}
