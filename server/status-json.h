/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "options/options.h"
#include "server/duration-window.h"
#include "server/metrics.h"
#include "server/own-calls.h"
#include "server/rate-history.h"

/* The bodies of /status.json and similar paths. Unknown values are null. They contain no IDs, which
 * exceed the numbers of JavaScript. */

typedef struct {
	const Options *options;
	const MetricsSource *metrics;
	OwnCalls *calls;
	const RateHistory *rates; /* of IDs */
	gint64 interval_ms;       /* of these */
	const DurationWindow *durations;
	gint64 started_us; /* monotonic */
} StatusSource;

/* Each is (transfer full). */

/* The state of this server. */
JsonObject *status_json_new(const StatusSource *source);

/* Name, version and start, as in the original service. */
JsonObject *status_json_new_server_info(const StatusSource *source);

/* Counters and gauges, as in the original service. */
JsonObject *status_json_new_stats(const StatusSource *source);

/* The same, sorted, as lines of "name: value". */
char *status_json_stats_text(const StatusSource *source);

/* All servers that this server knows; or %NULL: refused. */
JsonObject *status_json_new_workers(const StatusSource *source, Refusal *out_refusal);
