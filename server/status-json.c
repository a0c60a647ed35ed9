/* SPDX-License-Identifier: Apache-2.0 */
#include "server/status-json.h"

#include "common/version.h"
#include "core/text.h"
#include "server/issuer-source.h"
#include "server/relay-source.h"

#define MS_PER_DAY (24 * 60 * 60 * G_GINT64_CONSTANT(1000))

/* Names in get_counters of values that are not counters. */
static const char *const GAUGES[] = {"datacenter_id", "reporter_flush_queue", "worker_id", NULL};

static void set_text(JsonObject *object, const char *name, const char *text)
{
	if (text != NULL)
		json_object_set_string_member(object, name, text);
	else
		json_object_set_null_member(object, name);
}

/* Rates and durations in the recent past */

void rate_history_add(RateHistory *self, gint64 now_us, guint64 count)
{
	if (self->last_us != 0 && now_us > self->last_us) {
		self->rates[self->next] = (double)(count - self->last_count) * G_USEC_PER_SEC /
					  (double)(now_us - self->last_us);
		self->next = (self->next + 1) % RATE_HISTORY_INTERVALS;
		self->n = MIN(self->n + 1, RATE_HISTORY_INTERVALS);
	}
	self->last_us = now_us;
	self->last_count = count;
}

double rate_history_get(const RateHistory *self, guint i)
{
	return self->rates[(self->next + RATE_HISTORY_INTERVALS - self->n + i) %
			   RATE_HISTORY_INTERVALS];
}

void duration_window_add(DurationWindow *self, CounterSet *counters)
{
	for (guint i = 0; i < N_COUNTER_DURATIONS; i++)
		self->counts[self->next][i] = counter_set_sum(counters, COUNTER_DURATIONS + i);
	self->next = (self->next + 1) % DURATION_WINDOW_READINGS;
	self->n = MIN(self->n + 1, DURATION_WINDOW_READINGS);
}

static gdouble bound_us(guint bucket)
{
	return (gdouble)(G_GUINT64_CONSTANT(1) << (bucket + COUNTER_FIRST_DURATION_LOG2));
}

gboolean duration_window_quantile(const DurationWindow *self, CounterSet *counters,
				  gdouble quantile, gdouble *out_us)
{
	guint oldest = self->n < DURATION_WINDOW_READINGS ? 0 : self->next;
	guint64 calls[N_COUNTER_DURATIONS];
	gdouble all = 0, before = 0;
	guint bucket = 0;

	if (self->n == 0)
		return FALSE;
	for (guint i = 0; i < N_COUNTER_DURATIONS; i++) {
		calls[i] =
			counter_set_sum(counters, COUNTER_DURATIONS + i) - self->counts[oldest][i];
		all += (gdouble)calls[i];
	}
	if (all == 0)
		return FALSE;
	while (bucket < N_COUNTER_DURATIONS - 1 && before + (gdouble)calls[bucket] < quantile * all)
		before += (gdouble)calls[bucket++];

	gdouble from_us = bucket == 0 ? 0 : bound_us(bucket - 1);
	gdouble part = (quantile * all - before) / (gdouble)calls[bucket];

	/* the last bucket has no upper bound */
	*out_us = bucket == N_COUNTER_DURATIONS - 1 ? from_us
						    : from_us + part * (bound_us(bucket) - from_us);
	return TRUE;
}

void status_source_sample(StatusSource *self)
{
	CounterSet *counters = self->metrics->service->counters;

	rate_history_add(&self->rates, g_get_monotonic_time(),
			 counter_set_sum(counters, COUNTER_IDS_GENERATED));
	duration_window_add(&self->durations, counters);
}

/* This server */

static gint64 now_ms(const StatusSource *source)
{
	return clock_now_ms(source->metrics->service->source->clock);
}

static JsonObject *describe_layout(const StatusSource *source)
{
	const Layout *layout = &source->options->layout;
	g_autofree char *name = layout_name(layout);
	JsonObject *object = json_object_new();

	set_text(object, "name", name);
	json_object_set_int_member(object, "epoch_ms", layout->epoch_ms);
	json_object_set_int_member(object, "tick_ms", layout->tick_ms);
	json_object_set_int_member(object, "time_bits", layout->time_bits);
	json_object_set_int_member(object, "datacenter_bits", layout->datacenter_bits);
	json_object_set_int_member(object, "worker_bits", layout->worker_bits);
	json_object_set_int_member(object, "sequence_bits", layout->sequence_bits);
	json_object_set_int_member(object, "left_days",
				   (layout_last_ms(layout) - now_ms(source)) / MS_PER_DAY);
	json_object_set_double_member(object, "ids_per_ms", layout_ids_per_ms(layout));
	return object;
}

static JsonObject *describe_rate(const RateHistory *rates)
{
	JsonArray *history = json_array_sized_new(rates->n);
	JsonObject *object = json_object_new();

	for (guint i = 0; i < rates->n; i++)
		json_array_add_double_element(history, rate_history_get(rates, i));
	json_object_set_double_member(object, "now",
				      rates->n > 0 ? rate_history_get(rates, rates->n - 1) : 0);
	json_object_set_double_member(object, "interval_s", (double)STATUS_SAMPLE_MS / 1000);
	json_object_set_array_member(object, "history", history);
	return object;
}

/* Describes the durations of recent calls. Returns NULL if there were no calls in that time. */
static JsonObject *describe_durations(const StatusSource *source)
{
	static const struct {
		const char *name;
		gdouble quantile;
	} QUANTILES[] = {{"p50", 0.5}, {"p99", 0.99}, {"p999", 0.999}};
	JsonObject *object = NULL;
	gdouble us;

	for (gsize i = 0; i < G_N_ELEMENTS(QUANTILES); i++) {
		if (!duration_window_quantile(&source->durations,
					      source->metrics->service->counters,
					      QUANTILES[i].quantile, &us))
			continue;
		if (object == NULL)
			object = json_object_new();
		json_object_set_double_member(object, QUANTILES[i].name, us);
	}
	return object;
}

/* @value: (transfer full) (nullable) */
static void set_object(JsonObject *object, const char *name, JsonObject *value)
{
	if (value != NULL)
		json_object_set_object_member(object, name, value);
	else
		json_object_set_null_member(object, name);
}

static JsonObject *describe_counters(GHashTable *counters, gboolean gauges)
{
	JsonObject *object = json_object_new();
	GHashTableIter iter;
	gpointer name, value;

	g_hash_table_iter_init(&iter, counters);
	while (g_hash_table_iter_next(&iter, &name, &value))
		if (g_strv_contains(GAUGES, name) == gauges)
			json_object_set_int_member(object, name, *(const gint64 *)value);
	return object;
}

JsonObject *status_json_new(const StatusSource *source)
{
	Source *ids = source->metrics->service->source;
	SnowflakeClientWorker self;
	g_auto(MetricsReading) reading = {0};
	g_autoptr(GHashTable) counters = service_list_counters(source->service);
	gint64 uptime_us = g_get_monotonic_time() - source->started_us;
	JsonObject *object = json_object_new(), *clock = json_object_new();
	JsonObject *reservation = NULL, *relay = NULL, *audit = NULL;
	gint64 expires_ms = atomic_load(source->metrics->certificate_expires_ms);

	service_describe_self(source->service, &self);
	g_free(self.server);
	metrics_read(source->metrics, &reading);
	set_text(object, "version", SNOWFLAKE_VERSION);
	set_text(object, "state", self.state);
	json_object_set_boolean_member(object, "ready", reading.why_not_ready == NULL);
	set_text(object, "why_not_ready", reading.why_not_ready);
	set_text(object, "kind", self.kind);
	set_text(object, "address", self.address);
	set_text(object, "nonce", self.nonce);
	json_object_set_double_member(object, "uptime_s", (double)uptime_us / 1000000);
	json_object_set_int_member(object, "datacenter_id", self.datacenter_id);
	if (self.worker_id >= 0)
		json_object_set_int_member(object, "worker_id", self.worker_id);
	else
		json_object_set_null_member(object, "worker_id");
	if (expires_ms != G_MAXINT64)
		json_object_set_int_member(object, "certificate_expires_ms", expires_ms);
	else
		json_object_set_null_member(object, "certificate_expires_ms");
	set_text(object, "registry_id", reading.status.registry_id);
	set_object(object, "layout", describe_layout(source));
	json_object_set_int_member(object, "now_ms", now_ms(source));
	set_object(object, "counters", describe_counters(counters, FALSE));
	metrics_set_members(&reading, "connections", object);
	metrics_set_members(&reading, "calls", object);
	if (reading.status.reserved_until_ms != 0) {
		reservation = json_object_new();
		json_object_set_int_member(reservation, "until_ms",
					   reading.status.reserved_until_ms);
		metrics_set_members(&reading, "reservation", reservation);
	}
	set_object(object, "reservation", reservation);
	metrics_set_members(&reading, "clock", clock);
	if (issuer_source_of(ids) == NULL)
		json_object_set_double_member(clock, "ahead_ms", 0);
	set_object(object, "clock", clock);
	set_text(object, "session",
		 reading.status.session != REGISTRY_SESSION_NONE
			 ? registry_session_name(reading.status.session)
			 : NULL);
	if (relay_source_pool(ids) != NULL) {
		relay = json_object_new();
		set_text(relay, "server",
			 *reading.relay.server != '\0' ? reading.relay.server : NULL);
		metrics_set_members(&reading, "relay", relay);
	}
	set_object(object, "relay", relay);
	set_object(object, "latency_us", describe_durations(source));
	set_object(object, "rate", describe_rate(&source->rates));
	if (source->options->audit_log->len > 0) {
		audit = json_object_new();
		metrics_set_members(&reading, "audit", audit);
	}
	set_object(object, "audit", audit);
	return object;
}

JsonObject *status_json_new_server_info(const StatusSource *source)
{
	gint64 uptime_ms = (g_get_monotonic_time() - source->started_us) / 1000;
	g_autofree char *start = text_time_ms(g_get_real_time() / 1000 - uptime_ms);
	JsonObject *object = json_object_new();

	set_text(object, "name", "snowflaked");
	set_text(object, "version", SNOWFLAKE_VERSION);
	set_text(object, "start_time", start);
	json_object_set_int_member(object, "uptime", uptime_ms);
	return object;
}

JsonObject *status_json_new_stats(const StatusSource *source)
{
	g_autoptr(GHashTable) counters = service_list_counters(source->service);
	JsonObject *object = json_object_new();

	set_object(object, "counters", describe_counters(counters, FALSE));
	set_object(object, "metrics", json_object_new());
	set_object(object, "gauges", describe_counters(counters, TRUE));
	set_object(object, "labels", json_object_new());
	return object;
}

char *status_json_stats_text(const StatusSource *source)
{
	g_autoptr(GHashTable) counters = service_list_counters(source->service);
	g_autoptr(GList) names = g_list_sort(g_hash_table_get_keys(counters), (GCompareFunc)strcmp);
	GString *text = g_string_new(NULL);

	for (const GList *one = names; one != NULL; one = one->next) {
		const gint64 *value = g_hash_table_lookup(counters, one->data);

		g_string_append_printf(text, "%s: %" G_GINT64_FORMAT "\n", (const char *)one->data,
				       *value);
	}
	return g_string_free(text, FALSE);
}

/* All servers */

static void set_time(JsonObject *object, const char *name, gint64 time_ms)
{
	g_autofree char *text = time_ms > 0 ? text_time_ms(time_ms) : NULL;

	set_text(object, name, text);
}

/* Returns the members that snowflakectl prints. A relay holds no worker ID. */
static JsonObject *describe_worker(const SnowflakeClientWorker *worker, gboolean is_self)
{
	JsonObject *object = json_object_new();
	gboolean is_relay = worker->server != NULL && *worker->server != '\0';
	const char *registry_id = worker->registry_id != NULL ? worker->registry_id : "";

	json_object_set_int_member(object, "datacenter_id", worker->datacenter_id);
	json_object_set_int_member(object, "worker_id", is_relay ? -1 : worker->worker_id);
	set_text(object, "address", worker->address);
	set_text(object, "state", worker->state);
	set_time(object, "claimed_at", worker->claimed_at_ms);
	set_time(object, "reserved_until", worker->reserved_until_ms);
	set_text(object, "nonce", worker->nonce);
	set_text(object, "kind", worker->kind);
	set_text(object, "program", *worker->program != '\0' ? worker->program : NULL);
	set_text(object, "registry_id", *registry_id != '\0' ? registry_id : NULL);
	set_text(object, "relay_of", is_relay ? worker->server : NULL);
	set_time(object, "as_of", worker->as_of_ms);
	json_object_set_boolean_member(object, "indirect", !is_self);
	json_object_set_boolean_member(object, "self", is_self);
	return object;
}

JsonObject *status_json_new_workers(const StatusSource *source, Refusal *out_refusal)
{
	const Layout *layout = &source->options->layout;
	const IssuerSource *issuer = issuer_source_of(source->metrics->service->source);
	const ServiceCall call = {.method = COUNTER_GET_WORKERS, .n_calls = 1};
	RpcPass pass = {.allowance.closing = TRUE};
	JsonArray *workers = json_array_new(), *quarantined = json_array_new();
	JsonObject *object = json_object_new();
	g_autoptr(GPtrArray) records = NULL;
	gint64 as_of_ms = now_ms(source), quarantined_ms;
	gboolean is_known;
	ServiceAnswer answer;

	if (service_answer(source->service, &call, &pass, &answer) != SERVICE_ANSWERED) {
		*out_refusal = answer.refusal;
		json_array_unref(workers);
		json_array_unref(quarantined);
		json_object_unref(object);
		return NULL;
	}
	for (guint i = 0; i < answer.workers->len; i++) {
		const SnowflakeClientWorker *worker = answer.workers->pdata[i];

		as_of_ms = MIN(as_of_ms, worker->as_of_ms);
		/* the server is first in its own list */
		json_array_add_object_element(workers, describe_worker(worker, i == 0));
	}
	g_ptr_array_unref(answer.workers);
	json_object_set_int_member(object, "as_of_ms", as_of_ms);
	json_object_set_int_member(object, "datacenter_bits", layout->datacenter_bits);
	json_object_set_int_member(object, "worker_bits", layout->worker_bits);
	json_object_set_array_member(object, "workers", workers);

	is_known =
		issuer != NULL && keeper_get_quarantined(issuer->keeper, &records, &quarantined_ms);
	for (guint i = 0; is_known && i < records->len; i++) {
		const SnowflakeClientWorker *record = records->pdata[i];
		JsonObject *one = json_object_new();

		json_object_set_int_member(one, "datacenter_id", record->datacenter_id);
		json_object_set_int_member(one, "worker_id", record->worker_id);
		json_object_set_int_member(one, "reserved_until_ms", record->reserved_until_ms);
		json_array_add_object_element(quarantined, one);
	}
	json_object_set_array_member(object, "quarantined", quarantined);
	json_object_set_boolean_member(object, "quarantined_known", is_known);
	return object;
}
