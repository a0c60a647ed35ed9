/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/znodes.h"
#include "tests/unit/unit-test.h"

#define READ   1
#define WRITE  2
#define CREATE 4
#define DELETE 8
#define ADMIN  16
#define ALL    31

TEST("/znode-acl/open", test_open)
{
	static const struct {
		const char *scheme;
		gint permissions;
		gboolean open;
	} CASES[] = {
		{"world", ALL, TRUE},   {"world", READ, FALSE},         {"world", 0, FALSE},
		{"world", WRITE, TRUE}, {"world", CREATE, TRUE},        {"world", DELETE, TRUE},
		{"world", ADMIN, TRUE}, {"world", READ | DELETE, TRUE}, {"digest", ALL, FALSE},
		{"ip", ALL, FALSE},     {"sasl", WRITE | ADMIN, FALSE},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_test_message("%s %d", CASES[i].scheme, CASES[i].permissions);
		g_assert_cmpint(znode_acl_is_open(CASES[i].scheme, CASES[i].permissions), ==,
				CASES[i].open);
	}
}

/* As ZooKeeper's own DigestAuthenticationProvider makes them. */
TEST("/znode-acl/identity", test_identity)
{
	static const struct {
		const char *auth;
		const char *identity;
	} CASES[] = {
		{"super:test", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="},
		{"cluster:s3cret:with:colons", "cluster:8nvrCoLpqqvUM3fNEGfSTej38Bs="},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *identity = znode_acl_identity(CASES[i].auth);

		g_assert_cmpstr(identity, ==, CASES[i].identity);
	}
}
