/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "options/options.h"
#include "server/metrics.h"
#include "server/service.h"

/* The bodies of /status.json and similar paths. Unknown values are null. The bodies contain no IDs,
 * because IDs exceed JavaScript's integers. Only one thread may use these functions. */

/* The rates of a counter in the last intervals. */

#define RATE_HISTORY_INTERVALS 300

typedef struct {
	gint64 last_us; /* monotonic time of the last reading; 0 if there is none */
	guint64 last_count;
	guint next; /* index of the next rate; if the array is full, index of the oldest one */
	guint n;
	double rates[RATE_HISTORY_INTERVALS]; /* per second */
} RateHistory;

/* Adds a reading at @now_us, a monotonic time. The reading ends an interval. */
void rate_history_add(RateHistory *self, gint64 now_us, guint64 count);

/* Returns a rate. @i: 0 to self->n - 1, where 0 is the oldest. */
double rate_history_get(const RateHistory *self, guint i);

/* Durations of recent calls, computed from earlier readings of the counters. */

#define DURATION_WINDOW_READINGS 30

typedef struct {
	guint64 counts[DURATION_WINDOW_READINGS][N_COUNTER_DURATIONS];
	guint next; /* index of the next reading; if the array is full, index of the oldest one */
	guint n;
} DurationWindow;

/* Adds a reading of the counters. */
void duration_window_add(DurationWindow *self, CounterSet *counters);

/* Computes a quantile.
 * @quantile: above 0 and at most 1
 * @out_us: (out): the quantile of the durations since the oldest reading, interpolated as if the
 * calls in a bucket were evenly distributed
 * Returns: %FALSE if there were no calls */
gboolean duration_window_quantile(const DurationWindow *self, CounterSet *counters,
				  gdouble quantile, gdouble *out_us);

typedef struct {
	const Options *options;
	const MetricsSource *metrics;
	Service *service;  /* the thread's service */
	gint64 started_us; /* monotonic time of the server's start */
	RateHistory rates; /* rates of IDs */
	DurationWindow durations;
} StatusSource;

/* The interval at which to call status_source_sample(). */
#define STATUS_SAMPLE_MS 2000

/* Adds a sample of the rate and of the durations. */
void status_source_sample(StatusSource *self);

/* The results of all these functions are (transfer full). */

/* Returns the state of this server. */
JsonObject *status_json_new(const StatusSource *source);

/* Returns name, version and start, in the form of the original service. */
JsonObject *status_json_new_server_info(const StatusSource *source);

/* Returns counters and gauges, in the form of the original service. */
JsonObject *status_json_new_stats(const StatusSource *source);

/* Returns counters and gauges, sorted, as lines of "name: value". */
char *status_json_stats_text(const StatusSource *source);

/* Returns all servers that this server knows; %NULL, with @out_refusal set, if the call is refused.
 */
JsonObject *status_json_new_workers(const StatusSource *source, Refusal *out_refusal);
