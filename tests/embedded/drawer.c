/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program with an embedded node, controlled by tests:
 *
 *   drawer PROGRAM START-TIMEOUT-MS [NAME=VALUE]...
 *
 * It prints "event=ready" when it has a node, or "event=failed" with the reason, and exits. Its log
 * has the format of snowflaked's. Then it reads commands, and exits normally at the end of file or
 * on SIGTERM:
 *
 *   draw N    answers "run FIRST COUNT" for IDs, N in all, or "refused CODE MESSAGE", then "done 0"
 *   fork N    draws in a thread; meanwhile a child is refused, which answers "child CODE MESSAGE",
 *             makes its own node and draws N IDs; "run ..." of both, then "done STATUS"
 */
#include "node/snowflake-node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DOMAIN "Snowflake" /* the library's */
#define MOST   100         /* IDs in a run */

static const char *const *settings;
static const char *program;
static guint start_timeout_ms;

typedef struct {
	gint64 first;
	guint count;
} Run;

static void print_log(const char *domain G_GNUC_UNUSED, GLogLevelFlags level, const char *message,
		      gpointer user_data G_GNUC_UNUSED)
{
	g_autoptr(GDateTime) now = g_date_time_new_now_utc();
	g_autofree char *seconds = g_date_time_format(now, "%Y-%m-%dT%H:%M:%S");
	g_autofree char *line = g_strdup_printf("%s.%03dZ %s %s\n", seconds,
						g_date_time_get_microsecond(now) / 1000,
						level & G_LOG_LEVEL_DEBUG  ? "debug"
						: level & G_LOG_LEVEL_INFO ? "info"
									   : "warning",
						message);

	if (write(STDERR_FILENO, line, strlen(line)) < 0)
		_exit(EXIT_FAILURE);
}

static SnowflakeNode *make_node(GError **error)
{
	const SnowflakeNodeConfig config = {
		.options = settings,
		.program = program,
		.start_timeout_ms = start_timeout_ms,
	};

	return snowflake_node_new(&config, error);
}

static void print_runs(const GArray *runs)
{
	for (guint i = 0; i < runs->len; i++) {
		const Run *run = &g_array_index(runs, Run, i);

		printf("run %" G_GINT64_FORMAT " %u\n", run->first, run->count);
	}
}

/* Uses both calls, alternately. */
static gboolean draw_some(SnowflakeNode *node, guint most, GArray *runs, GError **error)
{
	Run run = {.count = 1};

	if (runs->len % 2 == 0
		    ? !snowflake_node_next(node, &run.first, error)
		    : !snowflake_node_next_run(node, most, &run.first, &run.count, error))
		return FALSE;
	g_array_append_val(runs, run);
	return TRUE;
}

static guint draw(SnowflakeNode *node, guint n)
{
	g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(Run));
	g_autoptr(GError) error = NULL;
	guint drawn = 0;

	while (drawn < n && draw_some(node, MIN(n - drawn, MOST), runs, &error))
		drawn += g_array_index(runs, Run, runs->len - 1).count;
	print_runs(runs);
	if (error != NULL)
		printf("refused %d %s\n", error->code, error->message);
	return drawn;
}

typedef struct {
	SnowflakeNode *node;
	GArray *runs;
	gint stop; /* atomic */
} Load;

static gpointer run_load(gpointer data)
{
	Load *self = data;
	g_autoptr(GError) error = NULL;

	/* while the node has no IDs, a draw waits for them */
	while (!g_atomic_int_get(&self->stop) &&
	       (draw_some(self->node, MOST, self->runs, &error) ||
		g_error_matches(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_UNAVAILABLE)))
		g_clear_error(&error);
	return NULL;
}

static void G_GNUC_NORETURN run_child(SnowflakeNode *inherited, guint n)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(SnowflakeNode) own = NULL;
	gint64 id;

	if (snowflake_node_next(inherited, &id, &error))
		_exit(EXIT_FAILURE);
	printf("child %d %s\n", error->code, error->message);
	snowflake_node_free(inherited);
	g_clear_error(&error);
	own = make_node(&error);
	if (own == NULL)
		printf("refused %d %s\n", error->code, error->message);
	else if (draw(own, n) == n)
		g_clear_pointer(&own, snowflake_node_free);
	fflush(stdout);
	_exit(own == NULL && error == NULL ? EXIT_SUCCESS : EXIT_FAILURE);
}

static int fork_under_load(SnowflakeNode *node, guint n)
{
	g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(Run));
	Load load = {.node = node, .runs = runs};
	GThread *thread = g_thread_new("load", run_load, &load);
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0)
		run_child(node, n);
	waitpid(child, &status, 0);
	g_atomic_int_set(&load.stop, TRUE);
	g_thread_join(thread);
	print_runs(runs);
	return status;
}

static void obey(SnowflakeNode *node, const char *command)
{
	int status = 0;
	guint n;

	if (sscanf(command, "draw %u", &n) == 1)
		draw(node, n);
	else if (sscanf(command, "fork %u", &n) == 1)
		status = fork_under_load(node, n);
	else
		status = -1;
	printf("done %d\n", status);
	fflush(stdout);
}

/* Interrupts the current read, and makes later reads fail. */
static void on_signal(int number G_GNUC_UNUSED)
{
	close(STDIN_FILENO);
}

int main(int argc, char **argv)
{
	const struct sigaction action = {.sa_handler = on_signal};
	g_autoptr(GError) error = NULL;
	SnowflakeNode *node;
	char command[64];

	if (argc < 3)
		return 2;
	program = argv[1];
	start_timeout_ms = (guint)atoi(argv[2]);
	settings = (const char *const *)argv + 3;
	sigaction(SIGTERM, &action, NULL);
	g_log_set_handler(DOMAIN, G_LOG_LEVEL_MASK, print_log, NULL);
	node = make_node(&error);
	if (node == NULL) {
		g_autofree char *escaped = g_strescape(error->message, NULL);

		g_log(DOMAIN, G_LOG_LEVEL_MESSAGE, "event=failed code=%d error=\"%s\"", error->code,
		      escaped);
		return EXIT_FAILURE;
	}
	g_log(DOMAIN, G_LOG_LEVEL_INFO, "event=ready");
	while (fgets(command, sizeof command, stdin) != NULL)
		obey(node, command);
	snowflake_node_free(node);
	return EXIT_SUCCESS;
}
