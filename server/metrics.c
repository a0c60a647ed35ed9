/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/log.h"
#include "common/version.h"
#include "core/clock.h"
#include "server/issuer-source.h"

/* A list of any age is used: keeper_get_quarantined() requests a new one when it is due. */
#define WORKERS_MAX_AGE_MS G_MAXINT32

#define NS_PER_S (1000 * (gint64)CLOCK_NS_PER_MS)
#define S_PER_MS 1e-3
#define S_PER_NS 1e-9
#define S_PER_US 1e-6

/* Prometheus' text format */

static const char *const TYPES[] = {
	[METRICS_COUNTER] = "counter",
	[METRICS_GAUGE] = "gauge",
	[METRICS_HISTOGRAM] = "histogram",
};

void metrics_family_begin(GString *text, const MetricsFamily *family)
{
	g_string_append_printf(text, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
			       family->name, TYPES[family->type]);
}

static void begin_sample(GString *text, const char *name, const MetricsLabel *labels)
{
	g_string_append(text, name);
	if (labels == NULL || labels->name == NULL)
		return;
	for (const MetricsLabel *label = labels; label->name != NULL; label++) {
		g_string_append_printf(text, "%c%s=\"", label == labels ? '{' : ',', label->name);
		for (const char *at = label->value; *at != '\0'; at++) {
			if (*at == '\n')
				g_string_append(text, "\\n");
			else if (*at == '"' || *at == '\\')
				g_string_append_printf(text, "\\%c", *at);
			else
				g_string_append_c(text, *at);
		}
		g_string_append_c(text, '"');
	}
	g_string_append_c(text, '}');
}

static void append_number(GString *text, gdouble number)
{
	char digits[G_ASCII_DTOSTR_BUF_SIZE];

	if (isnan(number))
		g_string_append(text, "NaN");
	else if (isinf(number))
		g_string_append(text, number > 0 ? "+Inf" : "-Inf");
	else
		g_string_append(text, g_ascii_formatd(digits, sizeof digits, "%.15g", number));
}

void metrics_family_add(GString *text, const MetricsFamily *family, const MetricsLabel *labels,
			gdouble value)
{
	begin_sample(text, family->name, labels);
	g_string_append_c(text, ' ');
	append_number(text, value);
	g_string_append_c(text, '\n');
}

void metrics_family_add_count(GString *text, const MetricsFamily *family,
			      const MetricsLabel *labels, guint64 count)
{
	begin_sample(text, family->name, labels);
	g_string_append_printf(text, " %" G_GUINT64_FORMAT "\n", count);
}

void metrics_family_add_histogram(GString *text, const MetricsFamily *family, const gdouble *bounds,
				  const guint64 *counts, guint n, gdouble sum)
{
	g_autofree char *bucket = g_strconcat(family->name, "_bucket", NULL);
	g_autofree char *sum_name = g_strconcat(family->name, "_sum", NULL);
	g_autofree char *count_name = g_strconcat(family->name, "_count", NULL);
	guint64 count = 0;

	for (guint i = 0; i < n; i++) {
		g_autoptr(GString) bound = g_string_new(NULL);

		append_number(bound, i + 1 < n ? bounds[i] : (gdouble)INFINITY);
		count += counts[i];
		metrics_family_add_count(text, &(MetricsFamily){.name = bucket},
					 (const MetricsLabel[]){{"le", bound->str}, {0}}, count);
	}
	metrics_family_add(text, &(MetricsFamily){.name = sum_name}, NULL, sum);
	metrics_family_add_count(text, &(MetricsFamily){.name = count_name}, NULL, count);
}

/* The values */

/* The unit of a gauge; /metrics converts it to seconds. */
typedef enum {
	UNIT_ONE,
	UNIT_FLAG, /* 0 or 1; in JSON, a boolean */
	UNIT_MS,
	UNIT_NS, /* in JSON, milliseconds with a fraction */
} Unit;

typedef struct _Metric Metric;

/* Appends the samples of a family with labels. */
typedef void (*WriteFamily)(GString *text, const Metric *metric, const MetricsReading *reading);

/* A row of the table: one value. In /metrics, consecutive rows with the same name are one
 * family. */
struct _Metric {
	MetricsFamily family; /* its name is NULL if the value is not in /metrics */
	MetricsLabel label;
	gint value; /* a Counter or a MetricsGauge */
	Unit unit;
	const char *counter;          /* name in get_counters and /stats.json, or NULL */
	const char *section, *member; /* section and member in /status.json, or NULL */
	WriteFamily write;            /* NULL if the family has only one sample, the value */
};

static guint64 sum_of(const MetricsReading *reading, gint counter)
{
	return counter_set_sum(reading->source->service->counters, counter);
}

static gint64 *gauge_of(MetricsReading *reading, MetricsGauge gauge)
{
	return &reading->gauges[gauge - N_COUNTERS];
}

/* Reading */

void metrics_read(const MetricsSource *source, MetricsReading *out)
{
	const ServiceConfig *service = source->service;
	const IssuerSource *issuer = issuer_source_of(service->source);
	gint64 now_ms = clock_now_ms(service->source->clock);
	gint64 expires_ms = atomic_load(source->certificate_expires_ms);
	const KeeperStatus *status = &out->status;
	SnowflakePoolStatistics pool;
	RpcServerStatus rpc;

	*out = (MetricsReading){.source = source};
	for (gsize i = 0; i < G_N_ELEMENTS(out->gauges); i++)
		out->gauges[i] = METRICS_NOT_KNOWN;
	service->source->ops->get_status(service->source, &out->status);
	if (issuer != NULL) {
		*gauge_of(out, GAUGE_RESERVATION_LEFT) = MAX(status->reserved_until_ms - now_ms, 0);
		*gauge_of(out, GAUGE_RESERVATION_LENGTH) = status->reservation_ms;
		*gauge_of(out, GAUGE_EXTENDING_FAILS) = status->extending_fails;
		if (status->registry_clock_known)
			*gauge_of(out, GAUGE_REGISTRY_SKEW) = status->registry_skew_ns;
		if (status->peers_skew_known)
			*gauge_of(out, GAUGE_PEERS_SKEW) = status->peers_skew_ns;
		*gauge_of(out, GAUGE_AHEAD) = generator_ahead_ns(issuer->generator);
	} else {
		PoolUpstream *upstream = relay_source_pool(service->source);

		out->relay = pool_upstream_get_view(upstream);
		pool_upstream_get_statistics(upstream, &pool);
		*gauge_of(out, GAUGE_RELAY_CONNECTED) = out->relay.is_served;
		*gauge_of(out, GAUGE_RELAY_PREFETCHED) = (gint64)pool.prefetched;
		*gauge_of(out, GAUGE_RELAY_DISCARDED) = (gint64)pool.discarded;
		*gauge_of(out, GAUGE_RELAY_EMPTY_BUFFER) = (gint64)pool.empty_buffer;
		*gauge_of(out, GAUGE_RELAY_REFILLS) = (gint64)pool.refills;
		*gauge_of(out, GAUGE_RELAY_FAILOVERS) = (gint64)pool.failovers;
		*gauge_of(out, GAUGE_RELAY_EXCLUDED) = (gint64)pool.excluded;
	}
	out->why_not_ready = health_why_not_ready(source->health);
	*gauge_of(out, GAUGE_READY) = out->why_not_ready == NULL;
	*gauge_of(out, GAUGE_LAYOUT_LEFT) = layout_last_ms(service->source->layout) - now_ms;
	rpc = rpc_server_status(source->rpc);
	*gauge_of(out, GAUGE_WAITING_CALLS) = rpc.n_parked;
	*gauge_of(out, GAUGE_CONNECTIONS) = rpc.n_connections;
	*gauge_of(out, GAUGE_MAX_CONNECTIONS) = rpc.max_connections;
	if (expires_ms != G_MAXINT64)
		*gauge_of(out, GAUGE_CERTIFICATE_EXPIRY) = expires_ms;
	*gauge_of(out, GAUGE_AUDIT_QUEUED) = (gint64)audit_log_sum(service->audit).queued_ids;
	*gauge_of(out, GAUGE_AUDIT_DROPPED) = (gint64)audit_log_sum(service->audit).dropped_ids;
	*gauge_of(out, GAUGE_LOST_LOG_LINES) = (gint64)log_lost_lines();
}

void metrics_reading_clear(MetricsReading *self)
{
	pool_view_clear(&self->relay);
	g_free(self->why_not_ready);
}

/* Adds a family with one sample. @label: (nullable): %NULL for no label */
static void append_one(GString *text, const MetricsFamily *family, const char *label,
		       const char *label_value, gdouble value)
{
	metrics_family_begin(text, family);
	metrics_family_add(text, family, (const MetricsLabel[]){{label, label_value}, {0}}, value);
}

/* The process */

static void append_metric(GString *text, const char *name, MetricsType type, const char *help,
			  gdouble value)
{
	append_one(text, &(MetricsFamily){name, type, help}, NULL, NULL, value);
}

/* Returns the start time of the process in seconds since the Unix epoch. @ticks: time from the
 * start of the system to the start of the process. Does not use /proc/stat, which a unit with
 * ProcSubset=pid cannot read. If the result differs from the last one by at most one second,
 * returns the last one, because a change would look like a restart. */
static gint64 start_time_s(guint64 ticks)
{
	static _Atomic gint64 reported_s;
	gint64 after_ns = (gint64)ticks * (NS_PER_S / sysconf(_SC_CLK_TCK));
	gint64 start_s = (system_clock_measure_offset_ns() + after_ns) / NS_PER_S;
	gint64 last_s = atomic_load(&reported_s);

	if (ABS(start_s - last_s) <= 1)
		return last_s;
	atomic_store(&reported_s, start_s);
	return start_s;
}

/* Appends the metrics that Prometheus' clients report for every process, with the same names
 * (prometheus.io/docs/instrumenting/writing_clientlibs, "Process metrics"), as far as the system
 * provides them. */
static void append_process(GString *text)
{
	g_autoptr(GDir) descriptors = g_dir_open("/proc/self/fd", 0, NULL);
	g_autofree char *stat = NULL;
	const char *after = NULL;
	struct rusage usage;
	struct rlimit limit;
	guint64 start_ticks, virtual_bytes;
	gint64 pages;
	gint n_descriptors = -1; /* minus 1, because the directory itself is open */

	if (getrusage(RUSAGE_SELF, &usage) == 0)
		append_metric(text, "process_cpu_seconds_total", METRICS_COUNTER,
			      "CPU time of the process, in user and system mode.",
			      (gdouble)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
				      (gdouble)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) /
					      G_USEC_PER_SEC);
	while (descriptors != NULL && g_dir_read_name(descriptors) != NULL)
		n_descriptors++;
	if (descriptors != NULL)
		append_metric(text, "process_open_fds", METRICS_GAUGE, "Open file descriptors.",
			      n_descriptors);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		append_metric(text, "process_max_fds", METRICS_GAUGE,
			      "Limit of open file descriptors.", (gdouble)limit.rlim_cur);
	/* the second field of proc(5)'s stat is in brackets and can contain anything */
	if (g_file_get_contents("/proc/self/stat", &stat, NULL, NULL))
		after = strrchr(stat, ')');
	if (after == NULL ||
	    sscanf(after,
		   ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d "
		   "%" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GINT64_FORMAT,
		   &start_ticks, &virtual_bytes, &pages) != 3)
		return;
	append_metric(text, "process_virtual_memory_bytes", METRICS_GAUGE, "Virtual memory.",
		      (gdouble)virtual_bytes);
	append_metric(text, "process_resident_memory_bytes", METRICS_GAUGE, "Resident memory.",
		      (gdouble)pages * (gdouble)sysconf(_SC_PAGESIZE));
	append_metric(text, "process_start_time_seconds", METRICS_GAUGE,
		      "Start of the process, since the Unix epoch.",
		      (gdouble)start_time_s(start_ticks));
}

/* Families with labels */

/* Appends a sample for each of @n states: 1 for the current state @now, 0 for the others. */
static void write_states(GString *text, const MetricsFamily *family, const char *const *states,
			 guint n, const char *now)
{
	metrics_family_begin(text, family);
	for (guint i = 0; i < n; i++)
		metrics_family_add(text, family, (const MetricsLabel[]){{"state", states[i]}, {0}},
				   g_str_equal(states[i], now) ? 1 : 0);
}

static void write_build(GString *text, const Metric *metric,
			const MetricsReading *reading G_GNUC_UNUSED)
{
	append_one(text, &metric->family, "version", SNOWFLAKE_VERSION, 1);
}

static void write_server_state(GString *text, const Metric *metric, const MetricsReading *reading)
{
	const char *states[KEEPER_STOPPED + 2];
	gboolean is_draining = atomic_load(&reading->source->service->draining);

	for (KeeperState state = 0; state <= KEEPER_STOPPED; state++)
		states[state] = keeper_state_name(state);
	states[KEEPER_STOPPED + 1] = SERVICE_DRAINING;
	write_states(text, &metric->family, states, G_N_ELEMENTS(states),
		     is_draining ? SERVICE_DRAINING : keeper_state_name(reading->status.state));
}

static void write_worker(GString *text, const Metric *metric, const MetricsReading *reading)
{
	const ServiceConfig *service = reading->source->service;
	g_autofree char *datacenter_id = g_strdup_printf("%d", reading->status.datacenter_id);
	g_autofree char *worker_id = g_strdup_printf("%d", reading->status.worker_id);
	g_autofree char *layout = layout_name(service->source->layout);

	if (issuer_source_of(service->source) == NULL || reading->status.worker_id < 0)
		return;
	metrics_family_begin(text, &metric->family);
	metrics_family_add(text, &metric->family,
			   (const MetricsLabel[]){{"datacenter_id", datacenter_id},
						  {"worker_id", worker_id},
						  {"address", service->address},
						  {"layout", layout},
						  {0}},
			   1);
}

/* Appends nothing for a registry without an ID. */
static void write_registry(GString *text, const Metric *metric, const MetricsReading *reading)
{
	if (reading->status.registry_id != NULL)
		append_one(text, &metric->family, "registry_id", reading->status.registry_id, 1);
}

/* Appends nothing for a registry without sessions. */
static void write_session(GString *text, const Metric *metric, const MetricsReading *reading)
{
	const char *sessions[REGISTRY_N_SESSIONS];

	if (reading->status.session == REGISTRY_SESSION_NONE)
		return;
	for (RegistrySession session = 0; session < REGISTRY_N_SESSIONS; session++)
		sessions[session] = registry_session_name(session);
	write_states(text, &metric->family, sessions + REGISTRY_SESSION_CONNECTING,
		     REGISTRY_N_SESSIONS - REGISTRY_SESSION_CONNECTING,
		     sessions[reading->status.session]);
}

/* The worker IDs of one datacenter. */
typedef struct {
	guint held, quarantined;
} Datacenter;

static Datacenter *find_datacenter(GHashTable *datacenters, gint id)
{
	Datacenter *datacenter = g_hash_table_lookup(datacenters, GINT_TO_POINTER(id));

	if (datacenter == NULL) {
		datacenter = g_new0(Datacenter, 1);
		g_hash_table_insert(datacenters, GINT_TO_POINTER(id), datacenter);
	}
	return datacenter;
}

/* Returns: (transfer full) (nullable): maps a datacenter ID to a Datacenter; %NULL if unknown. */
static GHashTable *count_worker_ids(const MetricsReading *reading)
{
	const IssuerSource *issuer = issuer_source_of(reading->source->service->source);
	g_autoptr(GPtrArray) workers = NULL;
	g_autoptr(GPtrArray) quarantined = NULL;
	GHashTable *datacenters;
	gint64 as_of_ms;

	if (issuer == NULL || !keeper_get_quarantined(issuer->keeper, &quarantined, &as_of_ms) ||
	    !keeper_get_workers(issuer->keeper, WORKERS_MAX_AGE_MS, FALSE, &workers, &as_of_ms,
				NULL))
		return NULL;
	datacenters = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	find_datacenter(datacenters, reading->status.datacenter_id);
	for (guint i = 0; i < workers->len; i++) {
		const SnowflakeClientWorker *worker = workers->pdata[i];

		if (worker->worker_id >= 0)
			find_datacenter(datacenters, worker->datacenter_id)->held++;
	}
	for (guint i = 0; i < quarantined->len; i++)
		find_datacenter(
			datacenters,
			((const SnowflakeClientWorker *)quarantined->pdata[i])->datacenter_id)
			->quarantined++;
	return datacenters;
}

static void write_worker_ids(GString *text, const Metric *metric, const MetricsReading *reading)
{
	const Layout *layout = reading->source->service->source->layout;
	g_autoptr(GHashTable) datacenters = count_worker_ids(reading);
	GHashTableIter iter;
	gpointer id, value;

	if (datacenters == NULL)
		return;
	metrics_family_begin(text, &metric->family);
	g_hash_table_iter_init(&iter, datacenters);
	while (g_hash_table_iter_next(&iter, &id, &value)) {
		const Datacenter *one = value;
		gint64 all = G_GINT64_CONSTANT(1) << layout->worker_bits;
		gint64 not_free = (gint64)one->held + one->quarantined;
		g_autofree char *name = g_strdup_printf("%d", GPOINTER_TO_INT(id));
		const struct {
			const char *state;
			gint64 n;
		} STATES[] = {{"held", one->held},
			      {"quarantined", one->quarantined},
			      {"free", MAX(all - not_free, 0)}};

		for (gsize i = 0; i < G_N_ELEMENTS(STATES); i++)
			metrics_family_add(text, &metric->family,
					   (const MetricsLabel[]){{"datacenter_id", name},
								  {"state", STATES[i].state},
								  {0}},
					   (gdouble)STATES[i].n);
	}
}

static void write_relay_server(GString *text, const Metric *metric, const MetricsReading *reading)
{
	if (reading->relay.is_served)
		append_one(text, &metric->family, "server", reading->relay.server, 1);
}

/* Writes a number with a fraction. */
static void write_layout_rate(GString *text, const Metric *metric, const MetricsReading *reading)
{
	append_one(text, &metric->family, NULL, NULL,
		   layout_ids_per_ms(reading->source->service->source->layout));
}

typedef struct {
	GString *text;
	const MetricsFamily *family;
} AgentSamples;

static void write_agent(const char *agent, guint64 ids, gpointer user_data)
{
	const AgentSamples *samples = user_data;

	metrics_family_add_count(samples->text, samples->family,
				 (const MetricsLabel[]){{"agent", agent}, {0}}, ids);
}

static void write_agents(GString *text, const Metric *metric, const MetricsReading *reading)
{
	metrics_family_begin(text, &metric->family);
	agent_counters_each(reading->source->service->agents, write_agent,
			    &(AgentSamples){text, &metric->family});
}

static void write_calls(GString *text, const Metric *metric, const MetricsReading *reading)
{
	static const struct {
		const char *result;
		Counter first;
	} RESULTS[] = {{"ok", COUNTER_ANSWERED}, {"refused", COUNTER_REFUSED}};

	metrics_family_begin(text, &metric->family);
	for (CounterMethod method = 0; method < N_COUNTER_METHODS; method++)
		for (gsize i = 0; i < G_N_ELEMENTS(RESULTS); i++)
			metrics_family_add_count(
				text, &metric->family,
				(const MetricsLabel[]){{"method", COUNTER_METHOD_NAMES[method]},
						       {"result", RESULTS[i].result},
						       {0}},
				sum_of(reading, RESULTS[i].first + method));
}

static void write_durations(GString *text, const Metric *metric, const MetricsReading *reading)
{
	gdouble bounds[N_COUNTER_DURATIONS];
	guint64 counts[N_COUNTER_DURATIONS];

	for (guint i = 0; i < N_COUNTER_DURATIONS; i++) {
		guint64 bound_us = G_GUINT64_CONSTANT(1) << (i + COUNTER_FIRST_DURATION_LOG2);

		bounds[i] = (gdouble)bound_us / G_USEC_PER_SEC;
		counts[i] = sum_of(reading, COUNTER_DURATIONS + i);
	}
	metrics_family_begin(text, &metric->family);
	metrics_family_add_histogram(text, &metric->family, bounds, counts, N_COUNTER_DURATIONS,
				     (gdouble)sum_of(reading, COUNTER_DURATION_US) * S_PER_US);
}

/* Appends samples only if the server has a certificate. */
static void write_handshakes(GString *text, const Metric *metric, const MetricsReading *reading)
{
	if (reading->gauges[GAUGE_CERTIFICATE_EXPIRY - N_COUNTERS] == METRICS_NOT_KNOWN)
		return;
	metrics_family_begin(text, &metric->family);
	metrics_family_add_count(text, &metric->family, NULL, sum_of(reading, COUNTER_HANDSHAKES));
}

/* Appends a sample for each sink. A path can contain any bytes, but Prometheus drops all metrics if
 * a label is not UTF-8. So paths that are not UTF-8 are escaped, and different paths stay
 * different. */
static void write_sinks(GString *text, const Metric *metric, const MetricsReading *reading)
{
	AuditSinkStatus status;

	metrics_family_begin(text, &metric->family);
	for (guint i = 0; audit_log_get_sink(reading->source->service->audit, i, &status); i++) {
		g_autofree char *name = g_utf8_validate(status.sink, -1, NULL)
						? g_strdup(status.sink)
						: g_strescape(status.sink, NULL);

		metrics_family_add_count(
			text, &metric->family, (const MetricsLabel[]){{"sink", name}, {0}},
			metric->value == GAUGE_AUDIT_QUEUED    ? status.queued_ids
			: metric->value == GAUGE_AUDIT_DROPPED ? status.dropped_ids
							       : (guint64)status.is_failing);
	}
}

/* The table, in the order of /metrics */

#define TOTAL(name_, help_, counter_, value_)                                                      \
	{                                                                                          \
		.family = {name_, METRICS_COUNTER, help_}, .value = value_, .counter = counter_    \
	}
#define LABELLED(name_, help_, label_, label_value_, counter_, value_)                             \
	{                                                                                          \
		.family = {name_, METRICS_COUNTER, help_}, .label = {label_, label_value_},        \
		.value = value_, .counter = counter_                                               \
	}
#define REFUSALS(reason_, counter_, value_)                                                        \
	LABELLED("snowflake_refusals_total", "Calls answered with an exception, by reason.",       \
		 "reason", reason_, counter_, value_)
#define CLOSED(reason_, counter_, value_)                                                          \
	LABELLED("snowflake_connections_closed_total",                                             \
		 "Connections closed by the server, by reason.", "reason", reason_, counter_,      \
		 value_)
#define BAD(kind_, counter_, value_)                                                               \
	LABELLED("snowflake_protocol_errors_total",                                                \
		 "Connections closed because of invalid bytes, by kind.", "kind", kind_, counter_, \
		 value_)
#define GAUGE(name_, help_, unit_, section_, member_, value_)                                      \
	{                                                                                          \
		.family = {name_, METRICS_GAUGE, help_}, .value = value_, .unit = unit_,           \
		.section = section_, .member = member_                                             \
	}
/* A total from a relay's pool. */
#define POOL_TOTAL(name_, help_, member_, value_)                                                  \
	{                                                                                          \
		.family = {name_, METRICS_COUNTER, help_}, .value = value_, .section = "relay",    \
		.member = member_                                                                  \
	}
#define FAMILY(name_, type_, help_, write_)                                                        \
	{                                                                                          \
		.family = {name_, type_, help_}, .value = -1, .write = write_                      \
	}

static const Metric METRICS[] = {
	FAMILY("snowflake_build_info", METRICS_GAUGE, "The server's version.", write_build),
	FAMILY("snowflake_server_state", METRICS_GAUGE, "State of the server.", write_server_state),
	GAUGE("snowflake_ready", "Whether the server is ready for calls, as in /readyz.", UNIT_FLAG,
	      NULL, NULL, GAUGE_READY),

	/* an issuer */
	FAMILY("snowflake_worker_info", METRICS_GAUGE, "Worker ID; absent without one.",
	       write_worker),
	FAMILY("snowflake_registry_info", METRICS_GAUGE,
	       "ID of the shared registry, or of the state directory; absent while it is "
	       "unknown.",
	       write_registry),
	GAUGE("snowflake_reservation_left_seconds",
	      "Time until the reservation ends; 0 if nothing is reserved. A reservation that has "
	      "ended causes refused calls only in the state unavailable.",
	      UNIT_MS, "reservation", "left_ms", GAUGE_RESERVATION_LEFT),
	GAUGE("snowflake_reservation_length_seconds", "Length of the reservation.", UNIT_MS,
	      "reservation", "length_ms", GAUGE_RESERVATION_LENGTH),
	GAUGE("snowflake_extension_failing",
	      "Whether the last attempt to extend the reservation failed.", UNIT_FLAG,
	      "reservation", "extending_fails", GAUGE_EXTENDING_FAILS),
	FAMILY("snowflake_zookeeper_session", METRICS_GAUGE,
	       "State of the session with ZooKeeper or PostgreSQL.", write_session),
	GAUGE("snowflake_registry_clock_skew_seconds",
	      "How far the clock is ahead of the registry's; negative if behind.", UNIT_NS, "clock",
	      "registry_skew_ms", GAUGE_REGISTRY_SKEW),
	GAUGE("snowflake_peers_clock_skew_seconds",
	      "How far the clock is ahead of the peer clock that differs most from it; negative if "
	      "behind.",
	      UNIT_NS, "clock", "peers_skew_ms", GAUGE_PEERS_SKEW),
	GAUGE("snowflake_cursor_ahead_seconds",
	      "How far the time in the last ID is ahead of the clock.", UNIT_NS, "clock",
	      "ahead_ms", GAUGE_AHEAD),
	FAMILY("snowflake_worker_ids", METRICS_GAUGE,
	       "Worker IDs in the shared registry, by datacenter and state.", write_worker_ids),

	/* a relay */
	GAUGE("snowflake_relay_connected",
	      "Whether the relay has a server from which it can request IDs.", UNIT_FLAG, "relay",
	      "connected", GAUGE_RELAY_CONNECTED),
	FAMILY("snowflake_relay_server_info", METRICS_GAUGE,
	       "Server from which the relay requests IDs; absent without one.", write_relay_server),
	GAUGE("snowflake_relay_prefetched_ids", "IDs in the prefetch buffer.", UNIT_ONE, "relay",
	      "prefetched_ids", GAUGE_RELAY_PREFETCHED),
	POOL_TOTAL("snowflake_relay_discarded_ids_total", "Prefetched IDs that became too old.",
		   "discarded_ids", GAUGE_RELAY_DISCARDED),
	POOL_TOTAL("snowflake_relay_empty_buffer_total",
		   "Calls that found the prefetch buffer empty.", "empty_buffer",
		   GAUGE_RELAY_EMPTY_BUFFER),
	POOL_TOTAL("snowflake_relay_refills_total",
		   "Replies from servers with IDs for the prefetch buffer.", "refills",
		   GAUGE_RELAY_REFILLS),
	POOL_TOTAL("snowflake_relay_failovers_total", "Failovers to another server.", "failovers",
		   GAUGE_RELAY_FAILOVERS),
	POOL_TOTAL("snowflake_relay_excluded_servers_total",
		   "Servers excluded for 10 minutes because their IDs were not unique.",
		   "excluded_servers", GAUGE_RELAY_EXCLUDED),

	GAUGE("snowflake_layout_left_seconds", "Time until the layout ends.", UNIT_MS, NULL, NULL,
	      GAUGE_LAYOUT_LEFT),
	FAMILY("snowflake_layout_ids_per_millisecond", METRICS_GAUGE,
	       "IDs for each worker ID in the layout.", write_layout_rate),

	/* IDs and calls */
	TOTAL("snowflake_ids_total", "IDs issued, including those in UUIDs.", "ids_generated",
	      COUNTER_IDS_GENERATED),
	TOTAL("snowflake_ulids_total", "ULIDs issued.", "ulids_generated", COUNTER_ULIDS_GENERATED),
	FAMILY("snowflake_agent_ids_total", METRICS_COUNTER,
	       "IDs issued, by useragent; other_agents counts all agents after the first 256.",
	       write_agents),
	FAMILY("snowflake_calls_total", METRICS_COUNTER,
	       "Calls answered with a result or an exception.", write_calls),
	TOTAL(NULL, NULL, "calls", COUNTER_CALLS),
	TOTAL(NULL, NULL, "exceptions", COUNTER_EXCEPTIONS),
	TOTAL(NULL, NULL, "clock_skew", COUNTER_CLOCK_SKEW),
	REFUSALS("clock", "refused_clock", COUNTER_REFUSED_CLOCK),
	REFUSALS("agent", "refused_agent", COUNTER_REFUSED_AGENT),
	REFUSALS("worker", "refused_worker", COUNTER_REFUSED_WORKER),
	REFUSALS("count", "refused_count", COUNTER_REFUSED_COUNT),
	REFUSALS("registry", "refused_registry", COUNTER_REFUSED_REGISTRY),
	REFUSALS("layout", "refused_layout", COUNTER_REFUSED_LAYOUT),
	REFUSALS("method", "refused_method", COUNTER_REFUSED_METHOD),
	REFUSALS("message", "refused_message", COUNTER_REFUSED_MESSAGE),
	FAMILY("snowflake_call_duration_seconds", METRICS_HISTOGRAM,
	       "Duration of calls in the server, from the socket's event until the kernel has "
	       "accepted the reply, including waits.",
	       write_durations),
	TOTAL("snowflake_call_waits_total",
	      "Calls that waited for the clock, a reservation or the registry.", "waits",
	      COUNTER_WAITS),
	GAUGE("snowflake_waiting_calls",
	      "Calls that are currently waiting, at most one for each connection.", UNIT_ONE,
	      "calls", "waiting_calls", GAUGE_WAITING_CALLS),

	/* connections */
	GAUGE("snowflake_connections", "Open connections.", UNIT_ONE, "connections", "connections",
	      GAUGE_CONNECTIONS),
	GAUGE("snowflake_max_connections", "Limit of open connections.", UNIT_ONE, "connections",
	      "max_connections", GAUGE_MAX_CONNECTIONS),
	TOTAL("snowflake_connections_accepted_total", "Connections accepted.",
	      "connections_accepted", COUNTER_CONNECTIONS_ACCEPTED),
	TOTAL("snowflake_connections_refused_total", "Connections refused because of a limit.",
	      "connections_refused", COUNTER_CONNECTIONS_REFUSED),
	TOTAL(NULL, NULL, "connections_ended", COUNTER_CONNECTIONS_ENDED),
	CLOSED("bad_bytes", "closed_bad_bytes", COUNTER_CLOSED_BAD_BYTES),
	CLOSED("frame_timeout", "closed_frame_timeout", COUNTER_CLOSED_FRAME_TIMEOUT),
	CLOSED("write_timeout", "closed_write_timeout", COUNTER_CLOSED_WRITE_TIMEOUT),
	CLOSED("idle_timeout", "closed_idle_timeout", COUNTER_CLOSED_IDLE_TIMEOUT),
	CLOSED("room", "closed_for_room", COUNTER_CLOSED_FOR_ROOM),
	CLOSED("handshake", "closed_handshake", COUNTER_CLOSED_HANDSHAKE),
	CLOSED("not_allowed", "closed_not_allowed", COUNTER_CLOSED_NOT_ALLOWED),
	BAD("http", "bad_bytes_http", COUNTER_BAD_HTTP),
	BAD("tls", "bad_bytes_tls", COUNTER_BAD_TLS),
	BAD("proxy", "bad_bytes_proxy", COUNTER_BAD_PROXY),
	BAD("theader", "bad_bytes_theader", COUNTER_BAD_THEADER),
	BAD("json", "bad_bytes_json", COUNTER_BAD_JSON),
	BAD("zlib", "bad_bytes_zlib", COUNTER_BAD_ZLIB),
	BAD("thrift", "bad_bytes_thrift", COUNTER_BAD_THRIFT),
	TOTAL("snowflake_received_bytes_total", "Bytes read from clients.", "bytes_received",
	      COUNTER_BYTES_RECEIVED),
	TOTAL("snowflake_sent_bytes_total", "Bytes sent to clients.", "bytes_sent",
	      COUNTER_BYTES_SENT),
	GAUGE("snowflake_tls_certificate_expiry_timestamp_seconds",
	      "Expiry of the certificate, since the Unix epoch.", UNIT_MS, NULL, NULL,
	      GAUGE_CERTIFICATE_EXPIRY),
	{.family = {"snowflake_tls_handshakes_total", METRICS_COUNTER, "Completed TLS handshakes."},
	 .value = COUNTER_HANDSHAKES,
	 .counter = "handshakes",
	 .write = write_handshakes},

	/* audit log and log */
	{.family = {"snowflake_audit_queued_ids", METRICS_GAUGE, "IDs in the queue."},
	 .value = GAUGE_AUDIT_QUEUED,
	 .section = "audit",
	 .member = "queued_ids",
	 .write = write_sinks},
	{.family = {"snowflake_audit_dropped_ids_total", METRICS_COUNTER,
		    "IDs lost because the queue was full."},
	 .value = GAUGE_AUDIT_DROPPED,
	 .section = "audit",
	 .member = "dropped_ids",
	 .write = write_sinks},
	FAMILY("snowflake_audit_failing", METRICS_GAUGE,
	       "Whether writes to the sink currently fail.", write_sinks),
	{.family = {"snowflake_log_lines_lost_total", METRICS_COUNTER,
		    "Log lines lost because they could not be written."},
	 .value = GAUGE_LOST_LOG_LINES},
};

/* /metrics */

char *metrics_text(const MetricsSource *source)
{
	static const gdouble SCALES[] = {
		[UNIT_ONE] = 1, [UNIT_FLAG] = 1, [UNIT_MS] = S_PER_MS, [UNIT_NS] = S_PER_NS};
	GString *text = g_string_new(NULL);
	g_auto(MetricsReading) reading = {0};
	const char *family = NULL;

	metrics_read(source, &reading);
	for (gsize i = 0; i < G_N_ELEMENTS(METRICS); i++) {
		const Metric *metric = &METRICS[i];
		const MetricsLabel labels[] = {metric->label, {0}};
		gboolean is_counter = metric->value < N_COUNTERS;
		gint64 value = is_counter ? 0 : reading.gauges[metric->value - N_COUNTERS];

		if (metric->family.name == NULL || value == METRICS_NOT_KNOWN)
			continue;
		if (metric->write != NULL) {
			metric->write(text, metric, &reading);
			continue;
		}
		if (g_strcmp0(metric->family.name, family) != 0)
			metrics_family_begin(text, &metric->family);
		family = metric->family.name;
		if (is_counter)
			metrics_family_add_count(text, &metric->family, labels,
						 sum_of(&reading, metric->value));
		else if (metric->family.type == METRICS_COUNTER)
			metrics_family_add_count(text, &metric->family, labels, (guint64)value);
		else
			metrics_family_add(text, &metric->family, labels,
					   (gdouble)value * SCALES[metric->unit]);
	}
	append_process(text);
	return g_string_free(text, FALSE);
}

/* /status.json */

void metrics_set_members(const MetricsReading *reading, const char *section, JsonObject *object)
{
	for (gsize i = 0; i < G_N_ELEMENTS(METRICS); i++) {
		const Metric *metric = &METRICS[i];
		gint64 value;

		if (g_strcmp0(metric->section, section) != 0)
			continue;
		value = reading->gauges[metric->value - N_COUNTERS];
		if (value == METRICS_NOT_KNOWN)
			json_object_set_null_member(object, metric->member);
		else if (metric->unit == UNIT_FLAG)
			json_object_set_boolean_member(object, metric->member, value != 0);
		else if (metric->unit == UNIT_NS)
			json_object_set_double_member(object, metric->member,
						      (double)value / CLOCK_NS_PER_MS);
		else
			json_object_set_int_member(object, metric->member, value);
	}
}

/* get_counters */

const char *metrics_counter_name(Counter counter)
{
	gsize i = 0;

	while (METRICS[i].value != (gint)counter)
		i++;
	return METRICS[i].counter;
}

void metrics_put_counter(GHashTable *values, const char *name, gint64 value)
{
	g_hash_table_insert(values, g_strdup(name), g_memdup2(&value, sizeof value));
}

static void put_agent(const char *agent, guint64 ids, gpointer values)
{
	g_autofree char *name =
		g_strconcat(metrics_counter_name(COUNTER_IDS_GENERATED), "_", agent, NULL);

	metrics_put_counter(values, name, (gint64)ids);
}

void metrics_put_counters(GHashTable *values, CounterSet *counters, AgentCounters *agents,
			  const AuditLog *audit)
{
	for (Counter counter = 0; counter < N_NAMED_COUNTERS; counter++)
		metrics_put_counter(values, metrics_counter_name(counter),
				    (gint64)counter_set_sum(counters, counter));
	for (guint i = 0; i < 2 * N_COUNTER_METHODS; i++) {
		CounterMethod method = i / 2;
		gboolean is_answered = i % 2 == 0;
		g_autofree char *name = g_strconcat(is_answered ? "answered_" : "refused_",
						    COUNTER_METHOD_NAMES[method], NULL);

		metrics_put_counter(
			values, name,
			(gint64)counter_set_sum(counters,
						(is_answered ? COUNTER_ANSWERED : COUNTER_REFUSED) +
							method));
	}
	agent_counters_each(agents, put_agent, values);
	metrics_put_counter(values, "scribe_enqueue_failures",
			    (gint64)audit_log_sum(audit).dropped_ids);
	metrics_put_counter(values, "reporter_flush_queue",
			    (gint64)audit_log_sum(audit).queued_ids);
}
