/* SPDX-License-Identifier: Apache-2.0 */
#include "core/layout.h"
#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"

static char *from_text;
static char *to_text;
static char *layout_text;

static const GOptionEntry entries[] = {
	{"from", 0, 0, G_OPTION_ARG_STRING, &from_text,
	 "Where the span begins: RFC 3339, or milliseconds since 1970", "TIME"},
	{"to", 0, 0, G_OPTION_ARG_STRING, &to_text, "Where it ends; that millisecond is in it",
	 "TIME"},
	{"layout", 0, 0, G_OPTION_ARG_STRING, &layout_text,
	 "How the IDs divide: a name, as layouts shows them, or all fields (default twitter)",
	 "LAYOUT"},
	G_OPTION_ENTRY_NULL,
};

static void print_json(const char *first, const char *last)
{
	JsonObject *object = json_object_new();

	json_object_set_string_member(object, "first", first);
	json_object_set_string_member(object, "last", last);

	g_autofree char *json = ctl_format_json(object);

	ctl_output_print("%s\n", json);
}

static void print(const CtlOptions *options, gint64 first_id, gint64 last_id)
{
	g_autofree char *first = g_strdup_printf("%" G_GINT64_FORMAT, first_id);
	g_autofree char *last = g_strdup_printf("%" G_GINT64_FORMAT, last_id);

	if (options->json)
		print_json(first, last);
	else
		ctl_output_print("%s\n%s\n", first, last);
}

static CtlStatus run(const CtlOptions *options, const char *const *arguments G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	Layout layout = LAYOUT_TWITTER;
	gint64 from_ms, to_ms, first_id, last_id;

	if (from_text == NULL || to_text == NULL) {
		ctl_output_complain("range needs --from TIME and --to TIME");
		return CTL_USAGE;
	}
	if (!ctl_options_time("--from TIME", from_text, &from_ms) ||
	    !ctl_options_time("--to TIME", to_text, &to_ms) ||
	    !ctl_options_layout(layout_text, &layout))
		return CTL_USAGE;
	if (!layout_range(&layout, from_ms, to_ms, &first_id, &last_id, &error)) {
		ctl_output_complain("%s", error->message);
		return CTL_USAGE;
	}
	print(options, first_id, last_id);
	return CTL_OK;
}

const CtlCommand ctl_range_command = {
	.name = "range",
	.summary = "Shows the first and the last ID of a span of time.",
	.details = "Both may be written where IDs are compared: WHERE id BETWEEN first AND last.",
	.takes_no_server = TRUE,
	.entries = entries,
	.run = run,
};
