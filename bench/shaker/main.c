/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures how many handshakes per second a server with TLS can make, whatever its protocol. Prints
 * their number and the time as JSON. No session is resumed.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/shaker/shaker.h"

#define HOST        "127.0.0.1"
#define MAX_THREADS 64

typedef struct {
	int port;
	int connections;
	int threads;
	double seconds;
	TlsNames names;
} Options;

typedef struct {
	ShakerConfig config;
	gint64 done;
	GError *error;
} Task;

static gboolean parse(int argc, char **argv, Options *options)
{
	const GOptionEntry entries[] = {
		{"port", 0, 0, G_OPTION_ARG_INT, &options->port, "Of the server, on " HOST, "N"},
		{"connections", 0, 0, G_OPTION_ARG_INT, &options->connections,
		 "At once, of each thread (16)", "N"},
		{"threads", 0, 0, G_OPTION_ARG_INT, &options->threads, "Threads (1)", "N"},
		{"seconds", 0, 0, G_OPTION_ARG_DOUBLE, &options->seconds, "For so long (1)", "S"},
		{"ca", 0, 0, G_OPTION_ARG_FILENAME, &options->names.ca, "CA certificates", "FILE"},
		{"certificate", 0, 0, G_OPTION_ARG_FILENAME, &options->names.certificate,
		 "To show the server", "FILE"},
		{"key", 0, 0, G_OPTION_ARG_FILENAME, &options->names.key, "Of that", "FILE"},
		{0},
	};
	g_autoptr(GOptionContext) context = g_option_context_new(NULL);
	g_autoptr(GError) error = NULL;

	g_option_context_set_summary(context, "Shakes hands with a server, over and over.");
	g_option_context_add_main_entries(context, entries, NULL);
	if (!g_option_context_parse(context, &argc, &argv, &error)) {
		fprintf(stderr, "bench-shaker: %s\n", error->message);
		return FALSE;
	}
	if (argc > 1 || options->port < 1 || options->port > G_MAXUINT16 ||
	    options->connections < 1 || options->connections > 10000 || options->threads < 1 ||
	    options->threads > MAX_THREADS || !(options->seconds > 0 && options->seconds <= 3600)) {
		fprintf(stderr,
			"bench-shaker: --port is needed, 1 to 10000 connections, 1 to %d "
			"threads, and up to 3600 seconds\n",
			MAX_THREADS);
		return FALSE;
	}
	return TRUE;
}

static void *run(void *user_data)
{
	Task *task = user_data;

	task->done = shaker_run(&task->config, &task->error);
	return NULL;
}

/* Returns whether no thread has failed. */
static gboolean run_all(const ShakerConfig *config, int n, gint64 *out_done)
{
	Task tasks[MAX_THREADS] = {0};
	GThread *threads[MAX_THREADS];
	gboolean good = TRUE;

	for (int i = 0; i < n; i++) {
		tasks[i].config = *config;
		threads[i] = g_thread_new("shaker", run, &tasks[i]);
	}
	*out_done = 0;
	for (int i = 0; i < n; i++) {
		g_thread_join(threads[i]);
		if (tasks[i].error != NULL && good) {
			fprintf(stderr, "bench-shaker: %s\n", tasks[i].error->message);
			good = FALSE;
		}
		g_clear_error(&tasks[i].error);
		*out_done += MAX(tasks[i].done, 0);
	}
	return good;
}

int main(int argc, char **argv)
{
	Options options = {.connections = 16, .threads = 1, .seconds = 1};
	g_autoptr(TlsClient) tls = NULL;
	g_autoptr(GError) error = NULL;
	ShakerConfig config;
	gint64 began_us, done;

	if (!parse(argc, argv, &options))
		return 2;
	tls = tls_client_new(&options.names, &error);
	if (tls == NULL) {
		fprintf(stderr, "bench-shaker: %s\n", error->message);
		return 1;
	}
	began_us = g_get_monotonic_time();
	config = (ShakerConfig){
		.tls = tls,
		.host = HOST,
		.place = {.sin_family = AF_INET, .sin_port = htons((guint16)options.port)},
		.connections = (guint)options.connections,
		.until_us = began_us + (gint64)(options.seconds * 1e6),
	};
	inet_pton(AF_INET, HOST, &config.place.sin_addr);
	if (!run_all(&config, options.threads, &done))
		return 1;
	printf("{\"handshakes\": %" G_GINT64_FORMAT ", \"seconds\": %.6f}\n", done,
	       (double)(g_get_monotonic_time() - began_us) / 1e6);
	tls_names_clear(&options.names);
	return 0;
}
