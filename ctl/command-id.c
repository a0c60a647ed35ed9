/* SPDX-License-Identifier: Apache-2.0 */

/* Commands that request IDs, ULIDs or UUIDs from servers, and print them. */

#include "core/ulid.h"
#include "ctl/command.h"
#include "ctl/output.h"

#define BATCH 1000 /* maximum number of IDs in one request */

static char *wanted_text;
static guint64 wanted = 1;
static char *agent;

static const GOptionEntry entries[] = {
	{"number", 'n', 0, G_OPTION_ARG_STRING, &wanted_text, "Number of IDs (default 1)", "N"},
	{"agent", 0, 0, G_OPTION_ARG_STRING, &agent,
	 "Useragent; the server checks only its form (default snowflakectl)", "A"},
	G_OPTION_ENTRY_NULL,
};

typedef enum { KIND_ID, KIND_ULID, KIND_UUID } Kind;

static gboolean print_all(SnowflakeClient *client, Kind kind, gboolean json, GError **error)
{
	const char *useragent = agent != NULL ? agent : "snowflakectl";
	gint64 ids[BATCH];
	guint8 uuids[BATCH][SNOWFLAKE_CLIENT_UUID_BYTES];
	char text[UUID_TEXT_SIZE];

	for (guint64 left = wanted; left > 0;) {
		guint count = MIN(left, BATCH);
		gboolean is_there =
			kind == KIND_ULID
				? snowflake_client_get_ulids(client, useragent, count, uuids, error)
			: kind == KIND_UUID
				? snowflake_client_get_uuids(client, useragent, count, uuids, error)
				: snowflake_client_get_ids(client, useragent, count, ids, error);

		if (!is_there)
			return FALSE;
		for (guint i = 0; i < count; i++) {
			if (kind == KIND_ULID)
				ulid_to_text(uuid_from_bytes(uuids[i]), text);
			else if (kind == KIND_UUID)
				uuid_to_text(uuid_from_bytes(uuids[i]), text);
			else
				g_snprintf(text, sizeof(text), "%" G_GINT64_FORMAT, ids[i]);
			if (json)
				ctl_output_add_text(text);
			else
				ctl_output_print("%s\n", text);
		}
		/* flush, because the next batch can take long */
		ctl_output_flush();
		left -= count;
	}
	return TRUE;
}

static CtlStatus print_kind(const CtlOptions *options, Kind kind)
{
	g_autoptr(GError) error = NULL;

	if (!ctl_options_number("-n N", wanted_text, 1, G_MAXINT64, &wanted))
		return CTL_USAGE;

	g_autoptr(GPtrArray) servers = ctl_options_addresses(options);

	if (servers == NULL)
		return CTL_USAGE;

	g_autoptr(SnowflakeClient) client = ctl_options_client_new(
		options, (const Address *const *)servers->pdata, servers->len);
	gboolean complete = print_all(client, kind, options->json, &error);

	ctl_output_end_array(options->json, complete);
	if (complete)
		return CTL_OK;
	ctl_options_add_remedy(options, error);
	ctl_output_complain_of(error, snowflake_client_get_retry_after_ms(client));
	return CTL_FAILED;
}

static CtlStatus run_id(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	return print_kind(options, KIND_ID);
}

static CtlStatus run_ulid(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	return print_kind(options, KIND_ULID);
}

static CtlStatus run_uuid(const CtlOptions *options, G_GNUC_UNUSED const char *const *arguments)
{
	return print_kind(options, KIND_UUID);
}

const CtlCommand ctl_id_command = {
	.name = "id",
	.summary = "Prints new IDs, one per line.",
	.entries = entries,
	.run = run_id,
};

const CtlCommand ctl_ulid_command = {
	.name = "ulid",
	.summary = "Prints new ULIDs, one per line.",
	.details = "They increase, and 80 random bits make them unique.",
	.entries = entries,
	.run = run_ulid,
};

const CtlCommand ctl_uuid_command = {
	.name = "uuid",
	.summary = "Prints new version 7 UUIDs, one per line.",
	.details = "The server makes each UUID from a new ID, so UUIDs are as unique as IDs, and "
		   "sort like them. snowflakectl decode shows the ID in a UUID.",
	.entries = entries,
	.run = run_uuid,
};
