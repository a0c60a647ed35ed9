/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Metrics as Prometheus reads them: its text format, version 0.0.4
 * (prometheus.io/docs/instrumenting/exposition_formats). A family is begun, and then has samples;
 * names and labels are by Prometheus' conventions, which is for whoever calls.
 */
#define PROMETHEUS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"

typedef enum {
	PROMETHEUS_COUNTER,
	PROMETHEUS_GAUGE,
	PROMETHEUS_HISTOGRAM,
} PrometheusType;

typedef struct {
	const char *name;
	PrometheusType type;
	const char *help; /* a line, for people */
} PrometheusFamily;

/* One of these labels a sample; the last of several has no name. */
typedef struct {
	const char *name;
	const char *value; /* any UTF-8 */
} PrometheusLabel;

void prometheus_text_begin(GString *text, const PrometheusFamily *family);

/* @labels: (nullable). %NaN and infinities are written as such. */
void prometheus_text_add(GString *text, const PrometheusFamily *family,
			 const PrometheusLabel *labels, gdouble value);

/* Likewise, of a counter: to the last digit. */
void prometheus_text_add_count(GString *text, const PrometheusFamily *family,
			       const PrometheusLabel *labels, guint64 count);

/**
 * prometheus_text_add_histogram:
 * @bounds: the upper bound of each bucket but the last, which has none
 * @counts: what is in each bucket and not in those before it; @n of them
 */
void prometheus_text_add_histogram(GString *text, const PrometheusFamily *family,
				   const gdouble *bounds, const guint64 *counts, guint n,
				   gdouble sum);
