/* SPDX-License-Identifier: Apache-2.0 */

/* "registry secure": what the operator is told and asked. */

#include <stdio.h>
#include <string.h>

#include "common/zookeeper/hosts.h"
#include "ctl/command-registry.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/registry-secure.h"

#define MAX_NAMED 32 /* servers or znodes in a message */

static void print_json(const CtlRegistrySecure *tree)
{
	static const struct {
		const char *before;
		const char *after;
	} WORDS[] = {
		[CTL_REGISTRY_SECURE_CLOSED] = {"closed", "closed"},
		[CTL_REGISTRY_SECURE_OPEN] = {"open", "open"},
		[CTL_REGISTRY_SECURE_DONE] = {"open", "closed"},
		[CTL_REGISTRY_SECURE_FOREIGN] = {"someone else's", "someone else's"},
		[CTL_REGISTRY_SECURE_DENIED] = {"open", "open"},
	};
	CtlArray array = {0};

	for (guint i = 0; i < tree->notable->len; i++) {
		const CtlRegistrySecureZnode *znode = tree->notable->pdata[i];
		JsonObject *object = json_object_new();

		ctl_format_json_text(object, "path", znode->path);
		ctl_format_json_text(object, "before", WORDS[znode->state].before);
		ctl_format_json_text(object, "after", WORDS[znode->state].after);
		ctl_array_add_object(&array, object);
	}
	ctl_array_end(&array);
}

/* What stands in the way, on standard error. */
static void complain_of(const CtlRegistrySecure *tree)
{
	guint named = 0;

	for (guint i = 0; i < tree->notable->len && named < MAX_NAMED; i++) {
		const CtlRegistrySecureZnode *znode = tree->notable->pdata[i];
		g_autofree char *path = ctl_format_path(znode->path);

		named++;
		if (znode->state == CTL_REGISTRY_SECURE_DENIED)
			ctl_output_complain("%s is open to anyone, and who may close it is "
					    "someone else; see --admin-auth",
					    path);
		else if (znode->state == CTL_REGISTRY_SECURE_FOREIGN)
			ctl_output_complain("%s is someone else's; left as it is", path);
		else
			named--;
	}
	if (tree->others > named)
		ctl_output_complain("... and %u more that are someone else's",
				    tree->others - named);
	for (guint i = 0; i < MIN(tree->strange->len, MAX_NAMED); i++) {
		g_autofree char *path = ctl_format_path(tree->strange->pdata[i]);

		ctl_output_complain("%s is none of a server's; left as it is", path);
	}
	if (tree->strange->len > MAX_NAMED)
		ctl_output_complain("... and %u more that are none of a server's",
				    tree->strange->len - MAX_NAMED);
}

/* (transfer full) (nullable): servers that came without a password, by their addresses; %NULL:
 * there are none. */
static char *name_servers(const CtlRegistrySecure *tree)
{
	g_autoptr(GString) names = g_string_new(NULL);

	if (tree->servers->len == 0)
		return NULL;
	for (guint i = 0; i < MIN(tree->servers->len, MAX_NAMED); i++) {
		g_autofree char *address = ctl_format_address(tree->servers->pdata[i]);

		g_string_append_printf(names, "%s%s", i > 0 ? ", " : "", address);
	}
	if (tree->servers->len > MAX_NAMED)
		g_string_append_printf(names, ", and %u more", tree->servers->len - MAX_NAMED);
	return g_string_free(g_steal_pointer(&names), FALSE);
}

static CtlStatus report(const CtlRegistrySecure *tree, const CtlRegistryOptions *options)
{
	g_autofree char *line = g_strdup_printf(
		"%u znodes: %u were open to anyone, %u of them are closed now; %u are someone "
		"else's",
		tree->znodes, tree->open, tree->done, tree->others);
	g_autofree char *servers = name_servers(tree);
	gboolean unexpected = servers != NULL && !options->even_if_servers_live;

	if (options->common->json)
		print_json(tree);
	else
		ctl_output_print("%s\n", line);
	ctl_output_flush();
	if (options->common->json)
		ctl_output_complain("%s", line);
	complain_of(tree);
	if (servers != NULL)
		ctl_output_complain("%u servers live that came without a user and password, and "
				    "cannot extend their reservations any more: %s",
				    tree->servers->len, servers);
	return tree->others > 0 || unexpected ? CTL_FAILED : CTL_OK;
}

/* Servers that came without a password could not write any more. */
static gboolean refuse_servers(const CtlRegistrySecure *tree)
{
	g_autofree char *servers = name_servers(tree);

	if (servers == NULL)
		return FALSE;
	ctl_output_complain("nothing was changed: %u servers live that came without a user and "
			    "password, and could not extend their reservations any more: %s; "
			    "stop them first, or go on with --even-if-servers-live",
			    tree->servers->len, servers);
	return TRUE;
}

static gboolean confirm(const CtlRegistrySecure *tree, const CtlRegistryOptions *options)
{
	const ZookeeperHosts *hosts = options->hosts;
	g_autofree char *user = g_strndup(options->auth, strcspn(options->auth, ":"));
	g_autofree char *shown = ctl_format_text(user);

	fprintf(stderr,
		"At ZooKeeper %s%s, %u of %u znodes are open to anyone.\n"
		"From now on they will be for user %s alone, with the password of "
		"--zookeeper-auth.\n"
		"Servers that run without it: %u. They serve what is left of their "
		"reservations.\n",
		hosts->servers, hosts->root, tree->open, tree->znodes, shown, tree->servers->len);
	return ctl_output_confirm();
}

static CtlStatus close_all(const CtlRegistryOptions *options, CtlZookeeper *zookeeper)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(CtlRegistrySecure) tree =
		ctl_registry_secure_walk(zookeeper, options->hosts->root, TRUE, &error);

	if (tree != NULL)
		return report(tree, options);
	g_prefix_error(&error, "not all of it is closed; run it again: ");
	return ctl_output_fail(error);
}

/* The question may stand for long, so what it was asked about is looked at once more. */
static CtlStatus secure(const CtlRegistryOptions *options, CtlZookeeper *zookeeper)
{
	for (gboolean agreed = options->yes;; agreed = TRUE) {
		g_autoptr(GError) error = NULL;
		g_autoptr(CtlRegistrySecure) found =
			ctl_registry_secure_walk(zookeeper, options->hosts->root, FALSE, &error);

		if (found == NULL)
			return ctl_output_fail(error);
		if (found->open == 0)
			return report(found, options);
		if (!options->even_if_servers_live && refuse_servers(found))
			return CTL_FAILED;
		if (agreed)
			return close_all(options, zookeeper);
		if (!confirm(found, options))
			return CTL_FAILED;
	}
}

CtlStatus ctl_command_registry_secure(const CtlRegistryOptions *options)
{
	g_autoptr(GError) error = NULL;
	g_autofree char *admin = NULL;
	g_autoptr(CtlZookeeper) zookeeper = NULL;

	if (options->auth == NULL) {
		ctl_output_complain("registry secure needs --zookeeper-auth FILE: the user and "
				    "password that the servers have, or will have");
		return CTL_USAGE;
	}
	if (options->admin_auth != NULL &&
	    (admin = zookeeper_hosts_read_auth(options->admin_auth, &error)) == NULL) {
		ctl_output_complain("--admin-auth: %s", error->message);
		return CTL_USAGE;
	}
	zookeeper = ctl_zookeeper_connect(options->hosts, options->auth,
					  options->common->timeout_ms, &error);
	if (zookeeper == NULL ||
	    (admin != NULL && !ctl_zookeeper_add_auth(zookeeper, admin, "--admin-auth", &error)))
		return ctl_output_fail(error);
	return secure(options, zookeeper);
}
