/* SPDX-License-Identifier: Apache-2.0 */

/* snowflaked: handles the command line and signals, and runs a server. */
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "common/log.h"
#include "common/tls/stream.h"
#include "common/version.h"
#include "core/text.h"
#include "gen-c_glib/generated-types.h"
#include "options/options-table.h"
#include "server/server.h"

#define EXIT_WRONG_USE 2

/* Buffers of this size or more are returned to the system when they are freed. This is glibc's
 * initial limit, which would otherwise rise to the size of the largest buffer so far. Smaller
 * buffers are often needed, for each connection that is cut off. */
#define MAPPED_BYTES (128 * 1024)

/* Events */

static gboolean on_event(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer user_data)
{
	Server *self = user_data;
	g_autoptr(GError) error = NULL;
	KeeperStatus status;
	guint64 count;

	/* read this first, so that a later event makes the descriptor readable again */
	if (read(fd, &count, sizeof count) < 0)
		return G_SOURCE_CONTINUE;
	error = source_error(self->source);
	if (error != NULL || !rpc_server_check(self->rpc, &error)) {
		g_main_loop_quit(self->loop);
		return G_SOURCE_CONTINUE;
	}
	/* the server is ready as soon as IDs can be drawn */
	self->source->ops->get_status(self->source, &status);
	if (self->ready || self->service.draining || status.state != KEEPER_SERVING)
		return G_SOURCE_CONTINUE;
	self->ready = TRUE;
	log_event(LOG_READY, log_number("datacenter_id", status.datacenter_id),
		  log_number("worker_id", status.worker_id),
		  log_number("startup_ms", (g_get_monotonic_time() - self->started_us) / 1000));
	if (self->relay != NULL)
		sd_notifyf(0, "READY=1\nSTATUS=relay, serving on %s", self->address);
	else
		sd_notifyf(0, "READY=1\nSTATUS=datacenter %d, worker %d, serving on %s",
			   status.datacenter_id, status.worker_id, self->address);
	return G_SOURCE_CONTINUE;
}

/* The main loop handles signals, so that no signal ends the process before it has released its
 * worker ID. It handles signals that request a stop or a reload, and only logs other signals that
 * would end the process by default. Signals that report a crash (such as SIGSEGV), job control
 * signals and harmless signals keep their default actions. */
static const int STOPS[] = {SIGTERM, SIGINT, SIGQUIT};

/* Signals in addition to the real-time signals. Their default action ends the process, see
 * signal(7). */
static const int OTHERS[] = {SIGHUP, SIGUSR1, SIGUSR2,   SIGALRM, SIGVTALRM, SIGPROF,
			     SIGIO,  SIGPWR,  SIGSTKFLT, SIGXCPU, SIGXFSZ};

static sigset_t signal_set(const int *signals, gsize n)
{
	sigset_t set;

	sigemptyset(&set);
	for (gsize i = 0; i < n; i++)
		sigaddset(&set, signals[i]);
	return set;
}

/* Handles a signal. If several signals request the stop at once, only one of them is handled, and
 * signals of other kinds are handled before it. */
static gboolean on_signal(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer user_data)
{
	struct signalfd_siginfo info, stop = {0};
	Server *self = user_data;
	gint64 delay_ms;
	sigset_t set = signal_set(STOPS, G_N_ELEMENTS(STOPS));

	while (read(fd, &info, sizeof info) == sizeof info) {
		int number = (int)info.ssi_signo;

		if (sigismember(&set, number))
			stop = info;
		else if (number == SIGHUP)
			server_reload(self, info.ssi_pid);
		else
			log_event(LOG_SIGNAL_IGNORED, log_text("signal", strsignal(number)),
				  log_number("pid", info.ssi_pid));
	}
	if (stop.ssi_signo == 0)
		return G_SOURCE_CONTINUE;
	delay_ms = self->options->drain_delay_ms;
	log_event(LOG_STOPPING, log_text("signal", strsignal((int)stop.ssi_signo)),
		  log_number("drain_ms", delay_ms));
	server_drain(self, delay_ms + self->options->stop_timeout_ms);
	/* unblock these signals, so that the next one ends the process at once */
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	g_timeout_add_once((guint)delay_ms, (GSourceOnceFunc)g_main_loop_quit, self->loop);
	return G_SOURCE_CONTINUE;
}

/* Handles signals in the default main context. They are blocked in this thread and in those that it
 * starts, so no other threads may exist yet. */
static gboolean watch_signals(Server *self, GError **error)
{
	sigset_t set = signal_set(OTHERS, G_N_ELEMENTS(OTHERS));
	int fd;

	for (gsize i = 0; i < G_N_ELEMENTS(STOPS); i++)
		sigaddset(&set, STOPS[i]);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		sigaddset(&set, number);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK); /* never closed */
	if (fd < 0)
		return text_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
				      "cannot watch for signals: %s", g_strerror(errno));
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	g_unix_fd_add(fd, G_IO_IN, on_signal, self);
	return TRUE;
}

/* The run of the process */

static void log_start(const Server *self)
{
	const Options *options = self->options;
	g_autofree char *layout = layout_to_string(&options->layout);
	g_autofree char *number = g_strdup_printf("%" G_GINT64_FORMAT, self->issuer.worker_id);
	g_autofree char *worker_id = NULL;
	const char *registry = options->relay != NULL        ? "none"
			       : options->zookeeper != NULL  ? options->zookeeper->text
			       : options->postgresql != NULL ? options->postgresql->shown
							     : "files";

	if (options->relay != NULL)
		worker_id = g_strdup("none");
	else if (!options_has_shared_registry(options))
		worker_id = g_strdup(self->issuer.worker_id < 0 ? "0" : number);
	else if (self->issuer.worker_id_derived)
		worker_id = g_strconcat("any, ", number, " first", NULL);
	else
		worker_id = g_strdup(self->issuer.worker_id < 0 ? "any" : number);
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

static int run_with_options(Options *options)
{
	g_autoptr(GError) error = NULL;
	sigset_t reload = signal_set((const int[]){SIGHUP}, 1);
	int failure = EXIT_FAILURE;
	Server server;
	gboolean ok;
	int fd;

	/* open descriptors 0 to 2 if they are closed, so that no socket or record gets one of
	 * them */
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
	log_set_level(options->log_level);
	log_set_format(options->log_format);
	signal(SIGPIPE, SIG_IGN);
	/* SIGHUP stays blocked until watch_signals(), because it reopens files. No other threads
	 * exist yet. */
	pthread_sigmask(SIG_BLOCK, &reload, NULL);
	generated_types_init();
	ok = server_init(&server, options, &error) && watch_signals(&server, &error);
	/* a restart does not help until the options, the certificate, the key or the password are
	 * corrected */
	if (!ok && (error->domain == G_OPTION_ERROR || error->domain == TLS_ERROR ||
		    error->domain == ZOOKEEPER_HOSTS_ERROR))
		failure = EXIT_WRONG_USE;
	if (ok) {
		g_unix_fd_add(server.event_fd, G_IO_IN, on_event, &server);
		log_start(&server);
		ok = server_start(&server, &error);
	}
	if (ok) {
		g_main_loop_run(server.loop);
		server_stop(&server);
		error = source_error(server.source);
		ok = error == NULL && rpc_server_check(server.rpc, &error);
	}
	if (error != NULL)
		log_event(LOG_FAILED, log_text("error", error->message));
	server_clear(&server);
	return ok ? EXIT_SUCCESS : failure;
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
		text = g_strdup_printf("snowflaked %s\n", SNOWFLAKE_VERSION);
	else if (options->print_config)
		text = options_table_sample_config();
	if (text == NULL)
		return run_with_options(options);
	if (fputs(text, stdout) >= 0 && fflush(stdout) == 0)
		return EXIT_SUCCESS;
	fprintf(stderr, "snowflaked: cannot write to standard output: %s\n", g_strerror(errno));
	return EXIT_FAILURE;
}
