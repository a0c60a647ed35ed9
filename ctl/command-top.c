/* SPDX-License-Identifier: Apache-2.0 */

/* "top": what all servers do now. Reads only. */

#include <string.h>

#include "core/text.h"
#include "ctl/command.h"
#include "ctl/lister.h"
#include "ctl/output.h"

#define MIN_INTERVAL_MS 100
#define MAX_INTERVAL_MS 3600000

static char *interval_text;
static char *sort_name;
static gboolean reverse;

static const GOptionEntry entries[] = {
	{"interval", 'i', 0, G_OPTION_ARG_STRING, &interval_text,
	 "From one list to the next (default 2000); a server has half of it to answer", "MS"},
	{"sort", 's', 0, G_OPTION_ARG_STRING, &sort_name,
	 "worker, address, state, ids, calls, round-trip, clock, reservation or connections "
	 "(default worker)",
	 "COLUMN"},
	{"reverse", 0, 0, G_OPTION_ARG_NONE, &reverse, "The other way round", NULL},
	G_OPTION_ENTRY_NULL,
};

static gboolean find_column(guint *out_column)
{
	const char *const *names = ctl_command_top_columns();

	for (guint i = 0; names[i] != NULL; i++) {
		if (sort_name == NULL || strcmp(names[i], sort_name) == 0) {
			*out_column = i;
			return TRUE;
		}
	}

	g_autofree char *shown = text_escape(sort_name, strlen(sort_name));
	g_autofree char *all = g_strjoinv(", ", (char **)names);

	ctl_output_complain("--sort: \"%s\" is not one of %s", shown, all);
	return FALSE;
}

static CtlStatus run(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(ZookeeperHosts) hosts = NULL;
	g_autofree char *auth = NULL;
	guint64 interval_ms = 2000;
	guint column;

	if (!ctl_options_number("-i MS", interval_text, MIN_INTERVAL_MS, MAX_INTERVAL_MS,
				&interval_ms) ||
	    !find_column(&column) || !ctl_options_zookeeper(options, &hosts, &auth))
		return CTL_USAGE;
	return ctl_lister_run(&(CtlListerPlan){
		.options = options,
		.hosts = hosts,
		.auth = auth,
		.kind = CTL_LISTER_TOP,
		.again = TRUE,
		.interval_ms = (guint)interval_ms,
		.order = {column, reverse},
	});
}

const CtlCommand ctl_top_command = {
	.name = "top",
	.summary = "Shows what all servers do, live.",
	.details = "Which they are is asked as workers has it. On a terminal < and > choose the "
		   "column that it is sorted by, r turns the order round, and q ends it; "
		   "elsewhere lists are printed one after the other, with --json an object a line.",
	.takes_zookeeper = TRUE,
	.entries = entries,
	.run = run,
};
