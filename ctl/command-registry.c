/* SPDX-License-Identifier: Apache-2.0 */

/* "registry": what an operator may do to what servers have written into ZooKeeper. */

#include "ctl/command-registry.h"

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
	{"even-if-servers-live", 0, 0, G_OPTION_ARG_NONE, &given.even_if_servers_live,
	 "Do not stop at servers that live, nor wait for claims to go", NULL},
	{"yes", 0, 0, G_OPTION_ARG_NONE, &given.yes, "Do not ask", NULL},
	G_OPTION_ENTRY_NULL,
};

static CtlStatus run(const CtlOptions *options, const char *const *arguments)
{
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;

	if (g_strcmp0(arguments[0], "quarantine") != 0 || arguments[1] != NULL) {
		ctl_output_complain("registry takes one argument: quarantine");
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
	return ctl_command_registry_quarantine(&given);
}

const CtlCommand ctl_registry_command = {
	.name = "registry",
	.arguments = "quarantine",
	.summary = "Makes a restored ZooKeeper safe.",
	.details = "After ZooKeeper was restored from a backup, and before servers can "
		   "reach it: registry quarantine has no worker ID claimed for as long as "
		   "servers may have reserved since. It asks first, and stops if servers "
		   "live.",
	.takes_zookeeper = TRUE,
	.takes_no_server = TRUE,
	.entries = entries,
	.run = run,
};
