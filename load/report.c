/* SPDX-License-Identifier: Apache-2.0 */
#include "load/report.h"

#include <json-glib/json-glib.h>

static const struct {
	const char *label;
	const char *key;
	double fraction;
} quantiles[] = {
	{"p50", "p50", 0.5},       {"p90", "p90", 0.9},          {"p99", "p99", 0.99},
	{"p99.9", "p99_9", 0.999}, {"p99.99", "p99_99", 0.9999}, {"max", "max", 1},
};

/* The names of each LoadError in text and in JSON. */
static const struct {
	const char *label;
	const char *key;
} error_kinds[LOAD_N_ERRORS] = {
	[LOAD_ERROR_BROKEN] = {"broken", "broken"},
	[LOAD_ERROR_TIMED_OUT] = {"timed out", "timed_out"},
	[LOAD_ERROR_UNSENT] = {"not sent", "not_sent"},
	[LOAD_ERROR_EXCEPTION] = {"exceptions", "exceptions"},
	[LOAD_ERROR_WRONG] = {"wrong", "wrong"},
};

static double per_second(const LoadReport *self, guint64 count)
{
	return self->measured_s > 0 ? (double)count / self->measured_s : 0;
}

static double quantile_us(const LoadHistogram *histogram, gsize index)
{
	return (double)load_histogram_quantile(histogram, quantiles[index].fraction) / 1000;
}

static double to_ms(gint64 ns)
{
	return (double)ns / 1e6;
}

static guint64 ids_per_call(const LoadOptions *options)
{
	return load_wire_is_batch(options->form.call) ? options->form.count : 1;
}

/* Returns: (transfer full): the names, separated by commas. */
static char *server_names(const LoadOptions *options)
{
	GString *names = g_string_new(NULL);

	for (guint i = 0; i < options->servers->len; i++) {
		const Address *server = options->servers->pdata[i];

		g_string_append_printf(names, "%s%s", i > 0 ? "," : "", server->text);
	}
	return g_string_free(names, FALSE);
}

/* Returns the length above which an outage counts: 100 ms, or three times the fastest call if that
 * is longer */
static gint64 least_outage_ns(const LoadReport *self)
{
	guint64 fastest_ns = load_histogram_quantile(&self->tally->latency_ns, 0);

	return MAX(LOAD_GAPS_SHORTEST_NS, 3 * (gint64)fastest_ns);
}

/* Open loop: whether at least 99% of the due calls were answered during the measurement. */
static gboolean kept_up(const LoadReport *self)
{
	const LoadTally *tally = self->tally;

	/* allow for one call that is in flight at the end */
	return tally->in_time + tally->due / 100 + 1 >= tally->due;
}

char *load_report_complaint(const LoadReport *self)
{
	const LoadTally *tally = self->tally;

	if (tally->errors > 0)
		return g_strdup_printf("%" G_GUINT64_FORMAT " %s, the first: %s", tally->errors,
				       tally->errors == 1 ? "error" : "errors", tally->first_error);
	if (tally->calls == 0 && self->tally->stopped_ns == 0)
		return g_strdup("no call was answered during the measurement");
	if (self->verdict.duplicates > 0)
		return g_strdup_printf("%" G_GINT64_FORMAT " came twice", self->verdict.duplicate);
	if (self->options->check && tally->out_of_order > 0)
		return g_strdup("IDs did not increase on their connection");
	return NULL;
}

/* Text */

static void append_load(GString *out, const LoadReport *self)
{
	const LoadOptions *options = self->options;
	const LoadWireForm *form = &options->form;

	g_string_append_printf(out, "load      %s", load_wire_call_names[form->call]);
	if (load_wire_is_batch(form->call))
		g_string_append_printf(out, " of %" G_GUINT64_FORMAT, form->count);
	g_string_append_printf(out,
			       ", %" G_GUINT64_FORMAT " x %" G_GUINT64_FORMAT
			       " in flight, %" G_GUINT64_FORMAT " %s",
			       options->connections, options->in_flight, options->threads,
			       options->threads == 1 ? "thread" : "threads");
	if (options->idle_connections > 0)
		g_string_append_printf(out, ", %" G_GUINT64_FORMAT " idle connections",
				       options->idle_connections);
	if (options->calls > 0)
		g_string_append_printf(out, ", %" G_GUINT64_FORMAT " calls\n", options->calls);
	else
		g_string_append_printf(out, ", %g s after %g s\n", options->duration_s,
				       options->warmup_s);
}

static void append_outages(GString *out, const LoadReport *self)
{
	const LoadTally *tally = self->tally;
	gint64 longer_than_ns = least_outage_ns(self);
	LoadOutages outages = load_gaps_outages(&tally->gaps, longer_than_ns);

	if (tally->made_again + tally->refused > 0)
		g_string_append_printf(out,
				       "connections  %" G_GUINT64_FORMAT
				       " made again, %" G_GUINT64_FORMAT " refused",
				       tally->made_again, tally->refused);
	if (tally->refused > 0)
		g_string_append_printf(out, ", the first: %s", tally->first_refusal);
	if (tally->made_again + tally->refused > 0)
		g_string_append_c(out, '\n');
	if (outages.count == 0)
		g_string_append_printf(out, "outages   none longer than %.0f ms",
				       to_ms(longer_than_ns));
	else
		g_string_append_printf(
			out, "outages   %" G_GUINT64_FORMAT ", longest %.1f ms, total %.1f ms",
			outages.count, to_ms(outages.longest_ns), to_ms(outages.total_ns));
	if (outages.goes_on)
		g_string_append(out, ", the last one still in progress at the end");
	g_string_append_c(out, '\n');
}

static void append_quantiles(GString *out, const char *label, const LoadHistogram *histogram)
{
	g_string_append_printf(out, "%s  mean %.3f", label,
			       load_histogram_mean(histogram) / 1000000);
	for (gsize i = 0; i < G_N_ELEMENTS(quantiles); i++)
		g_string_append_printf(out, "  %s %.3f", quantiles[i].label,
				       quantile_us(histogram, i) / 1000);
	g_string_append(out, "  ms\n");
}

static void append_check(GString *out, const LoadReport *self)
{
	const LoadIdLogVerdict *verdict = &self->verdict;
	const LoadTally *tally = self->tally;

	g_string_append_printf(out, "check     %" G_GUINT64_FORMAT " IDs: ", verdict->checked);
	if (verdict->duplicates == 0)
		g_string_append(out, "no duplicates");
	else
		g_string_append_printf(
			out, "%" G_GUINT64_FORMAT " duplicates, one of them %" G_GINT64_FORMAT,
			verdict->duplicates, verdict->duplicate);
	if (tally->out_of_order == 0)
		g_string_append(out, ", increasing on each connection");
	else
		g_string_append_printf(out,
				       ", %" G_GUINT64_FORMAT
				       " not above the previous one on their connection",
				       tally->out_of_order);
	if (verdict->left_out > 0)
		g_string_append_printf(
			out, "; %" G_GUINT64_FORMAT " more were not checked for duplicates",
			verdict->left_out);
	g_string_append_c(out, '\n');
}

char *load_report_text(const LoadReport *self)
{
	const LoadTally *tally = self->tally;
	g_autofree char *servers = server_names(self->options);
	GString *out = g_string_new(NULL);
	const char *before = " (";

	g_string_append_printf(out, "server    %s\n", servers);
	append_load(out, self);
	if (self->tally->stopped_ns > 0 && self->measured_s > 0)
		g_string_append_printf(out, "INTERRUPTED after %.3f s of the measurement\n",
				       self->measured_s);
	else if (self->tally->stopped_ns > 0)
		g_string_append(out, "INTERRUPTED before the measurement\n");
	g_string_append_printf(out, "calls     %.0f /s", per_second(self, tally->in_time));
	if (self->options->rate > 0)
		g_string_append_printf(out, " of the requested %.15g /s", self->options->rate);
	if (self->options->rate > 0 && !kept_up(self))
		g_string_append(out, ": COULD NOT KEEP UP");
	g_string_append_printf(out, "\nIDs       %.0f /s\n",
			       per_second(self, tally->in_time * ids_per_call(self->options)));
	g_string_append_printf(out, "errors    %" G_GUINT64_FORMAT, tally->errors);
	for (guint i = 0; i < LOAD_N_ERRORS; i++) {
		if (tally->errors_of[i] == 0)
			continue;
		g_string_append_printf(out, "%s%" G_GUINT64_FORMAT " %s", before,
				       tally->errors_of[i], error_kinds[i].label);
		before = ", ";
	}
	if (tally->errors > 0)
		g_string_append_printf(out, "), the first: %s", tally->first_error);
	g_string_append_c(out, '\n');
	if (tally->sent_again > 0)
		g_string_append_printf(out, "sent again  %" G_GUINT64_FORMAT ", the first: %s\n",
				       tally->sent_again, tally->first_end);
	append_outages(out, self);
	append_quantiles(out, "latency ", &tally->latency_ns);
	if (self->options->rate > 0) {
		append_quantiles(out, "sent late", &tally->lag_ns);
		g_string_append_printf(out,
				       "waited    %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
				       " calls, for a free slot or a connection\n",
				       tally->queued, tally->due);
	}
	g_string_append_printf(out, "load CPU  user %.2f s, system %.2f s\n",
			       (double)tally->cpu_user_us / G_USEC_PER_SEC,
			       (double)tally->cpu_system_us / G_USEC_PER_SEC);
	if (self->options->check)
		append_check(out, self);
	return g_string_free(out, FALSE);
}

/* JSON */

static void set_count(JsonObject *object, const char *name, guint64 count)
{
	json_object_set_int_member(object, name, (gint64)count);
}

static JsonObject *quantiles_to_json(const LoadHistogram *histogram)
{
	JsonObject *object = json_object_new();

	json_object_set_double_member(object, "mean", load_histogram_mean(histogram) / 1000);
	for (gsize i = 0; i < G_N_ELEMENTS(quantiles); i++)
		json_object_set_double_member(object, quantiles[i].key, quantile_us(histogram, i));
	return object;
}

static JsonObject *outages_to_json(const LoadReport *self)
{
	gint64 longer_than_ns = least_outage_ns(self);
	LoadOutages outages = load_gaps_outages(&self->tally->gaps, longer_than_ns);
	JsonObject *object = json_object_new();

	json_object_set_double_member(object, "longer_than_ms", to_ms(longer_than_ns));
	set_count(object, "count", outages.count);
	json_object_set_double_member(object, "total_ms", to_ms(outages.total_ns));
	json_object_set_double_member(object, "longest_ms", to_ms(outages.longest_ns));
	json_object_set_boolean_member(object, "over", !outages.goes_on);
	return object;
}

static JsonObject *check_to_json(const LoadReport *self)
{
	const LoadIdLogVerdict *verdict = &self->verdict;
	g_autofree char *duplicate = g_strdup_printf("%" G_GINT64_FORMAT, verdict->duplicate);
	JsonObject *object = json_object_new();

	set_count(object, "checked", verdict->checked);
	set_count(object, "left_out", verdict->left_out);
	set_count(object, "duplicates", verdict->duplicates);
	if (verdict->duplicates > 0)
		json_object_set_string_member(object, "duplicate", duplicate);
	set_count(object, "out_of_order", self->tally->out_of_order);
	return object;
}

static JsonArray *histogram_to_json(const LoadHistogram *histogram)
{
	JsonArray *array = json_array_new();

	for (guint i = 0; i < LOAD_HISTOGRAM_BUCKETS; i++) {
		JsonObject *bucket;

		if (histogram->counts[i] == 0)
			continue;
		bucket = json_object_new();
		json_object_set_double_member(bucket, "up_to_us",
					      (double)load_histogram_bucket_end(i) / 1000);
		set_count(bucket, "calls", histogram->counts[i]);
		json_array_add_object_element(array, bucket);
	}
	return array;
}

char *load_report_json(const LoadReport *self)
{
	const LoadOptions *options = self->options;
	const LoadWireForm *form = &options->form;
	const LoadTally *tally = self->tally;
	guint64 ids = ids_per_call(options);
	g_autoptr(JsonObject) object = json_object_new();
	g_autoptr(JsonNode) root = json_node_init_object(json_node_alloc(), object);
	JsonObject *errors = json_object_new();
	JsonObject *load_cpu = json_object_new();
	g_autofree char *servers = server_names(options);
	g_autofree char *json = NULL;

	json_object_set_string_member(object, "server", servers);
	json_object_set_string_member(object, "call", load_wire_call_names[form->call]);
	if (load_wire_is_batch(form->call))
		set_count(object, "count", form->count);
	set_count(object, "connections", options->connections);
	set_count(object, "in_flight", options->in_flight);
	set_count(object, "threads", options->threads);
	set_count(object, "idle_connections", options->idle_connections);
	json_object_set_string_member(object, "loop", options->rate > 0 ? "open" : "closed");
	json_object_set_double_member(object, "duration_s", self->measured_s);
	json_object_set_double_member(object, "warmup_s",
				      options->calls > 0 ? 0 : options->warmup_s);
	json_object_set_boolean_member(object, "interrupted", self->tally->stopped_ns > 0);
	set_count(object, "calls", tally->calls);
	json_object_set_double_member(object, "calls_per_s", per_second(self, tally->in_time));
	set_count(object, "ids", tally->calls * ids);
	json_object_set_double_member(object, "ids_per_s", per_second(self, tally->in_time * ids));
	set_count(object, "answered", tally->answered);
	set_count(object, "errors", tally->errors);
	for (guint i = 0; i < LOAD_N_ERRORS; i++)
		set_count(errors, error_kinds[i].key, tally->errors_of[i]);
	json_object_set_object_member(object, "errors_by_kind", errors);
	if (tally->first_error != NULL)
		json_object_set_string_member(object, "first_error", tally->first_error);
	set_count(object, "sent_again", tally->sent_again);
	if (tally->sent_again > 0)
		json_object_set_string_member(object, "first_end", tally->first_end);
	set_count(object, "connections_made_again", tally->made_again);
	set_count(object, "connections_refused", tally->refused);
	if (tally->first_refusal != NULL)
		json_object_set_string_member(object, "first_refusal", tally->first_refusal);
	json_object_set_object_member(object, "outages", outages_to_json(self));
	if (options->rate > 0) {
		json_object_set_double_member(object, "rate", options->rate);
		json_object_set_boolean_member(object, "kept_up", kept_up(self));
		set_count(object, "due", tally->due);
		set_count(object, "waited", tally->queued);
		json_object_set_object_member(object, "sent_late_us",
					      quantiles_to_json(&tally->lag_ns));
	}
	json_object_set_object_member(object, "latency_us", quantiles_to_json(&tally->latency_ns));
	json_object_set_double_member(load_cpu, "user_s",
				      (double)tally->cpu_user_us / G_USEC_PER_SEC);
	json_object_set_double_member(load_cpu, "system_s",
				      (double)tally->cpu_system_us / G_USEC_PER_SEC);
	json_object_set_object_member(object, "load_cpu", load_cpu);
	if (options->check)
		json_object_set_object_member(object, "check", check_to_json(self));
	json_object_set_array_member(object, "histogram", histogram_to_json(&tally->latency_ns));
	json = json_to_string(root, TRUE);
	return g_strconcat(json, "\n", NULL);
}
