/* SPDX-License-Identifier: Apache-2.0 */

/* "workers": who is there, from ZooKeeper or from servers. Reads only. */

#include "ctl/command.h"
#include "ctl/lister.h"
#include "ctl/output.h"

static gboolean watch;
static gboolean reservations;

static const GOptionEntry entries[] = {
	{"watch", 'w', 0, G_OPTION_ARG_NONE, &watch,
	 "Print it again whenever it changes, until Ctrl-C; on a terminal every second, until q",
	 NULL},
	{"reservations", 'r', 0, G_OPTION_ARG_NONE, &reservations,
	 "The worker IDs instead: held, quarantined or free; needs --zookeeper", NULL},
	G_OPTION_ENTRY_NULL,
};

static CtlStatus run(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;

	if (!ctl_options_zookeeper(options, &hosts, &auth))
		return CTL_USAGE;
	if (hosts == NULL && reservations) {
		ctl_output_complain("--reservations needs --zookeeper HOSTS");
		return CTL_USAGE;
	}

	return ctl_lister_run(&(CtlListerPlan){
		.options = options,
		.hosts = hosts,
		.auth = auth,
		.kind = reservations ? CTL_LISTER_RESERVATIONS : CTL_LISTER_WORKERS,
		.again = watch,
	});
}

const CtlCommand ctl_workers_command = {
	.name = "workers",
	.summary = "Lists the servers of the service.",
	.details = "Asks ZooKeeper where --zookeeper names it, else every --server, each "
		   "for all that it knows of; and then each server for its state and clock. "
		   "One that does not answer is listed as unreachable.",
	.takes_zookeeper = TRUE,
	.entries = entries,
	.run = run,
};
