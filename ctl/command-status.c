/* SPDX-License-Identifier: Apache-2.0 */

/* "status": all that one server tells. */

#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/probe.h"
#include "ctl/status-text.h"

/* By itself, so that all that is shown is of one server. */
static gboolean ask(const CtlOptions *options, const Address *server, CtlProbe *out_probe,
		    GError **error)
{
	g_autoptr(SnowflakeClient) client = ctl_options_client_new(options, &server, 1);
	g_auto(CtlProbe) probe = {0};

	if (!ctl_probe(client, TRUE, &probe, error))
		return FALSE;
	if (probe.worker == NULL) {
		g_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
			    "%s: a server of 2010, which does not say who it is; ping asks it",
			    server->text);
		return FALSE;
	}
	*out_probe = probe;
	probe = (CtlProbe){0};
	return TRUE;
}

static void show(const CtlOptions *options, const char *server, const CtlProbe *probe)
{
	gint64 now_ms = g_get_real_time() / 1000;
	g_autofree char *text =
		options->json ? ctl_format_json(ctl_status_text_to_json(server, probe, now_ms))
			      : ctl_status_text(probe, now_ms);

	ctl_output_print("%s%s", text, options->json ? "\n" : "");
	ctl_output_flush();
	if (probe->counters == NULL)
		ctl_output_complain("%s: an older server, which does not tell what it counts",
				    server);
}

static CtlStatus run(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	g_autoptr(GPtrArray) servers = ctl_options_addresses(options);

	for (guint i = 0; servers != NULL && i < servers->len; i++) {
		const Address *server = servers->pdata[i];
		g_auto(CtlProbe) probe = {0};
		g_autoptr(GError) error = NULL;

		if (ask(options, server, &probe, &error)) {
			show(options, server->text, &probe);
			return CTL_OK;
		}
		ctl_output_complain_of(error, 0);
	}
	return servers != NULL ? CTL_FAILED : CTL_USAGE;
}

const CtlCommand ctl_status_command = {
	.name = "status",
	.summary = "Shows all that one server tells of itself.",
	.details = "Who it is, what is reserved for it, its clock, and what it has counted since "
		   "it started; snowflaked(8) has the names, under COUNTERS. The first --server "
		   "that answers; the others are named on standard error.",
	.run = run,
};
