/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/address.h"
#include "tests/unit/unit-test.h"

static const struct {
	const char *text;
	const char *host;
	guint16 port;
	const char *written;
} GOOD[] = {
	{"127.0.0.1:7609", "127.0.0.1", 7609, "127.0.0.1:7609"},
	{"127.0.0.1", "127.0.0.1", 7609, "127.0.0.1:7609"},
	{"0.0.0.0:0", "0.0.0.0", 0, "0.0.0.0:0"},
	{"localhost:65535", "localhost", 65535, "localhost:65535"},
	{"ids-1.example.org", "ids-1.example.org", 7609, "ids-1.example.org:7609"},
	{"under_score:1", "under_score", 1, "under_score:1"},
	{"7.example:1", "7.example", 1, "7.example:1"},
	{"host:007", "host", 7, "host:7"},
	{"*", "*", 7609, "*:7609"},
	{"*:80", "*", 80, "*:80"},
	{"[::1]:7609", "::1", 7609, "[::1]:7609"},
	{"[::]", "::", 7609, "[::]:7609"},
	{"[fe80::1%eth0]:1", "fe80::1%eth0", 1, "[fe80::1%eth0]:1"},
	{"[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1, "[::ffff:127.0.0.1]:1"},
};

static const struct {
	const char *text;
	const char *fault;
} BAD[] = {
	{"", "the host is missing"},
	{":7609", "the host is missing"},
	{"host:", "the port is not a number from 0 to 65535"},
	{"host:65536", "the port is not a number from 0 to 65535"},
	{"host:-1", "the port is not a number from 0 to 65535"},
	{"host:+1", "the port is not a number from 0 to 65535"},
	{"host: 1", "the port is not a number from 0 to 65535"},
	{"host:1 ", "the port is not a number from 0 to 65535"},
	{"host:1x", "the port is not a number from 0 to 65535"},
	{"host:0x10", "the port is not a number from 0 to 65535"},
	{"host:99999999999999999999", "the port is not a number from 0 to 65535"},
	{"[::1]:65536", "the port is not a number from 0 to 65535"},
	{"::1", "needs brackets"},
	{"::1:7609", "needs brackets"},
	{"a:b:1", "needs brackets"},
	{"[::1", "the bracket is not closed"},
	{"[::1]7609", "the port must follow a colon"},
	{"[::1]]:1", "the port must follow a colon"},
	{"[]:1", "not an IPv6 address"},
	{"[localhost]:1", "not an IPv6 address"},
	{"[127.0.0.1]:1", "not an IPv6 address"},
	{"[::g]:1", "not an IPv6 address"},
	{"[fe80::1%0123456789abcdef]:1", "the text after % is not a network interface"},
	{"[fe80::1%a,b]:1", "the text after % is not a network interface"},
	{"7609", "not an IPv4 address"},
	{"127.1:1", "not an IPv4 address"},
	{"256.0.0.1:1", "not an IPv4 address"},
	{"1.2.3.4.5:1", "not an IPv4 address"},
	{"a b:1", "neither a name nor an IP address"},
	{"a:1,b:1", "it is more than one address"},
	{"a;b:1", "it is more than one address"},
	{"http://h:1", "write the host without a scheme"},
	{"http//h:1", "neither a name nor an IP address"},
	{"**:1", "neither a name nor an IP address"},
	{"h\xc3\xb6st:1", "\"h\\xc3\\xb6st:1\" is not HOST:PORT: the host is neither a name nor"},
};

static const struct {
	const char *text;
	const char *path;
	const char *written;
} LOCAL[] = {
	{"unix:/run/ids", "/run/ids", "unix:/run/ids"},
	{"unix:///run/ids", "/run/ids", "unix:/run/ids"},
	{"unix:/run//ids.sock", "/run//ids.sock", "unix:/run//ids.sock"},
	{"unix:/a b:c@d", "/a b:c@d", "unix:/a b:c@d"},
	{"unix:/h\xc3\xb6st", "/h\xc3\xb6st", "unix:/h\xc3\xb6st"},
	{"unix:@ids", "@ids", "unix:@ids"},
	{"@ids", "@ids", "unix:@ids"},
	{"@7609", "@7609", "unix:@7609"},
	{"@a/b", "@a/b", "unix:@a/b"},
};

static const struct {
	const char *text;
	const char *fault;
} BAD_LOCAL[] = {
	{"/run/ids", "\"/run/ids\" is not HOST:PORT: a path must follow unix:"},
	{"unix:", "\"unix:\" is not unix:PATH: the path is not absolute, as in unix:/run/ids"},
	{"unix:ids", "the path is not absolute"},
	{"unix:./ids", "the path is not absolute"},
	{"unix:7609x", "the path is not absolute"},
	{"unix:/", "the name is missing"},
	{"unix:///", "the name is missing"},
	{"unix:/run/", "the name is missing"},
	{"unix:@", "the name is missing"},
	{"@", "the name is missing"},
	{"unix:/run/i\nds", "the path is not printable text"},
	{"unix:@i\x7f", "the path is not printable text"},
	{"unix:/h\xc3st", "the path is not printable text"},
	{"unix:/h\xc3", "the path is not printable text"},
};

TEST("/address/this-machine", test_this_machine)
{
	for (gsize i = 0; i < G_N_ELEMENTS(LOCAL); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(Address) address = address_parse_listen(LOCAL[i].text, &error);
		g_autoptr(Address) server = address_parse_server(LOCAL[i].text, &error);

		g_test_message("%s", LOCAL[i].text);
		g_assert_no_error(error);
		g_assert_null(address->host);
		g_assert_cmpuint(address->port, ==, 0);
		g_assert_cmpstr(address->path, ==, LOCAL[i].path);
		g_assert_cmpstr(address->text, ==, LOCAL[i].written);
		g_assert_cmpstr(server->text, ==, LOCAL[i].written);
		g_assert_false(address_is_everywhere(address));
	}
}

TEST("/address/bad-local", test_bad_local)
{
	for (gsize i = 0; i < G_N_ELEMENTS(BAD_LOCAL); i++) {
		g_autofree char *shown = g_strescape(BAD_LOCAL[i].text, NULL);
		g_autoptr(GError) error = NULL;

		g_test_message("%s", shown);
		g_assert_null(address_parse_listen(BAD_LOCAL[i].text, &error));
		g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
		g_assert_nonnull(strstr(error->message, BAD_LOCAL[i].fault));
		g_assert_null(address_parse_server(BAD_LOCAL[i].text, NULL));
	}
}

/* The longest path that fits, and one that is a byte longer. */
TEST("/address/long-local", test_long_local)
{
	static const char *const PREFIXES[] = {"unix:/", "unix:@"};

	for (gsize i = 0; i < G_N_ELEMENTS(PREFIXES); i++) {
		g_autofree char *name = g_strnfill(ADDRESS_MAX_PATH_BYTES - 1, 'a');
		g_autofree char *fits = g_strconcat(PREFIXES[i], name, NULL);
		g_autofree char *too_long = g_strconcat(fits, "a", NULL);
		g_autoptr(Address) address = address_parse_listen(fits, NULL);
		g_autoptr(GError) error = NULL;

		g_assert_cmpuint(strlen(address->path), ==, 107);
		g_assert_null(address_parse_listen(too_long, &error));
		g_assert_nonnull(
			strstr(error->message, ": the path has 108 bytes; the limit is 107"));
	}
}

/* Local addresses are refused where HOST:PORT is required. A host named "unix" is valid. */
TEST("/address/not-local", test_not_local)
{
	static const char *const TEXTS[] = {"unix:/run/ids", "unix:@ids", "@ids", "/run/ids",
					    "unix:"};
	static Address *(*const PARSERS[])(const char *, GError **) = {
		address_parse, address_parse_admin, address_parse_peer};
	g_autoptr(Address) host = address_parse_listen("unix:7609", NULL);

	g_assert_cmpstr(host->host, ==, "unix");
	g_assert_null(host->path);
	for (gsize i = 0; i < G_N_ELEMENTS(TEXTS) * G_N_ELEMENTS(PARSERS); i++) {
		g_autoptr(GError) error = NULL;

		g_assert_null(PARSERS[i % G_N_ELEMENTS(PARSERS)](TEXTS[i / G_N_ELEMENTS(PARSERS)],
								 &error));
		g_assert_nonnull(
			strstr(error->message, "is not HOST:PORT: a local socket is not possible"));
	}
}

TEST("/address/good", test_good)
{
	for (gsize i = 0; i < G_N_ELEMENTS(GOOD); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(Address) address = address_parse(GOOD[i].text, &error);

		g_test_message("%s", GOOD[i].text);
		g_assert_no_error(error);
		g_assert_cmpstr(address->host, ==, GOOD[i].host);
		g_assert_cmpuint(address->port, ==, GOOD[i].port);
		g_assert_cmpstr(address->text, ==, GOOD[i].written);
	}
}

TEST("/address/bad", test_bad)
{
	for (gsize i = 0; i < G_N_ELEMENTS(BAD); i++) {
		g_autoptr(GError) error = NULL;

		g_test_message("%s", BAD[i].text);
		g_assert_null(address_parse(BAD[i].text, &error));
		g_assert_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
		g_assert_nonnull(strstr(error->message, BAD[i].fault));
		g_assert_null(address_parse(BAD[i].text, NULL));
	}
}

/* Some addresses are valid for a listener but not for a peer. */
TEST("/address/peer", test_peer)
{
	static const struct {
		const char *text;
		gboolean good;
	} CASES[] = {
		{"127.0.0.1:7609", TRUE}, {"[::1]", TRUE},
		{"host:1", TRUE},         {"host:0", FALSE},
		{"[::1]:0", FALSE},       {"*", FALSE},
		{"0.0.0.0:7609", FALSE},  {"[::]:7609", FALSE},
		{"::1", FALSE},           {"", FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(Address) address = address_parse_peer(CASES[i].text, &error);

		g_test_message("%s", CASES[i].text);
		g_assert_true((address != NULL) == CASES[i].good);
		g_assert_true((error == NULL) == CASES[i].good);
		g_clear_pointer(&address, address_free);
		address = address_parse_server(CASES[i].text, NULL);
		g_assert_true((address != NULL) == CASES[i].good);
	}
}

TEST("/address/loopback", test_loopback)
{
	static const struct {
		const char *host;
		gboolean is_loopback;
	} CASES[] = {
		{"localhost", TRUE},
		{"LocalHost", TRUE},
		{"zk.localhost", FALSE},
		{"127.0.0.1", TRUE},
		{"127.255.255.254", TRUE},
		{"::1", TRUE},
		{"::ffff:127.0.0.1", TRUE},
		{"0:0:0:0:0:0:0:1", TRUE},
		{"128.0.0.1", FALSE},
		{"126.255.255.255", FALSE},
		{"10.0.0.1", FALSE},
		{"::2", FALSE},
		{"::", FALSE},
		{"::ffff:10.0.0.1", FALSE},
		{"localhost.example", FALSE},
		{"notlocalhost", FALSE},
		{"127.0.0.1.example", FALSE},
		{"*", FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_test_message("%s", CASES[i].host);
		g_assert_cmpint(address_host_is_loopback(CASES[i].host), ==, CASES[i].is_loopback);
	}
}

TEST("/address/everywhere", test_everywhere)
{
	static const struct {
		const char *text;
		gboolean everywhere;
	} CASES[] = {
		{"*", TRUE},
		{"0.0.0.0", TRUE},
		{"[::]", TRUE},
		{"[::0]", TRUE},
		{"[0::]", TRUE},
		{"[0:0:0:0:0:0:0:0]", TRUE},
		{"[0000::0000]", TRUE},
		{"[::0.0.0.0]", TRUE},
		{"[::ffff:0.0.0.0]", TRUE},
		{"[::FFFF:0:0]", TRUE},
		{"127.0.0.1", FALSE},
		{"0.0.0.1", FALSE},
		{"[::1]", FALSE},
		{"[::1%eth0]", FALSE},
		{"[::ffff:0.0.0.1]", FALSE},
		{"[::fffe:0.0.0.0]", FALSE},
		{"[1::]", FALSE},
		{"localhost", FALSE},
		{"everywhere.example", FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(Address) address = address_parse(CASES[i].text, NULL);

		g_test_message("%s", CASES[i].text);
		g_assert_nonnull(address);
		g_assert_cmpint(address_is_everywhere(address), ==, CASES[i].everywhere);
	}
}

TEST("/address/reachable-from-here-only", test_reachable_from_here_only)
{
	static const struct {
		const char *text;
		gboolean local;
	} CASES[] = {
		{"@ids", TRUE},
		{"unix:/run/ids", TRUE},
		{"localhost", TRUE},
		{"LocalHost:1", TRUE},
		{"127.0.0.1", TRUE},
		{"127.255.0.7", TRUE},
		{"tls:127.0.0.1:1", TRUE},
		{"[::1]", TRUE},
		{"*", FALSE},
		{"0.0.0.0", FALSE},
		{"[::]", FALSE},
		{"192.0.2.1", FALSE},
		{"[fe80::1%eth0]", FALSE},
		{"localhost.example", FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(Address) address = address_parse_listen(CASES[i].text, NULL);

		g_test_message("%s", CASES[i].text);
		g_assert_nonnull(address);
		g_assert_cmpint(address_is_local(address), ==, CASES[i].local);
	}
}

TEST("/address/copy", test_copy)
{
	static const char *const TEXTS[] = {"[::1]:7", "@ids"};

	for (gsize i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
		g_autoptr(Address) same = address_parse_listen(TEXTS[i], NULL);
		g_autoptr(Address) address = address_parse_listen(TEXTS[i], NULL);
		g_autoptr(Address) copy = address_copy(address);

		g_clear_pointer(&address, address_free);
		g_assert_cmpstr(copy->host, ==, same->host);
		g_assert_cmpuint(copy->port, ==, same->port);
		g_assert_cmpstr(copy->path, ==, same->path);
		g_assert_cmpstr(copy->text, ==, same->text);
	}
}

TEST("/address/long-host", test_long_host)
{
	g_autofree char *longest = g_strnfill(253, 'a');
	g_autofree char *too_long = g_strnfill(254, 'a');
	g_autoptr(Address) address = address_parse(longest, NULL);

	g_assert_nonnull(address);
	g_assert_null(address_parse(too_long, NULL));
}

TEST("/address/admin-port", test_admin_port)
{
	static const struct {
		const char *text, *expected;
	} CASES[] = {
		{"a", "a:9990"}, {"[::1]", "[::1]:9990"}, {"*", "*:9990"}, {"a:7609", "a:7609"}};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(Address) address = address_parse_admin(CASES[i].text, NULL);

		g_assert_cmpstr(address->text, ==, CASES[i].expected);
	}
}

TEST("/address/servers", servers)
{
	const char *const texts[] = {"a.example,b.example:1", "unix:/a,b",
				     "tls:c.example , [::1]:2", NULL};
	static const char *const wanted[] = {"a.example:7609", "b.example:1", "unix:/a,b",
					     "tls:c.example:7609", "[::1]:2"};
	static const char *const wrong[] = {"", "a.example,", ",", "a.example,,b.example",
					    "a.example;b.example"};
	g_autoptr(GError) error = NULL;
	g_autoptr(GPtrArray) addresses = address_parse_servers(texts, &error);

	g_assert_no_error(error);
	g_assert_cmpuint(addresses->len, ==, G_N_ELEMENTS(wanted));
	for (gsize i = 0; i < G_N_ELEMENTS(wanted); i++)
		g_assert_cmpstr(((Address *)addresses->pdata[i])->text, ==, wanted[i]);
	for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
		g_assert_null(address_parse_servers((const char *[]){"a", wrong[i], NULL}, &error));
		g_assert_nonnull(error);
		g_clear_error(&error);
	}
}
