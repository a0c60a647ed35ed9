/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/hosts.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/unit-test.h"

TEST("/zookeeper-hosts/good", test_good)
{
	static const struct {
		const char *text;
		const char *servers;
		const char *root;
	} CASES[] = {
		{"a", "a:2181", "/snowflake"},
		{"a:1", "a:1", "/snowflake"},
		{"a:1/ids", "a:1", "/ids"},
		{"a,b:7,10.0.0.1/ids/of-us", "a:2181,b:7,10.0.0.1:2181", "/ids/of-us"},
		{" a:1 , b:2", "a:1,b:2", "/snowflake"},
		/* the ZooKeeper client splits at the last colon, and does not support brackets */
		{"[::1]", "::1:2181", "/snowflake"},
		{"[::1]:7,a", "::1:7,a:2181", "/snowflake"},
		{"a/x.y/..z", "a:2181", "/x.y/..z"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(ZookeeperHosts) hosts = zookeeper_hosts_parse(CASES[i].text, &error);

		g_test_message("%s", CASES[i].text);
		g_assert_no_error(error);
		g_assert_cmpstr(hosts->servers, ==, CASES[i].servers);
		g_assert_cmpstr(hosts->root, ==, CASES[i].root);
		g_assert_cmpstr(hosts->text, ==, CASES[i].text);
	}
}

TEST("/zookeeper-hosts/bad", test_bad)
{
	static const struct {
		const char *text;
		const char *fault;
	} CASES[] = {
		{"", "no ZooKeeper server is given"},
		{"/snowflake", "no ZooKeeper server is given"},
		{"a,", "the host is missing"},
		{",a", "the host is missing"},
		{"a,,b", "the host is missing"},
		{":2181", "the host is missing"},
		{"a:", "the port is not a number"},
		{"a:0", "other machines cannot connect to this address"},
		{"a:65536", "the port is not a number"},
		{"*:2181", "other machines cannot connect to this address"},
		{"0.0.0.0", "other machines cannot connect to this address"},
		{"::1:2181", "needs brackets"},
		{"[::1", "the bracket is not closed"},
		{"a;b", "\"a;b\" is not HOST:PORT,HOST:PORT/PATH"},
		{"zk://a:1/b", "is not HOST:PORT,HOST:PORT/PATH"},
#if ZOOKEEPER_SPEAKS_TLS
		{"tls:a:2181,b", "precedes only some of the servers"},
		{"a,tls:b", "precedes only some of the servers"},
#else
		{"tls:a:2181", "contains tls:"},
		{"a,tls:b", "contains tls:"},
#endif
		{"a/", "has a slash too many"},
		{"a//b", "has a slash too many"},
		{"a/b/", "has a slash too many"},
		{"a/b//c", "has a slash too many"},
		{"a/.", "has a \".\""},
		{"a/b/../c", "has a \"..\""},
		{"a/b c", "printable ASCII"},
		{"a/zookeeper", "the path \"/zookeeper\" belongs to ZooKeeper itself"},
		{"a/zookeeper/b", "belongs to ZooKeeper itself; use another one"},
		{"a/b\n", "\"/b\\x0a\""},
		{"a/\xc3\xa9", "printable ASCII"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;

		g_test_message("%s", CASES[i].text);
		g_assert_null(zookeeper_hosts_parse(CASES[i].text, &error));
		g_assert_nonnull(error);
		g_test_message("%s", error->message);
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
		g_assert_null(zookeeper_hosts_parse(CASES[i].text, NULL));
	}
	zookeeper_hosts_free(NULL);
}

TEST("/zookeeper-hosts/set-tls", test_set_tls)
{
	static const TlsNames NONE = {NULL, NULL, NULL, FALSE};
	g_autoptr(ZookeeperHosts) plain = zookeeper_hosts_parse("a,b", NULL);

	g_assert_nonnull(plain);
	g_assert_false(plain->is_tls);
	g_assert_true(zookeeper_hosts_set_tls(plain, &NONE, NULL));
	g_assert_null(plain->certificates);

#if ZOOKEEPER_SPEAKS_TLS
	static const struct {
		TlsNames names;
		const char *fault;
	} CASES[] = {
		{{"ca.pem", "own.pem", NULL, FALSE}, "requires tls-ca"},
		{{"ca.pem", "a,b.pem", "own.key", FALSE}, "comma"},
	};
	g_autoptr(ZookeeperHosts) hosts = zookeeper_hosts_parse("tls:a,tls:b:2281/x", NULL);

	g_assert_nonnull(hosts);
	g_assert_true(hosts->is_tls);
	g_assert_cmpstr(hosts->servers, ==, "a:2181,b:2281");
	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;

		g_assert_false(zookeeper_hosts_set_tls(hosts, &CASES[i].names, &error));
		g_assert_nonnull(strstr(error->message, CASES[i].fault));
	}
	g_assert_null(hosts->certificates);
#endif
}

static void assert_refused(const char *path, const char *word)
{
	g_autoptr(GError) error = NULL;

	g_assert_null(zookeeper_hosts_read_auth(path, &error));
	g_assert_true(g_error_matches(error, ZOOKEEPER_HOSTS_ERROR, ZOOKEEPER_HOSTS_ERROR_AUTH));
	g_assert_nonnull(strstr(error->message, path));
	g_assert_nonnull(strstr(error->message, word));
	g_assert_null(strstr(error->message, "ecret"));
}

TEST("/zookeeper-hosts/auth/read", test_read)
{
	g_autofree char *long_line = g_strnfill(1030, 'p');
	const struct {
		const char *text;
		gssize length;
		const char *auth; /* NULL if an error */
	} TEXTS[] = {
		{"user:secret\n", -1, "user:secret"},
		{"user:secret\r\n", -1, "user:secret"},
		{"user:se:cr et \nmore", -1, "user:se:cr et "},
		{"", -1, NULL},
		{"\nuser:secret\n", -1, NULL},
		{"user", -1, NULL},
		{"user:", -1, NULL},
		{":secret", -1, NULL},
		{"user:sec\0ret", 12, NULL},
		{long_line, -1, NULL},
		{"\xef\xbb\xbfuser:secret\n", -1, NULL},
		{"user:secret", -1, "user:secret"}, /* last, because its file is used below */
	};
	static const struct {
		int mode;
		const char *word; /* NULL if accepted */
	} MODES[] = {
		{0600, NULL},          {0400, NULL},        {0660, NULL},
		{0604, "mode 0604"},   {0602, "mode 0602"}, {0601, "mode 0601"},
		{0644, "chmod o-rwx"},
	};
	g_autofree char *directory = g_dir_make_tmp("znodes-XXXXXX", NULL);
	g_autofree char *path = g_build_filename(directory, "auth", NULL);

	for (gsize i = 0; i < G_N_ELEMENTS(TEXTS); i++) {
		g_autofree char *auth = NULL;

		g_test_message("%s", TEXTS[i].text);
		g_assert_true(g_file_set_contents(path, TEXTS[i].text, TEXTS[i].length, NULL));
		g_assert_cmpint(g_chmod(path, 0600), ==, 0);
		auth = zookeeper_hosts_read_auth(path, NULL);
		g_assert_cmpstr(auth, ==, TEXTS[i].auth);
		if (TEXTS[i].auth == NULL)
			assert_refused(path, "");
	}
	for (gsize i = 0; i < G_N_ELEMENTS(MODES); i++) {
		g_assert_cmpint(g_chmod(path, MODES[i].mode), ==, 0);
		if (MODES[i].word == NULL) {
			g_autofree char *auth = zookeeper_hosts_read_auth(path, NULL);

			g_assert_cmpstr(auth, ==, "user:secret");
		} else {
			assert_refused(path, MODES[i].word);
		}
	}
	g_remove(path);
	assert_refused(path, "");
	g_assert_cmpint(mkfifo(path, 0600), ==, 0);
	assert_refused(path, "not a regular file");
	g_remove(path);
	assert_refused(directory, "not a regular file");
	g_rmdir(directory);
}
