/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/prometheus-text.h"

#include <math.h>

static const char *const TYPES[] = {
	[PROMETHEUS_COUNTER] = "counter",
	[PROMETHEUS_GAUGE] = "gauge",
	[PROMETHEUS_HISTOGRAM] = "histogram",
};

void prometheus_text_begin(GString *text, const PrometheusFamily *family)
{
	g_string_append_printf(text, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
			       family->name, TYPES[family->type]);
}

static void append_value(GString *text, const char *value)
{
	for (const char *at = value; *at != '\0'; at++) {
		if (*at == '\n')
			g_string_append(text, "\\n");
		else if (*at == '"' || *at == '\\')
			g_string_append_printf(text, "\\%c", *at);
		else
			g_string_append_c(text, *at);
	}
}

static void begin_sample(GString *text, const char *name, const char *suffix,
			 const PrometheusLabel *labels)
{
	g_string_append_printf(text, "%s%s", name, suffix);
	if (labels == NULL || labels->name == NULL)
		return;
	for (const PrometheusLabel *label = labels; label->name != NULL; label++) {
		g_string_append_printf(text, "%c%s=\"", label == labels ? '{' : ',', label->name);
		append_value(text, label->value);
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

static void append_sample(GString *text, const char *name, const char *suffix,
			  const PrometheusLabel *labels, gdouble value)
{
	begin_sample(text, name, suffix, labels);
	g_string_append_c(text, ' ');
	append_number(text, value);
	g_string_append_c(text, '\n');
}

static void append_count(GString *text, const char *name, const char *suffix,
			 const PrometheusLabel *labels, guint64 count)
{
	begin_sample(text, name, suffix, labels);
	g_string_append_printf(text, " %" G_GUINT64_FORMAT "\n", count);
}

void prometheus_text_add(GString *text, const PrometheusFamily *family,
			 const PrometheusLabel *labels, gdouble value)
{
	append_sample(text, family->name, "", labels, value);
}

void prometheus_text_add_count(GString *text, const PrometheusFamily *family,
			       const PrometheusLabel *labels, guint64 count)
{
	append_count(text, family->name, "", labels, count);
}

static void add_bucket(GString *text, const char *name, gdouble bound, guint64 count)
{
	g_autoptr(GString) number = g_string_new(NULL);

	append_number(number, bound);
	append_count(text, name, "_bucket", (const PrometheusLabel[]){{"le", number->str}, {0}},
		     count);
}

void prometheus_text_add_histogram(GString *text, const PrometheusFamily *family,
				   const gdouble *bounds, const guint64 *counts, guint n,
				   gdouble sum)
{
	guint64 count = 0;

	for (guint i = 0; i < n; i++) {
		count += counts[i];
		add_bucket(text, family->name, i + 1 < n ? bounds[i] : (gdouble)INFINITY, count);
	}
	append_sample(text, family->name, "_sum", NULL, sum);
	append_count(text, family->name, "_count", NULL, count);
}
