/* SPDX-License-Identifier: Apache-2.0 */

/* "layouts" lists the layouts. "range" shows the IDs of a time span in a layout. */

#include "core/layout.h"
#include "core/text.h"
#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"

/* layouts */

/* Returns how many IDs a worker can issue per second. */
static gint64 ids_per_second(const Layout *layout)
{
	return (G_GINT64_CONSTANT(1000) << layout->sequence_bits) / layout->tick_ms;
}

static gint64 count_of(guint bits)
{
	return G_GINT64_CONSTANT(1) << bits;
}

/* Appends a space, and a letter for each bit. Appends nothing if there are no bits. */
static void draw_field(GString *drawing, char letter, guint bits)
{
	g_autofree char *letters = g_strnfill(bits, letter);

	if (bits > 0)
		g_string_append_printf(drawing, " %s", letters);
}

static void print_layout(const LayoutPreset *preset)
{
	const Layout *layout = preset->layout;
	gint64 now_ms = g_get_real_time() / G_TIME_SPAN_MILLISECOND;
	g_autoptr(GString) drawing = g_string_new(NULL);
	g_autofree char *datacenters = g_strdup_printf("%" G_GINT64_FORMAT " datacenters of ",
						       count_of(layout->datacenter_bits));
	g_autofree char *first = text_time_ms(layout->epoch_ms);
	g_autofree char *last = text_time_ms(layout_last_ms(layout));

	draw_field(drawing, '0', 64 - layout_total_bits(layout));
	draw_field(drawing, 't', layout->time_bits);
	draw_field(drawing, 'd', layout->datacenter_bits);
	draw_field(drawing, 'w', layout->worker_bits);
	draw_field(drawing, 's', layout->sequence_bits);
	ctl_output_print("\n%s\n %s\n", preset->name, drawing->str);
	ctl_output_print("  %s to %s%s, ticks of %" G_GINT64_FORMAT " ms\n", first, last,
			 layout_last_ms(layout) < now_ms ? " (ended)" : "", layout->tick_ms);
	ctl_output_print("  %s%" G_GINT64_FORMAT " worker IDs, each with %" G_GINT64_FORMAT
			 " IDs a second\n",
			 layout->datacenter_bits > 0 ? datacenters : "",
			 count_of(layout->worker_bits), ids_per_second(layout));
}

static void add_json(const LayoutPreset *preset)
{
	const Layout *layout = preset->layout;
	JsonObject *object = json_object_new();

	json_object_set_string_member(object, "name", preset->name);
	json_object_set_int_member(object, "epoch_ms", layout->epoch_ms);
	json_object_set_int_member(object, "tick_ms", layout->tick_ms);
	json_object_set_int_member(object, "time_bits", layout->time_bits);
	json_object_set_int_member(object, "datacenter_bits", layout->datacenter_bits);
	json_object_set_int_member(object, "worker_bits", layout->worker_bits);
	json_object_set_int_member(object, "sequence_bits", layout->sequence_bits);
	json_object_set_int_member(object, "total_bits", layout_total_bits(layout));
	ctl_format_json_time(object, "first", layout->epoch_ms);
	ctl_format_json_time(object, "last", layout_last_ms(layout));
	json_object_set_int_member(object, "ids_per_second", ids_per_second(layout));
	json_object_set_int_member(object, "worker_ids",
				   count_of(layout->datacenter_bits + layout->worker_bits));
	ctl_output_add_object(object);
}

static CtlStatus run_layouts(const CtlOptions *options, const char *const *arguments G_GNUC_UNUSED)
{
	if (!options->json)
		ctl_output_print("Bits: t time, d datacenter, w worker, s sequence; 0 unused.\n");
	for (const LayoutPreset *preset = LAYOUT_PRESETS; preset->name != NULL; preset++) {
		if (options->json)
			add_json(preset);
		else
			print_layout(preset);
	}
	ctl_output_end_array(options->json, TRUE);
	return CTL_OK;
}

const CtlCommand ctl_layouts_command = {
	.name = "layouts",
	.summary = "Lists the named layouts.",
	.details = "To use another layout, specify its fields: see --layout in snowflakectl(1).",
	.takes_no_server = TRUE,
	.run = run_layouts,
};

/* range */

static char *from_text;
static char *to_text;
static char *layout_text;

static const GOptionEntry range_entries[] = {
	{"from", 0, 0, G_OPTION_ARG_STRING, &from_text,
	 "Start of the time span, as RFC 3339 or in milliseconds since 1970", "TIME"},
	{"to", 0, 0, G_OPTION_ARG_STRING, &to_text,
	 "End of the time span, which includes this millisecond", "TIME"},
	{"layout", 0, 0, G_OPTION_ARG_STRING, &layout_text,
	 "Layout of the IDs: a name from snowflakectl layouts, or all fields (default twitter)",
	 "LAYOUT"},
	G_OPTION_ENTRY_NULL,
};

static CtlStatus run_range(const CtlOptions *options, const char *const *arguments G_GNUC_UNUSED)
{
	g_autoptr(GError) error = NULL;
	Layout layout = LAYOUT_TWITTER;
	gint64 from_ms, to_ms, first_id, last_id;

	if (from_text == NULL || to_text == NULL)
		return ctl_output_misuse("range requires --from TIME and --to TIME");
	if (!ctl_options_time("--from TIME", from_text, &from_ms) ||
	    !ctl_options_time("--to TIME", to_text, &to_ms) ||
	    !ctl_options_layout(layout_text, &layout))
		return CTL_USAGE;
	if (!layout_range(&layout, from_ms, to_ms, &first_id, &last_id, &error))
		return ctl_output_misuse("%s", error->message);

	if (options->json) {
		JsonObject *object = json_object_new();

		ctl_format_json_id(object, "first", first_id);
		ctl_format_json_id(object, "last", last_id);
		ctl_output_print_object(object);
	} else {
		ctl_output_print("%" G_GINT64_FORMAT "\n%" G_GINT64_FORMAT "\n", first_id, last_id);
	}
	return CTL_OK;
}

const CtlCommand ctl_range_command = {
	.name = "range",
	.summary = "Shows the first and the last ID of a time span.",
	.details = "Use them to select by time: WHERE id BETWEEN first AND last.",
	.takes_no_server = TRUE,
	.entries = range_entries,
	.run = run_range,
};
