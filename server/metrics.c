/* SPDX-License-Identifier: Apache-2.0 */
#include "server/metrics.h"

#include "admin/prometheus-text.h"
#include "common/log.h"
#include "server/issuer-source.h"
#include "server/process-metrics.h"
#include "server/relay-source.h"

/* Any list will do: keeper_get_quarantined() asks for another when it is time in such a fleet. */
#define WORKERS_MAX_AGE_MS G_MAXINT32

#define S_PER_MS 1e-3
#define S_PER_NS 1e-9
#define S_PER_US 1e-6

typedef struct {
	Counter counter;
	const char *label;
} LabelledCounter;

static const LabelledCounter REFUSALS[] = {
	{COUNTER_REFUSED_CLOCK, "clock"},       {COUNTER_REFUSED_AGENT, "agent"},
	{COUNTER_REFUSED_WORKER, "worker"},     {COUNTER_REFUSED_COUNT, "count"},
	{COUNTER_REFUSED_REGISTRY, "registry"}, {COUNTER_REFUSED_LAYOUT, "layout"},
	{COUNTER_REFUSED_METHOD, "method"},     {COUNTER_REFUSED_MESSAGE, "message"},
};
static const LabelledCounter CLOSED[] = {
	{COUNTER_CLOSED_BAD_BYTES, "bad_bytes"},
	{COUNTER_CLOSED_FRAME_TIMEOUT, "frame_timeout"},
	{COUNTER_CLOSED_WRITE_TIMEOUT, "write_timeout"},
	{COUNTER_CLOSED_IDLE_TIMEOUT, "idle_timeout"},
	{COUNTER_CLOSED_FOR_ROOM, "room"},
	{COUNTER_CLOSED_HANDSHAKE, "handshake"},
	{COUNTER_CLOSED_NOT_ALLOWED, "not_allowed"},
};
static const LabelledCounter PROTOCOL_ERRORS[] = {
	{COUNTER_BAD_HTTP, "http"},       {COUNTER_BAD_TLS, "tls"},   {COUNTER_BAD_PROXY, "proxy"},
	{COUNTER_BAD_THEADER, "theader"}, {COUNTER_BAD_JSON, "json"}, {COUNTER_BAD_ZLIB, "zlib"},
	{COUNTER_BAD_THRIFT, "thrift"},
};

/* One sample, without a label. */
static void add_gauge(GString *text, const char *name, const char *help, gdouble value)
{
	const PrometheusFamily family = {name, PROMETHEUS_GAUGE, help};

	prometheus_text_begin(text, &family);
	prometheus_text_add(text, &family, NULL, value);
}

static void add_counter(GString *text, const char *name, const char *help, guint64 count)
{
	const PrometheusFamily family = {name, PROMETHEUS_COUNTER, help};

	prometheus_text_begin(text, &family);
	prometheus_text_add_count(text, &family, NULL, count);
}

static guint64 counted(const MetricsSource *source, Counter counter)
{
	return counter_set_sum(source->service->counters, counter);
}

/* A sample for each of @counters, with that label. */
static void add_labelled(GString *text, const MetricsSource *source, const char *name,
			 const char *help, const char *label, const LabelledCounter *counters,
			 gsize n)
{
	const PrometheusFamily family = {name, PROMETHEUS_COUNTER, help};

	prometheus_text_begin(text, &family);
	for (gsize i = 0; i < n; i++)
		prometheus_text_add_count(
			text, &family, (const PrometheusLabel[]){{label, counters[i].label}, {0}},
			counted(source, counters[i].counter));
}

/* Calls */

static void add_calls(GString *text, const MetricsSource *source)
{
	static const PrometheusFamily FAMILY = {
		"snowflake_calls_total", PROMETHEUS_COUNTER,
		"Calls that were answered, with a result or an exception."};

	prometheus_text_begin(text, &FAMILY);
	for (CounterMethod method = 0; method < N_COUNTER_METHODS; method++) {
		const char *name = counter_method_name(method);

		prometheus_text_add_count(
			text, &FAMILY,
			(const PrometheusLabel[]){{"method", name}, {"result", "ok"}, {0}},
			counted(source, COUNTER_ANSWERED + method));
		prometheus_text_add_count(
			text, &FAMILY,
			(const PrometheusLabel[]){{"method", name}, {"result", "refused"}, {0}},
			counted(source, COUNTER_REFUSED + method));
	}
}

static void add_durations(GString *text, const MetricsSource *source)
{
	static const PrometheusFamily FAMILY = {
		"snowflake_call_duration_seconds", PROMETHEUS_HISTOGRAM,
		"How long calls took the server, from when its sockets told of them to when the "
		"system had the replies; what they waited for included."};
	gdouble bounds[N_COUNTER_DURATIONS];
	guint64 counts[N_COUNTER_DURATIONS];

	for (guint i = 0; i < N_COUNTER_DURATIONS; i++) {
		guint64 bound_us = G_GUINT64_CONSTANT(1) << (i + COUNTER_FIRST_DURATION_LOG2);

		bounds[i] = (gdouble)bound_us / G_USEC_PER_SEC;
		counts[i] = counted(source, COUNTER_DURATIONS + i);
	}
	prometheus_text_begin(text, &FAMILY);
	prometheus_text_add_histogram(text, &FAMILY, bounds, counts, N_COUNTER_DURATIONS,
				      (gdouble)counted(source, COUNTER_DURATION_US) * S_PER_US);
}

typedef struct {
	GString *text;
	const PrometheusFamily *family;
} AgentSamples;

static void add_agent(const char *agent, guint64 ids, gpointer user_data)
{
	const AgentSamples *samples = user_data;

	prometheus_text_add_count(samples->text, samples->family,
				  (const PrometheusLabel[]){{"agent", agent}, {0}}, ids);
}

static void add_ids(GString *text, const MetricsSource *source)
{
	static const PrometheusFamily AGENTS = {"snowflake_agent_ids_total", PROMETHEUS_COUNTER,
						"IDs by useragent; other_agents are all beyond "
						"the first 256."};

	add_counter(text, "snowflake_ids_total", "IDs given out, also as UUIDs.",
		    counted(source, COUNTER_IDS_GENERATED));
	add_counter(text, "snowflake_ulids_total", "ULIDs given out.",
		    counted(source, COUNTER_ULIDS_GENERATED));
	prometheus_text_begin(text, &AGENTS);
	agent_counters_each(source->service->agents, add_agent, &(AgentSamples){text, &AGENTS});
}

static void add_all_of_calls(GString *text, const MetricsSource *source)
{
	add_ids(text, source);
	add_calls(text, source);
	add_labelled(text, source, "snowflake_refusals_total",
		     "Calls that were answered with an exception, by reason.", "reason", REFUSALS,
		     G_N_ELEMENTS(REFUSALS));
	add_durations(text, source);
	add_counter(text, "snowflake_call_waits_total",
		    "Times that a call had to wait, for the clock, a reservation or the registry.",
		    counted(source, COUNTER_WAITS));
	add_gauge(text, "snowflake_parked_calls", "Calls that wait now, one of a connection.",
		  rpc_server_n_parked(source->rpc));
}

/* Connections */

static void add_connections(GString *text, const MetricsSource *source)
{
	add_gauge(text, "snowflake_connections", "Connections that are open.",
		  rpc_server_n_connections(source->rpc));
	add_gauge(text, "snowflake_max_connections", "Connections that may be open.",
		  rpc_server_max_connections(source->rpc));
	add_counter(text, "snowflake_connections_accepted_total", "Connections taken.",
		    counted(source, COUNTER_CONNECTIONS_ACCEPTED));
	add_counter(text, "snowflake_connections_refused_total",
		    "Connections closed at once, beyond a limit.",
		    counted(source, COUNTER_CONNECTIONS_REFUSED));
	add_labelled(text, source, "snowflake_connections_closed_total",
		     "Connections that the server has closed, by reason.", "reason", CLOSED,
		     G_N_ELEMENTS(CLOSED));
	add_labelled(text, source, "snowflake_protocol_errors_total",
		     "Connections closed for bad bytes, by what they were.", "kind",
		     PROTOCOL_ERRORS, G_N_ELEMENTS(PROTOCOL_ERRORS));
	add_counter(text, "snowflake_received_bytes_total", "Bytes read from clients.",
		    counted(source, COUNTER_BYTES_RECEIVED));
	add_counter(text, "snowflake_sent_bytes_total", "Bytes that the system took for clients.",
		    counted(source, COUNTER_BYTES_SENT));
}

/* The worker ID, and what it rests on */

/* A sample for each of @n states, 1 for the one that it is in. */
static void add_states(GString *text, const char *name, const char *help, const char *const *states,
		       guint n, const char *now)
{
	const PrometheusFamily family = {name, PROMETHEUS_GAUGE, help};

	prometheus_text_begin(text, &family);
	for (guint i = 0; i < n; i++)
		prometheus_text_add(text, &family,
				    (const PrometheusLabel[]){{"state", states[i]}, {0}},
				    g_str_equal(states[i], now) ? 1 : 0);
}

static void add_state(GString *text, const MetricsSource *source, const KeeperStatus *status)
{
	const char *states[KEEPER_STOPPED + 2];
	const char *now = atomic_load(&source->service->draining)
				  ? SERVICE_DRAINING
				  : keeper_state_name(status->state);
	g_autofree char *why_not = health_why_not_ready(source->health);

	for (KeeperState state = 0; state <= KEEPER_STOPPED; state++)
		states[state] = keeper_state_name(state);
	states[KEEPER_STOPPED + 1] = SERVICE_DRAINING;
	add_states(text, "snowflake_server_state", "Which state the server is in.", states,
		   G_N_ELEMENTS(states), now);
	add_gauge(text, "snowflake_ready", "Whether calls should come here: what /readyz says.",
		  why_not == NULL ? 1 : 0);
}

static void add_worker(GString *text, const MetricsSource *source, const KeeperStatus *status)
{
	static const PrometheusFamily FAMILY = {"snowflake_worker_info", PROMETHEUS_GAUGE,
						"The worker ID; not there without one."};
	g_autofree char *datacenter_id = g_strdup_printf("%d", status->datacenter_id);
	g_autofree char *worker_id = g_strdup_printf("%d", status->worker_id);
	g_autofree char *layout = layout_name(source->service->source->layout);

	if (status->worker_id < 0)
		return;
	prometheus_text_begin(text, &FAMILY);
	prometheus_text_add(text, &FAMILY,
			    (const PrometheusLabel[]){{"datacenter_id", datacenter_id},
						      {"worker_id", worker_id},
						      {"address", source->service->address},
						      {"layout", layout},
						      {0}},
			    1);
}

static void add_reservation(GString *text, const MetricsSource *source, const KeeperStatus *status)
{
	gint64 now_ms = clock_now_ms(source->service->source->clock);
	gint64 left_ms = MAX(status->reserved_until_ms - now_ms, 0);

	add_gauge(text, "snowflake_reservation_left_seconds",
		  "Until the end of the reservation; 0: nothing is reserved, and calls are refused "
		  "for it only in the state unavailable.",
		  (gdouble)left_ms * S_PER_MS);
	add_gauge(text, "snowflake_reservation_length_seconds", "How long the reservation is.",
		  (gdouble)status->reservation_ms * S_PER_MS);
	add_gauge(text, "snowflake_extending_fails",
		  "Whether the reservation could not be extended when it was tried last.",
		  status->extending_fails ? 1 : 0);
}

static void add_session(GString *text, const KeeperStatus *status)
{
	const char *sessions[KEEPER_N_SESSIONS];

	if (status->session == KEEPER_SESSION_NONE)
		return;
	for (KeeperSession session = 0; session < KEEPER_N_SESSIONS; session++)
		sessions[session] = keeper_session_name(session);
	/* one that has none has no metric */
	add_states(text, "snowflake_zookeeper_session", "How ZooKeeper is reached.",
		   sessions + KEEPER_SESSION_CONNECTING,
		   KEEPER_N_SESSIONS - KEEPER_SESSION_CONNECTING, sessions[status->session]);
}

static void add_clocks(GString *text, const MetricsSource *source, const KeeperStatus *status)
{
	if (status->registry_clock_known)
		add_gauge(text, "snowflake_registry_clock_skew_seconds",
			  "How far the clock is ahead of ZooKeeper's.",
			  (gdouble)status->registry_skew_ns * S_PER_NS);
	if (status->peers_skew_known)
		add_gauge(text, "snowflake_peers_clock_skew_seconds",
			  "How far the clock is ahead of that of the other servers which is "
			  "furthest from it.",
			  (gdouble)status->peers_skew_ns * S_PER_NS);
	add_gauge(
		text, "snowflake_cursor_ahead_seconds",
		"How far the last ID is ahead of the clock.",
		(gdouble)generator_ahead_ns(issuer_source_of(source->service->source)->generator) *
			S_PER_NS);
}

/* Where it has a certificate. */
static void add_tls(GString *text, const MetricsSource *source)
{
	gint64 expires_ms = atomic_load(source->certificate_expires_ms);

	if (expires_ms == G_MAXINT64)
		return;
	add_gauge(text, "snowflake_tls_certificate_expiry_timestamp_seconds",
		  "When the certificate expires, since 1970.", (gdouble)expires_ms * S_PER_MS);
	add_counter(text, "snowflake_tls_handshakes_total", "TLS handshakes that are done.",
		    counter_set_sum(source->service->counters, COUNTER_HANDSHAKES));
}

static void add_layout(GString *text, const MetricsSource *source)
{
	const Layout *layout = source->service->source->layout;
	gint64 left_ms = layout_last_ms(layout) - clock_now_ms(source->service->source->clock);

	add_gauge(text, "snowflake_layout_left_seconds", "Until the last time of the layout.",
		  (gdouble)left_ms * S_PER_MS);
	add_gauge(text, "snowflake_layout_ids_per_millisecond",
		  "IDs that the layout has for one worker ID.", layout_ids_per_ms(layout));
}

/* The fleet. By datacenter ID, so many. */
typedef struct {
	guint held, quarantined;
} Datacenter;

static Datacenter *datacenter_of(GHashTable *datacenters, gint id)
{
	Datacenter *datacenter = g_hash_table_lookup(datacenters, GINT_TO_POINTER(id));

	if (datacenter == NULL) {
		datacenter = g_new0(Datacenter, 1);
		g_hash_table_insert(datacenters, GINT_TO_POINTER(id), datacenter);
	}
	return datacenter;
}

/* (transfer full) (nullable): of Datacenter, by ID; %NULL: not known. */
static GHashTable *count_worker_ids(const MetricsSource *source, const KeeperStatus *status)
{
	g_autoptr(GPtrArray) workers = NULL;
	g_autoptr(GPtrArray) quarantined = NULL;
	GHashTable *datacenters;
	gint64 as_of_ms;

	if (!keeper_get_quarantined(issuer_source_of(source->service->source)->keeper, &quarantined,
				    &as_of_ms) ||
	    !keeper_get_workers(issuer_source_of(source->service->source)->keeper,
				WORKERS_MAX_AGE_MS, FALSE, &workers, &as_of_ms, NULL))
		return NULL;
	datacenters = g_hash_table_new_full(NULL, NULL, NULL, g_free);
	datacenter_of(datacenters, status->datacenter_id);
	for (guint i = 0; i < workers->len; i++) {
		const Worker *worker = workers->pdata[i];

		if (worker->worker_id >= 0)
			datacenter_of(datacenters, worker->datacenter_id)->held++;
	}
	for (guint i = 0; i < quarantined->len; i++)
		datacenter_of(datacenters, ((const Worker *)quarantined->pdata[i])->datacenter_id)
			->quarantined++;
	return datacenters;
}

static void add_worker_ids(GString *text, const MetricsSource *source, const KeeperStatus *status)
{
	static const PrometheusFamily FAMILY = {"snowflake_worker_ids", PROMETHEUS_GAUGE,
						"Worker IDs by datacenter and state, as ZooKeeper "
						"has them."};
	const Layout *layout = source->service->source->layout;
	g_autoptr(GHashTable) datacenters = count_worker_ids(source, status);
	GHashTableIter iter;
	gpointer id, value;

	if (datacenters == NULL)
		return;
	prometheus_text_begin(text, &FAMILY);
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
			prometheus_text_add(text, &FAMILY,
					    (const PrometheusLabel[]){{"datacenter_id", name},
								      {"state", STATES[i].state},
								      {0}},
					    (gdouble)STATES[i].n);
	}
}

static void add_all_of_issuer(GString *text, const MetricsSource *source,
			      const KeeperStatus *status)
{
	add_worker(text, source, status);
	add_reservation(text, source, status);
	add_session(text, status);
	add_clocks(text, source, status);
	add_worker_ids(text, source, status);
}

/* Of a relay */

static void add_server(GString *text, RelaySource *relay)
{
	static const PrometheusFamily FAMILY = {"snowflake_relay_server_info", PROMETHEUS_GAUGE,
						"The server that IDs are asked of; not there while "
						"none can be."};
	g_auto(PoolView) view = {0};

	relay_source_get_view(relay, &view);
	add_gauge(text, "snowflake_relay_served",
		  "Whether there is a server that IDs can be asked of.", view.is_served ? 1 : 0);
	if (!view.is_served)
		return;
	prometheus_text_begin(text, &FAMILY);
	prometheus_text_add(text, &FAMILY, (const PrometheusLabel[]){{"server", view.server}, {0}},
			    1);
}

static void add_all_of_relay(GString *text, RelaySource *relay)
{
	SnowflakePoolStatistics pool;

	relay_source_get_statistics(relay, &pool);
	add_server(text, relay);
	add_gauge(text, "snowflake_relay_in_hand_ids", "IDs that are there to be given out.",
		  (gdouble)pool.in_hand);
	add_counter(text, "snowflake_relay_thrown_away_ids_total",
		    "IDs that became too old in hand.", pool.thrown_away);
	add_counter(text, "snowflake_relay_dry_total",
		    "Times that there was no ID in hand for a call.", pool.dry);
	add_counter(text, "snowflake_relay_refills_total",
		    "Answers of servers with IDs to have in hand.", pool.refills);
	add_counter(text, "snowflake_relay_switches_total",
		    "Times that another server was turned to, as one failed.", pool.switches);
	add_counter(text, "snowflake_relay_excluded_servers_total",
		    "Servers excluded for 10 minutes because their IDs were not unique.",
		    pool.excluded);
}

/* The audit log */

/* (transfer full): a path may have any bytes, and two of them stay two. One label that is no UTF-8
 * costs Prometheus all metrics. */
static char *sink_label(const char *sink)
{
	return g_utf8_validate(sink, -1, NULL) ? g_strdup(sink) : g_strescape(sink, NULL);
}

static void add_audit_log(GString *text, const MetricsSource *source)
{
	static const PrometheusFamily QUEUED = {"snowflake_audit_queued_ids", PROMETHEUS_GAUGE,
						"IDs that wait to be written."};
	static const PrometheusFamily DROPPED = {"snowflake_audit_dropped_ids_total",
						 PROMETHEUS_COUNTER,
						 "IDs that are missing, as the queue was full."};
	static const PrometheusFamily FAILING = {"snowflake_audit_failing", PROMETHEUS_GAUGE,
						 "Whether the sink takes nothing now."};
	const PrometheusFamily *const families[] = {&QUEUED, &DROPPED, &FAILING};
	AuditSinkStatus status;

	for (gsize i = 0; i < G_N_ELEMENTS(families); i++) {
		prometheus_text_begin(text, families[i]);
		for (guint nth = 0; audit_log_get_sink(source->service->audit, nth, &status);
		     nth++) {
			g_autofree char *name = sink_label(status.sink);
			const PrometheusLabel sink[] = {{"sink", name}, {0}};

			if (families[i] == &FAILING)
				prometheus_text_add(text, &FAILING, sink, status.failing ? 1 : 0);
			else
				prometheus_text_add_count(text, families[i], sink,
							  i == 0 ? status.queued_ids
								 : status.dropped_ids);
		}
	}
}

char *metrics_text(const MetricsSource *source)
{
	static const PrometheusFamily BUILD = {"snowflake_build_info", PROMETHEUS_GAUGE,
					       "The server's version."};
	GString *text = g_string_new(NULL);
	KeeperStatus status;

	source->service->source->ops->get_status(source->service->source, &status);
	prometheus_text_begin(text, &BUILD);
	prometheus_text_add(text, &BUILD,
			    (const PrometheusLabel[]){{"version", SNOWFLAKE_VERSION}, {0}}, 1);
	add_state(text, source, &status);
	if (issuer_source_of(source->service->source) != NULL)
		add_all_of_issuer(text, source, &status);
	else
		add_all_of_relay(text, relay_source_of(source->service->source));
	add_layout(text, source);
	add_all_of_calls(text, source);
	add_connections(text, source);
	add_tls(text, source);
	add_audit_log(text, source);
	add_counter(text, "snowflake_log_lines_lost_total", "Lines of the log that nobody took.",
		    log_lost_lines());
	process_metrics_append(text);
	return g_string_free(text, FALSE);
}
