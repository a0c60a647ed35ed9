/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/load/report.h"

#include <json-glib/json-glib.h>

static const struct {
	const char *label;
	const char *key;
	double fraction;
} quantiles[] = {
	{"p50", "p50", 0.5},
	{"p99", "p99", 0.99},
	{"p99.9", "p99_9", 0.999},
	{"max", "max", 1},
};

static double quantile_us(const Tally *tally, gsize index)
{
	return (double)histogram_quantile(&tally->latency_ns, quantiles[index].fraction) / 1000;
}

static double cpu_s(gint64 cpu_us)
{
	return (double)cpu_us / G_USEC_PER_SEC;
}

gboolean report_is_good(const Tally *tally, const IdLogVerdict *verdict)
{
	return tally->calls > 0 && tally->errors == 0 && tally->out_of_order == 0 &&
	       (!verdict || verdict->duplicates == 0);
}

static void append_check(GString *out, const Tally *tally, const IdLogVerdict *verdict)
{
	g_string_append_printf(out, "check    %" G_GUINT64_FORMAT " IDs: ", verdict->checked);
	if (verdict->duplicates == 0)
		g_string_append(out, "no duplicates");
	else
		g_string_append_printf(
			out, "%" G_GUINT64_FORMAT " duplicates, one of them %" G_GINT64_FORMAT,
			verdict->duplicates, verdict->duplicate);
	if (tally->out_of_order == 0)
		g_string_append(out, ", increasing on each connection");
	else
		g_string_append_printf(
			out, ", %" G_GUINT64_FORMAT " not above the one before on their connection",
			tally->out_of_order);
	if (verdict->left_out > 0)
		g_string_append_printf(out,
				       "; %" G_GUINT64_FORMAT
				       " more were not looked at for duplicates (--check-limit)",
				       verdict->left_out);
	g_string_append_c(out, '\n');
}

char *report_text(const Options *options, const Tally *tally, const IdLogVerdict *verdict)
{
	g_autoptr(GString) out = g_string_new(NULL);

	g_string_append_printf(out, "server   %s\n", options->server->text);
	g_string_append_printf(out, "load     %s", wire_call_name(options->call));
	if (options->call == WIRE_GET_IDS)
		g_string_append_printf(out, " of %d", options->count);
	g_string_append_printf(out, ", %d x %d in flight, %d %s, %g s after %g s\n",
			       options->connections, options->in_flight, options->threads,
			       options->threads == 1 ? "thread" : "threads", options->duration_s,
			       options->warmup_s);
	g_string_append_printf(out, "calls    %.0f /s\n",
			       (double)tally->calls / options->duration_s);
	g_string_append_printf(out, "IDs      %.0f /s\n", (double)tally->ids / options->duration_s);
	g_string_append_printf(out, "errors   %" G_GUINT64_FORMAT, tally->errors);
	if (tally->first_error)
		g_string_append_printf(out, ", the first: %s", tally->first_error);
	g_string_append(out, "\nlatency ");
	for (gsize i = 0; i < G_N_ELEMENTS(quantiles); i++)
		g_string_append_printf(out, " %s %.3f ms ", quantiles[i].label,
				       quantile_us(tally, i) / 1000);
	g_string_append_printf(out, "\nload CPU %.0f%% of %d: user %.2f s, system %.2f s\n",
			       100 * cpu_s(tally->cpu_user_us + tally->cpu_system_us) /
				       (options->duration_s * options->threads),
			       options->threads, cpu_s(tally->cpu_user_us),
			       cpu_s(tally->cpu_system_us));
	if (verdict)
		append_check(out, tally, verdict);
	return g_string_free(g_steal_pointer(&out), FALSE);
}

static void add_number(JsonBuilder *builder, const char *name, double value)
{
	json_builder_set_member_name(builder, name);
	json_builder_add_double_value(builder, value);
}

static void add_count(JsonBuilder *builder, const char *name, guint64 value)
{
	json_builder_set_member_name(builder, name);
	json_builder_add_int_value(builder, (gint64)value);
}

static void add_string(JsonBuilder *builder, const char *name, const char *value)
{
	json_builder_set_member_name(builder, name);
	json_builder_add_string_value(builder, value);
}

static void begin_object(JsonBuilder *builder, const char *name)
{
	json_builder_set_member_name(builder, name);
	json_builder_begin_object(builder);
}

static void add_options(JsonBuilder *builder, const Options *options)
{
	add_string(builder, "server", options->server->text);
	add_string(builder, "call", wire_call_name(options->call));
	if (options->call == WIRE_GET_IDS)
		add_count(builder, "count", (guint64)options->count);
	add_count(builder, "connections", (guint64)options->connections);
	add_count(builder, "in_flight", (guint64)options->in_flight);
	add_count(builder, "threads", (guint64)options->threads);
	add_number(builder, "duration_s", options->duration_s);
	add_number(builder, "warmup_s", options->warmup_s);
}

static void add_tally(JsonBuilder *builder, const Tally *tally, double duration_s)
{
	add_count(builder, "calls", tally->calls);
	add_number(builder, "calls_per_s", (double)tally->calls / duration_s);
	add_count(builder, "ids", tally->ids);
	add_number(builder, "ids_per_s", (double)tally->ids / duration_s);
	add_count(builder, "answered", tally->answered);
	add_count(builder, "errors", tally->errors);
	if (tally->first_error)
		add_string(builder, "first_error", tally->first_error);
	begin_object(builder, "latency_us");
	for (gsize i = 0; i < G_N_ELEMENTS(quantiles); i++)
		add_number(builder, quantiles[i].key, quantile_us(tally, i));
	json_builder_end_object(builder);
	begin_object(builder, "load_cpu");
	add_number(builder, "user_s", cpu_s(tally->cpu_user_us));
	add_number(builder, "system_s", cpu_s(tally->cpu_system_us));
	json_builder_end_object(builder);
}

static void add_check(JsonBuilder *builder, const Tally *tally, const IdLogVerdict *verdict)
{
	g_autofree char *duplicate = g_strdup_printf("%" G_GINT64_FORMAT, verdict->duplicate);

	begin_object(builder, "check");
	add_count(builder, "checked", verdict->checked);
	add_count(builder, "left_out", verdict->left_out);
	add_count(builder, "duplicates", verdict->duplicates);
	if (verdict->duplicates > 0)
		add_string(builder, "duplicate", duplicate);
	add_count(builder, "out_of_order", tally->out_of_order);
	json_builder_end_object(builder);
}

char *report_json(const Options *options, const Tally *tally, const IdLogVerdict *verdict)
{
	g_autoptr(JsonBuilder) builder = json_builder_new();
	g_autoptr(JsonNode) root = NULL;
	g_autofree char *json = NULL;

	json_builder_begin_object(builder);
	add_options(builder, options);
	add_tally(builder, tally, options->duration_s);
	if (verdict)
		add_check(builder, tally, verdict);
	json_builder_end_object(builder);
	root = json_builder_get_root(builder);
	json = json_to_string(root, TRUE);
	return g_strconcat(json, "\n", NULL);
}
