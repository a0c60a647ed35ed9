/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/command.h"
#include "ctl/output.h"

#define BATCH 1000 /* IDs that are fetched before the first of them is printed */

static char *wanted_text;
static guint64 wanted = 1;
static char *agent;

static const GOptionEntry entries[] = {
	{"number", 'n', 0, G_OPTION_ARG_STRING, &wanted_text, "How many IDs (default 1)", "N"},
	{"agent", 0, 0, G_OPTION_ARG_STRING, &agent,
	 "Who asks; the server checks its form only (default snowflakectl)", "A"},
	G_OPTION_ENTRY_NULL,
};

static void print_id(CtlArray *array, gint64 id)
{
	char quoted[32];

	if (array == NULL) {
		ctl_output_print("%" G_GINT64_FORMAT "\n", id);
		return;
	}
	g_snprintf(quoted, sizeof(quoted), "\"%" G_GINT64_FORMAT "\"", id);
	ctl_array_add(array, quoted);
}

/* @array: NULL for plain lines */
static gboolean print_ids(SnowflakeClient *client, CtlArray *array, GError **error)
{
	const char *useragent = agent != NULL ? agent : "snowflakectl";

	for (guint64 left = wanted; left > 0;) {
		gint64 ids[BATCH];
		guint count = MIN(left, BATCH);

		if (!snowflake_client_get_ids(client, useragent, count, ids, error))
			return FALSE;
		for (guint i = 0; i < count; i++)
			print_id(array, ids[i]);
		/* the next ones may take their time */
		ctl_output_flush();
		left -= count;
	}
	return TRUE;
}

static CtlStatus run(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	CtlArray array = {0};
	g_autoptr(GError) error = NULL;

	if (!ctl_options_number("-n N", wanted_text, 1, G_MAXINT64, &wanted))
		return CTL_USAGE;

	g_autoptr(GPtrArray) servers = ctl_options_addresses(options);

	if (servers == NULL)
		return CTL_USAGE;

	g_autoptr(SnowflakeClient) client = ctl_options_client_new(
		options, (const Address *const *)servers->pdata, servers->len);
	gboolean complete = print_ids(client, options->json ? &array : NULL, &error);

	if (complete) {
		if (options->json)
			ctl_array_end(&array);
		return CTL_OK;
	}
	ctl_array_end_failed(&array);
	ctl_output_complain_of(error, snowflake_client_get_retry_after_ms(client));
	return CTL_FAILED;
}

const CtlCommand ctl_id_command = {
	.name = "id",
	.summary = "Prints new IDs, a line each.",
	.entries = entries,
	.run = run,
};
