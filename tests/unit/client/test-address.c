/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "client/client-address.h"
#include "client/snowflake-client.h"

static void parses(void)
{
	static const struct {
		const char *text;
		const char *host;
		guint port;
		const char *shown;
	} cases[] = {
		{"localhost", "localhost", 7609, "localhost:7609"},
		{"localhost:1", "localhost", 1, "localhost:1"},
		{"a-b.example_1:65535", "a-b.example_1", 65535, "a-b.example_1:65535"},
		{"192.0.2.1:80", "192.0.2.1", 80, "192.0.2.1:80"},
		{"[::1]", "::1", 7609, "[::1]:7609"},
		{"[::1]:7610", "::1", 7610, "[::1]:7610"},
		{"[fe80::1%lo]:7610", "fe80::1%lo", 7610, "[fe80::1%lo]:7610"},
		{"[::ffff:192.0.2.1]", "::ffff:192.0.2.1", 7609, "[::ffff:192.0.2.1]:7609"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(ClientAddress) address = client_address_parse(cases[i].text, &error);

		g_test_message("%s", cases[i].text);
		g_assert_no_error(error);
		g_assert_cmpstr(address->host, ==, cases[i].host);
		g_assert_cmpuint(address->port, ==, cases[i].port);
		g_assert_cmpstr(address->text, ==, cases[i].shown);
	}
}

static void refuses(void)
{
	static const char *const cases[] = {
		"",
		":7609",
		"host:",
		"host:0",
		"host:65536",
		"host:+1",
		"host: 1",
		"host:1x",
		"host:http",
		"host:1:2",
		"::1",
		"::1:7609",
		"[::1",
		"[::1]7609",
		"[::1]:",
		"[::1]:0",
		"[]:7609",
		"[host]:7609",
		"[192.0.2.1]:7609",
		"[::g]",
		"a b",
		" host",
		"host\n",
		"host/x",
		"user@host",
		"h\xc3\xb6st",
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GError) error = NULL;

		g_test_message("%s", cases[i]);
		g_assert_null(client_address_parse(cases[i], &error));
		g_assert_error(error, SNOWFLAKE_CLIENT_ERROR,
			       SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT);
		g_assert_true(g_str_is_ascii(error->message));
	}
}

static void limits_the_name(void)
{
	g_autofree char *longest = g_strnfill(253, 'a');
	g_autofree char *too_long = g_strnfill(254, 'a');
	g_autoptr(ClientAddress) address = client_address_parse(longest, NULL);

	g_assert_nonnull(address);
	g_assert_null(client_address_parse(too_long, NULL));
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/client-address/parses", parses);
	g_test_add_func("/client-address/refuses", refuses);
	g_test_add_func("/client-address/limits-the-name", limits_the_name);
	return g_test_run();
}
