/* SPDX-License-Identifier: Apache-2.0 */

/* Parsers of addresses and allow lists, in options and in data from other servers. The first byte
 * selects the parser. */
#include <string.h>
#include <sys/socket.h>

#include "audit/sink.h"
#include "common/address.h"
#include "common/allow-list.h"
#include "common/zookeeper/hosts.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/inputs.h"

typedef Address *(*Parse)(const char *text, GError **error);

static void check_same(const Address *a, const Address *b)
{
	g_assert_cmpstr(a->text, ==, b->text);
	g_assert_cmpstr(a->host, ==, b->host);
	g_assert_cmpstr(a->path, ==, b->path);
	g_assert_cmpuint(a->port, ==, b->port);
	g_assert_cmpint(a->is_tls, ==, b->is_tls);
}

/* The text of an address parses as the same address. */
static void check_address(Parse parse, const char *text)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Address) address = parse(text, &error);
	g_autoptr(Address) again = NULL;

	input_check_error(address == NULL, &error);
	if (address == NULL)
		return;
	g_assert_true((address->host == NULL) != (address->path == NULL));
	if (address->host != NULL)
		g_assert_cmpuint(strlen(address->host), <=, ADDRESS_MAX_HOST_BYTES);
	else
		g_assert_cmpuint(strlen(address->path), <=, ADDRESS_MAX_PATH_BYTES);
	if (parse == address_parse_peer)
		g_assert_false(address_is_everywhere(address));
	again = parse(address->text, NULL);
	g_assert_nonnull(again);
	check_same(address, again);
}

/* ZooKeeper's client ends the process if it cannot parse its argument. */
static void check_hosts(const char *text)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(ZookeeperHosts) hosts = zookeeper_hosts_parse(text, &error);
	g_auto(GStrv) servers = NULL;

	input_check_error(hosts == NULL, &error);
	if (hosts == NULL)
		return;
	g_assert_true(hosts->root[0] == '/' && !g_str_has_suffix(hosts->root, "/"));
	servers = g_strsplit(hosts->servers, ",", -1);
	for (char **server = servers; *server != NULL; server++) {
		const char *colon = strrchr(*server, ':');
		guint64 port;

		g_assert_true(colon != NULL && colon > *server);
		g_assert_true(
			g_ascii_string_to_unsigned(colon + 1, 10, 1, G_MAXUINT16, &port, NULL));
		g_assert_null(strchr(*server, '/'));
	}
}

static void check_allow_list(const char *text)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(AllowList) list = allow_list_parse(text, &error);

	input_check_error(list == NULL, &error);
	if (list == NULL)
		return;
	g_assert_cmpstr(list->text, ==, text);
	/* a peer without an address is rejected */
	g_assert_false(allow_list_admits(list, -1, NULL));
}

static void check_target(const char *text)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(AuditTarget) target = audit_target_parse(text, &error);

	input_check_error(target == NULL, &error);
	if (target == NULL)
		return;
	g_assert_cmpstr(target->text, ==, text);
	g_assert_true((target->path == NULL) != (target->address == NULL));
	g_assert_true((target->category == NULL) == (target->address == NULL));
}

int LLVMFuzzerTestOneInput(const guint8 *data, gsize size)
{
	static const Parse PARSERS[] = {address_parse, address_parse_admin, address_parse_peer,
					address_parse_listen, address_parse_server};
	enum { HOSTS = G_N_ELEMENTS(PARSERS), ALLOW_LIST, TARGET, N_KINDS };
	g_autofree char *text = NULL;
	guint kind;

	if (size == 0)
		return 0;
	kind = data[0] % N_KINDS;
	text = input_text(data + 1, size - 1);
	if (kind < HOSTS)
		check_address(PARSERS[kind], text);
	else if (kind == HOSTS)
		check_hosts(text);
	else if (kind == ALLOW_LIST)
		check_allow_list(text);
	else
		check_target(text);
	return 0;
}
