/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <json-glib/json-glib.h>

#include "options/options.h"
#include "server/duration-window.h"
#include "server/metrics.h"
#include "server/own-calls.h"
#include "server/rate-history.h"

/* What /status.json and its like have. What is not known is null; IDs, which are longer than a
 * number of JavaScript, are no part of it. */

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

/* This server: all that changes, and what it was told. */
JsonObject *status_json_new(const StatusSource *source);

/* Who it is, as in 2010. */
JsonObject *status_json_new_server_info(const StatusSource *source);

/* Its counters and gauges, as in 2010. */
JsonObject *status_json_new_stats(const StatusSource *source);

/* The same, sorted, as lines of "name: value". */
char *status_json_stats_text(const StatusSource *source);

/* All servers, as they are known here; or %NULL: refused. */
JsonObject *status_json_new_workers(const StatusSource *source, Refusal *out_refusal);
