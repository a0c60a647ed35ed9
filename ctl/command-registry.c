/* SPDX-License-Identifier: Apache-2.0 */

/* "registry": what an operator may do to what servers have written into ZooKeeper. */

#include "ctl/command-registry.h"

#include <string.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/output.h"

static CtlRegistryOptions given;

static const GOptionEntry entries[] = {
	{"reservation", 0, 0, G_OPTION_ARG_STRING, &given.reservation,
	 "A longer --reservation of servers than the backup knows", "MS"},
	{"max-clock-skew", 0, 0, G_OPTION_ARG_STRING, &given.max_clock_skew,
	 "A larger --max-clock-skew of servers than the backup knows", "MS"},
	{"datacenter-id", 0, 0, G_OPTION_ARG_STRING_ARRAY, &given.datacenter_ids,
	 "A datacenter that the backup does not know; again for more", "N"},
	{"admin-auth", 0, 0, G_OPTION_ARG_FILENAME, &given.admin_auth,
	 "secure: USER:PASSWORD of who may close what the servers may not", "FILE"},
	{"even-if-servers-live", 0, 0, G_OPTION_ARG_NONE, &given.even_if_servers_live,
	 "Do not stop at servers that live, nor wait for claims to go", NULL},
	{"yes", 0, 0, G_OPTION_ARG_NONE, &given.yes, "Do not ask", NULL},
	G_OPTION_ENTRY_NULL,
};

/* What can be done, by the argument that asks for it. */
static const struct {
	const char *name;
	CtlStatus (*run)(const CtlRegistryOptions *options);
} ACTIONS[] = {
	{"quarantine", ctl_command_registry_quarantine},
	{"secure", ctl_command_registry_secure},
};

/* (nullable): options of which one is given that is for another action. */
static const char *find_strange_options(const char *action)
{
	gboolean is_secure = strcmp(action, "secure") == 0;

	if (is_secure && (given.reservation != NULL || given.max_clock_skew != NULL ||
			  given.datacenter_ids != NULL))
		return "--reservation, --max-clock-skew or --datacenter-id";
	return !is_secure && given.admin_auth != NULL ? "--admin-auth" : NULL;
}

static CtlStatus run(const CtlOptions *options, const char *const *arguments)
{
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;
	guint action = 0;

	while (action < G_N_ELEMENTS(ACTIONS) && g_strcmp0(arguments[0], ACTIONS[action].name) != 0)
		action++;
	if (action == G_N_ELEMENTS(ACTIONS) || arguments[1] != NULL) {
		ctl_output_complain("registry takes one argument: quarantine or secure");
		return CTL_USAGE;
	}

	const char *strange = find_strange_options(arguments[0]);

	if (strange != NULL) {
		ctl_output_complain("registry %s does not take %s", arguments[0], strange);
		return CTL_USAGE;
	}
	if (!ctl_options_zookeeper(options, &hosts, &auth))
		return CTL_USAGE;
	if (hosts == NULL) {
		ctl_output_complain("registry needs --zookeeper HOSTS");
		return CTL_USAGE;
	}
	if (!given.yes && !isatty(STDIN_FILENO)) {
		ctl_output_complain(
			"there is no terminal to ask at, so nothing is done; --yes goes "
			"on without");
		return CTL_USAGE;
	}
	given.common = options;
	given.hosts = hosts;
	given.auth = auth;
	return ACTIONS[action].run(&given);
}

const CtlCommand ctl_registry_command = {
	.name = "registry",
	.arguments = "quarantine|secure",
	.summary = "Makes a restored ZooKeeper safe, or one that is open to anyone.",
	.details = "After ZooKeeper was restored from a backup, and before servers can "
		   "reach it: registry quarantine has no worker ID claimed for as long as "
		   "servers may have reserved since. It asks first, and stops if servers "
		   "live.\n\nFor servers that get a --zookeeper-auth: registry secure "
		   "closes to everybody else what they made without. It asks first.",
	.takes_zookeeper = TRUE,
	.takes_no_server = TRUE,
	.entries = entries,
	.run = run,
};
