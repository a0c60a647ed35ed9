/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <json-glib/json-glib.h>

#include "rpc/server.h"
#include "server/health.h"
#include "server/relay-source.h"

/* Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).
 * Begin a family, and then add its samples. The caller must choose names and labels that follow
 * Prometheus' conventions. */
#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef enum { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM } MetricsType;

typedef struct {
	const char *name;
	MetricsType type;
	const char *help; /* one line */
} MetricsFamily;

/* One of the labels of a sample. The name is NULL in the last element of an array. */
typedef struct {
	const char *name;
	const char *value; /* any UTF-8 */
} MetricsLabel;

void metrics_family_begin(GString *text, const MetricsFamily *family);

/* Adds a sample. @labels: (nullable). Supports NaN and infinities. */
void metrics_family_add(GString *text, const MetricsFamily *family, const MetricsLabel *labels,
			gdouble value);

/* Adds a sample of a counter. It is written with all digits. */
void metrics_family_add_count(GString *text, const MetricsFamily *family,
			      const MetricsLabel *labels, guint64 count);

/* Adds a histogram.
 * @bounds: upper bounds of all buckets except the last, which has none
 * @counts: @n counts, each not including lower buckets */
void metrics_family_add_histogram(GString *text, const MetricsFamily *family, const gdouble *bounds,
				  const guint64 *counts, guint n, gdouble sum);

/* The values that a server reports about itself. One table contains all of them, with their names
 * in /metrics, in /status.json and in get_counters.
 *
 * In /metrics they follow the conventions of Prometheus: base units, names that end with the unit,
 * and _total for numbers that only grow. snowflaked(8) lists them under METRICS and COUNTERS. */
typedef struct {
	const ServiceConfig *service;
	const Health *health;
	const RpcServer *rpc;
	const _Atomic gint64 *certificate_expires_ms; /* see Server */
} MetricsSource;

/* Values that are measured when they are read. All other values are counters, see Counter. */
typedef enum {
	GAUGE_READY = N_COUNTERS,
	GAUGE_RESERVATION_LEFT,
	GAUGE_RESERVATION_LENGTH,
	GAUGE_EXTENDING_FAILS,
	GAUGE_REGISTRY_SKEW,
	GAUGE_PEERS_SKEW,
	GAUGE_AHEAD,
	GAUGE_RELAY_CONNECTED,
	GAUGE_RELAY_PREFETCHED,
	GAUGE_RELAY_DISCARDED,
	GAUGE_RELAY_EMPTY_BUFFER,
	GAUGE_RELAY_REFILLS,
	GAUGE_RELAY_FAILOVERS,
	GAUGE_RELAY_EXCLUDED,
	GAUGE_LAYOUT_LEFT,
	GAUGE_WAITING_CALLS,
	GAUGE_CONNECTIONS,
	GAUGE_MAX_CONNECTIONS,
	GAUGE_CERTIFICATE_EXPIRY,
	GAUGE_AUDIT_QUEUED,
	GAUGE_AUDIT_DROPPED,
	GAUGE_LOST_LOG_LINES,
	METRICS_GAUGES_END
} MetricsGauge;

/* The value of a gauge that is unknown or does not apply to the server. */
#define METRICS_NOT_KNOWN G_MININT64

/* All gauges at one instant, and their source. */
typedef struct {
	const MetricsSource *source;
	KeeperStatus status;
	PoolView relay; /* empty unless the server is a relay */
	char *why_not_ready;
	gint64 gauges[METRICS_GAUGES_END - N_COUNTERS];
} MetricsReading;

/* Reads all gauges. Thread-safe while the source runs. @out: must be cleared by the caller */
void metrics_read(const MetricsSource *source, MetricsReading *out);
void metrics_reading_clear(MetricsReading *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(MetricsReading, metrics_reading_clear)

/* Returns: (transfer full): the text of /metrics. Thread-safe. */
char *metrics_text(const MetricsSource *source);

/* Sets the members of @section in /status.json. Unknown values are null. */
void metrics_set_members(const MetricsReading *reading, const char *section, JsonObject *object);

/* Returns the name in get_counters. @counter: below N_NAMED_COUNTERS. */
const char *metrics_counter_name(Counter counter);

/* Adds a value of get_counters. @values maps names to gint64, both allocated. */
void metrics_put_counter(GHashTable *values, const char *name, gint64 value);

/* Thread-safe. Adds all counters, with their names in snowflaked(8), and the gauges of the audit
 * log from the original service. */
void metrics_put_counters(GHashTable *values, CounterSet *counters, AgentCounters *agents,
			  const AuditLog *audit);
