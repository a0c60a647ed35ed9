/* SPDX-License-Identifier: Apache-2.0 */

/* snowflaked: its command line, and a server while it runs. */
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "common/log.h"
#include "gen-c_glib/generated-types.h"
#include "options/options-table.h"
#include "server/certificates.h"
#include "server/signals.h"

#define EXIT_WRONG_USE 2

/* A buffer of this size or more goes back to the system when it is freed. glibc's own limit begins
 * there, and rises to the largest buffer so far. Smaller buffers come and go with every connection
 * that is cut off. */
#define MAPPED_BYTES (128 * 1024)

/* The server is ready when IDs can be drawn. */
static void check_ready(Server *self)
{
	KeeperStatus status;

	self->source->ops->get_status(self->source, &status);
	if (self->ready || self->service.draining || status.state != KEEPER_SERVING)
		return;
	self->ready = TRUE;
	log_event(LOG_READY, log_number("datacenter_id", status.datacenter_id),
		  log_number("worker_id", status.worker_id),
		  log_number("startup_ms", (g_get_monotonic_time() - self->started_us) / 1000));
	if (self->relay != NULL)
		sd_notifyf(0, "READY=1\nSTATUS=relay, serving on %s", self->address);
	else
		sd_notifyf(0, "READY=1\nSTATUS=datacenter %d, worker %d, serving on %s",
			   status.datacenter_id, status.worker_id, self->address);
}

static gboolean on_event(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer user_data)
{
	Server *self = user_data;
	g_autoptr(GError) error = NULL;
	guint64 count;

	/* first: a later event makes the descriptor readable again */
	if (read(fd, &count, sizeof count) < 0)
		return G_SOURCE_CONTINUE;
	error = self->source->ops->error(self->source);
	if (error != NULL || !rpc_server_check(self->rpc, &error))
		g_main_loop_quit(self->loop);
	else
		check_ready(self);
	return G_SOURCE_CONTINUE;
}

static char *describe_worker_id(const Server *self)
{
	if (self->relay != NULL)
		return g_strdup("none");
	if (self->options->zookeeper == NULL)
		return g_strdup_printf("%" G_GINT64_FORMAT, MAX(self->issuer.worker_id, 0));
	if (self->issuer.worker_id_derived)
		return g_strdup_printf("any, %" G_GINT64_FORMAT " first", self->issuer.worker_id);
	return self->issuer.worker_id < 0
		       ? g_strdup("any")
		       : g_strdup_printf("%" G_GINT64_FORMAT, self->issuer.worker_id);
}

static void log_start(const Server *self)
{
	const Options *options = self->options;
	g_autofree char *layout = layout_to_string(&options->layout);
	g_autofree char *worker_id = describe_worker_id(self);
	const char *registry = options->relay != NULL       ? "none"
			       : options->zookeeper != NULL ? options->zookeeper->text
							    : "files";

	log_event(LOG_STARTING, log_text("version", SNOWFLAKE_VERSION), log_number("pid", getpid()),
		  log_text("registry", registry),
		  log_number("datacenter_id", MAX(options->datacenter_id, 0)),
		  log_text("worker_id", worker_id), log_text("layout", layout),
		  log_number("threads", options->threads));
	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		const char *text = g_hash_table_lookup(options->given, spec->name);

		if (text != NULL && g_strcmp0(text, spec->default_text) != 0)
			log_event(LOG_OPTION, log_text("name", spec->name),
				  log_text("value", text));
	}
}

static gboolean run_server(Server *self, GError **error)
{
	GError *failure;

	if (!signals_watch(self, error))
		return FALSE;
	g_unix_fd_add(self->event_fd, G_IO_IN, on_event, self);
	watchdog_start(&self->watchdog, self->rpc, self->source, &self->health,
		       self->options->relay == NULL && self->options->zookeeper == NULL);
	certificates_watch(self);
	log_start(self);
	if (!audit_log_start(self->audit, error) ||
	    (self->admin != NULL && !admin_start(self->admin, error)) ||
	    !rpc_server_start(self->rpc, error))
		return FALSE;
	self->source->ops->start(self->source);
	g_main_loop_run(self->loop);
	signals_stop_threads(self);
	failure = self->source->ops->error(self->source);
	if (failure == NULL)
		return rpc_server_check(self->rpc, error);
	g_propagate_error(error, failure);
	return FALSE;
}

/* Opens descriptors 0 to 2 if they are closed, so that no socket or record gets one of them. */
static void occupy_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

static int run_with_options(Options *options)
{
	g_autoptr(GError) error = NULL;
	Server server;
	gboolean ok;

	occupy_standard_descriptors();
	log_set_level(options->log_level);
	log_set_format(options->log_format);
	signal(SIGPIPE, SIG_IGN);
	signals_hold_reload();
	generated_types_init();
	ok = server_init(&server, options, &error) && run_server(&server, &error);
	if (error != NULL)
		log_event(LOG_FAILED, log_text("error", error->message));
	server_clear(&server);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Prints @text; an unwritable standard output is a failure. */
static int print_text(const char *text)
{
	if (fputs(text, stdout) < 0 || fflush(stdout) != 0) {
		fprintf(stderr, "snowflaked: cannot write to standard output: %s\n",
			g_strerror(errno));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) options = NULL;
	g_autofree char *text = NULL;

	mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
	setlocale(LC_CTYPE, "");
	options = options_new_from_args(argc, argv, &error);
	if (options == NULL) {
		fprintf(stderr, "snowflaked: %s\n", error->message);
		return EXIT_WRONG_USE;
	}
	if (options->help)
		text = options_table_help();
	else if (options->version)
		text = g_strdup("snowflaked " SNOWFLAKE_VERSION "\n");
	else if (options->print_config)
		text = options_table_sample_config();
	return text != NULL ? print_text(text) : run_with_options(options);
}
