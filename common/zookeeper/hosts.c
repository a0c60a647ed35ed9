/* SPDX-License-Identifier: Apache-2.0 */
#include "common/zookeeper/hosts.h"

#include <string.h>

#include "common/address.h"
#include "core/text.h"

#define DEFAULT_PORT 2181

/* (transfer full) (nullable): one server, as ZooKeeper's client takes it. */
static char *parse_server(const char *text, GError **error)
{
	const char *colon = strrchr(text, ':');
	/* in brackets, a colon is the address's */
	gboolean has_port = colon != NULL && strchr(colon, ']') == NULL;
	g_autofree char *with_port =
		has_port ? g_strdup(text) : g_strdup_printf("%s:%d", text, DEFAULT_PORT);
	g_autoptr(Address) address = address_parse_peer(with_port, error);

	if (address != NULL && address->is_tls) {
		g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
			    "\"%s\" has tls: in it, which ZooKeeper's client does not speak",
			    address->text);
		return NULL;
	}
	/* it cuts the port off at the last colon, and knows no brackets */
	return address != NULL ? g_strdup_printf("%s:%u", address->host, (guint)address->port)
			       : NULL;
}

static gboolean refuse_root(const char *root, const char *fault, GError **error)
{
	g_autofree char *shown = text_escape(root, strlen(root));

	g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "the path \"%s\" has %s",
		    shown, fault);
	return FALSE;
}

/* "/a/b": what ZooKeeper takes for a path, of printable ASCII. */
static gboolean check_root(const char *root, GError **error)
{
	g_auto(GStrv) names = g_strsplit(root + 1, "/", -1);

	for (const char *c = root; *c != '\0'; c++) {
		if (!g_ascii_isgraph(*c))
			return refuse_root(root, "a character that is not printable ASCII", error);
	}
	for (gsize i = 0; i == 0 || names[i] != NULL; i++) {
		if (names[i] == NULL || names[i][0] == '\0')
			return refuse_root(root, "a slash too many", error);
		if (strcmp(names[i], ".") == 0)
			return refuse_root(root, "a \".\" in it", error);
		if (strcmp(names[i], "..") == 0)
			return refuse_root(root, "a \"..\" in it", error);
	}
	return TRUE;
}

ZookeeperHosts *zookeeper_hosts_parse(const char *text, GError **error)
{
	const char *slash = strchr(text, '/');
	const char *root = slash != NULL ? slash : ZOOKEEPER_HOSTS_DEFAULT_ROOT;
	g_autofree char *list =
		g_strndup(text, slash != NULL ? (gsize)(slash - text) : strlen(text));
	g_auto(GStrv) parts = g_strsplit(list, ",", -1);
	g_autoptr(GString) servers = g_string_new(NULL);

	if (parts[0] == NULL) {
		g_set_error_literal(
			error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
			"no server of ZooKeeper is named; it takes HOST:PORT,HOST:PORT/PATH");
		return NULL;
	}
	for (gsize i = 0; parts[i] != NULL; i++) {
		g_autofree char *server = parse_server(g_strstrip(parts[i]), error);

		if (server == NULL)
			return NULL;
		g_string_append_printf(servers, "%s%s", i > 0 ? "," : "", server);
	}
	if (!check_root(root, error))
		return NULL;

	ZookeeperHosts *self = g_new(ZookeeperHosts, 1);

	self->servers = g_strdup(servers->str);
	self->root = g_strdup(root);
	self->text = g_strdup(text);
	return self;
}

void zookeeper_hosts_free(ZookeeperHosts *self)
{
	if (self == NULL)
		return;
	g_free(self->servers);
	g_free(self->root);
	g_free(self->text);
	g_free(self);
}
