/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures the cost of an ID without the network. Every round measures each case once, one after
 * the other, so that other activity on the machine affects all cases equally.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench/generator/measure.h"

#define DEFAULT_ROUNDS 9
#define MAX_ROUNDS     10000

/* Each case takes a few tens of milliseconds. */
static const MeasureCase cases[] = {
	{"clock", SUBJECT_CLOCK, 1, 1, 1000},
	{"generator", SUBJECT_GENERATOR, 1, 1, 1000},
	{"generator", SUBJECT_GENERATOR, 1, 64, 32000},
	{"generator", SUBJECT_GENERATOR, 1, 1000, 64000},
	{"generator", SUBJECT_GENERATOR, 2, 1, 1000},
	{"generator", SUBJECT_GENERATOR, 2, 64, 32000},
	{"generator", SUBJECT_GENERATOR, 2, 1000, 64000},
	{"generator-seconds", SUBJECT_SECONDS, 1, 1, 1000},
	{"generator-seconds", SUBJECT_SECONDS, 1, 64, 32000},
	{"generator-seconds", SUBJECT_SECONDS, 2, 1, 1000},
	{"generator-seconds", SUBJECT_SECONDS, 2, 64, 32000},
	{"original-c", SUBJECT_ORIGINAL, 1, 1, 1000},
	{"original-c", SUBJECT_ORIGINAL, 2, 1, 500},
	{"original-c-12-bits", SUBJECT_ORIGINAL_12BIT, 1, 1, 200},
	{"ulid", SUBJECT_ULID, 1, 1, 1000},
	{"ulid", SUBJECT_ULID, 1, 64, 6400},
	{"ulid", SUBJECT_ULID, 2, 1, 1000},
	{"ulid", SUBJECT_ULID, 2, 64, 6400},
	{"ulid-text", SUBJECT_ULID_TEXT, 1, 1, 1000},
	{"ulid-text", SUBJECT_ULID_TEXT, 1, 64, 3200},
	{"ulid-text", SUBJECT_ULID_TEXT, 2, 1, 1000},
	{"ulid-text", SUBJECT_ULID_TEXT, 2, 64, 3200},
	{"ulid-monotonic", SUBJECT_ULID_MONOTONIC, 1, 1, 1000},
	{"ulid-monotonic", SUBJECT_ULID_MONOTONIC, 1, 64, 16000},
	{"ulid-monotonic", SUBJECT_ULID_MONOTONIC, 2, 1, 1000},
	{"ulid-monotonic", SUBJECT_ULID_MONOTONIC, 2, 64, 16000},
	{"ulid-monotonic-text", SUBJECT_ULID_MONOTONIC_TEXT, 1, 1, 1000},
	{"ulid-monotonic-text", SUBJECT_ULID_MONOTONIC_TEXT, 1, 64, 6400},
	{"ulid-monotonic-text", SUBJECT_ULID_MONOTONIC_TEXT, 2, 1, 1000},
	{"ulid-monotonic-text", SUBJECT_ULID_MONOTONIC_TEXT, 2, 64, 6400},
};

#define N_CASES G_N_ELEMENTS(cases)

typedef struct {
	double median;
	double min;
	double max;
} Spread;

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a;
	double right = *(const double *)b;

	return (left > right) - (left < right);
}

/* Sorts the values, and returns their spread. */
static Spread spread(double *values, guint n_values)
{
	qsort(values, n_values, sizeof(*values), compare);
	return (Spread){
		.median = (values[(n_values - 1) / 2] + values[n_values / 2]) / 2,
		.min = values[0],
		.max = values[n_values - 1],
	};
}

static void print_text(const Spread ns_per_id[static N_CASES])
{
	printf("%-20s %7s %6s %8s %8s %8s %10s\n", "", "threads", "batch", "ns/ID", "min", "max",
	       "million/s");
	for (guint i = 0; i < N_CASES; i++) {
		printf("%-20s %7u %6u %8.2f %8.2f %8.2f %10.1f\n", cases[i].name,
		       cases[i].n_threads, cases[i].batch, ns_per_id[i].median, ns_per_id[i].min,
		       ns_per_id[i].max, 1e3 / ns_per_id[i].median);
	}
}

static void print_json(const Spread ns_per_id[static N_CASES], guint n_rounds)
{
	printf("{\"rounds\": %u, \"cases\": [\n", n_rounds);
	for (guint i = 0; i < N_CASES; i++) {
		Spread ns = ns_per_id[i];

		printf("  {\"name\": \"%s\", \"threads\": %u, \"batch\": %u, "
		       "\"ns_per_id\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}, "
		       "\"ids_per_s\": {\"median\": %.0f, \"min\": %.0f, \"max\": %.0f}}%s\n",
		       cases[i].name, cases[i].n_threads, cases[i].batch, ns.median, ns.min, ns.max,
		       1e9 / ns.median, 1e9 / ns.max, 1e9 / ns.min, i + 1 < N_CASES ? "," : "");
	}
	printf("]}\n");
}

static void measure_all(guint n_rounds, Spread out_ns_per_id[static N_CASES])
{
	g_autofree double *rounds = g_new(double, N_CASES *n_rounds);

	for (guint round = 0; round < n_rounds; round++) {
		for (guint i = 0; i < N_CASES; i++)
			rounds[i * n_rounds + round] = measure_ns_per_id(&cases[i]);
	}
	for (guint i = 0; i < N_CASES; i++)
		out_ns_per_id[i] = spread(&rounds[i * n_rounds], n_rounds);
}

int main(int argc, char **argv)
{
	int n_rounds = DEFAULT_ROUNDS;
	gboolean json = FALSE;
	const GOptionEntry entries[] = {
		{"rounds", 0, 0, G_OPTION_ARG_INT, &n_rounds, "Rounds, 1 to 10000 (9)", "N"},
		{"json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL},
		{0},
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;
	Spread ns_per_id[N_CASES];

	g_option_context_set_summary(context, "Measures what an ID costs, without the network.");
	g_option_context_add_main_entries(context, entries, NULL);
	if (!g_option_context_parse(context, &argc, &argv, &error)) {
		fprintf(stderr, "bench-generator: %s\n", error->message);
		return 2;
	}
	if (argc > 1) {
		fprintf(stderr, "bench-generator: %s is not an option\n", argv[1]);
		return 2;
	}
	if (n_rounds < 1 || n_rounds > MAX_ROUNDS) {
		fprintf(stderr, "bench-generator: --rounds is %d, must be 1 to %d\n", n_rounds,
			MAX_ROUNDS);
		return 2;
	}
	measure_all((guint)n_rounds, ns_per_id);
	if (json)
		print_json(ns_per_id, (guint)n_rounds);
	else
		print_text(ns_per_id);
	return 0;
}
