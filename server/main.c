/* SPDX-License-Identifier: Apache-2.0 */

/* snowflaked: puts the parts together, runs them, takes them apart. */
#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <locale.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "common/address.h"
#include "common/log.h"
#include "common/zookeeper/auth.h"
#include "core/text.h"
#include "gen-c_glib/generated-types.h"
#include "rpc/server.h"
#include "server/fast-path.h"
#include "server/options-table.h"
#include "server/options.h"
#include "server/service.h"
#include "server/signals.h"
#include "worker/file/registry.h"
#include "worker/zookeeper/registry.h"

#define EXIT_WRONG_USE 2

/* A write that takes longer than this will not come back: a new process may do better. */
#define KEEPER_HANGS_MS 60000

/* Descriptors for anything but connections: listeners, loops, state files, the log; and for those
 * connections that make room for others. */
#define SPARE_DESCRIPTORS (64 + ROSTER_MOST_LEAVING)

/* A connection that is silent for as long may be closed for another, when the server is full. */
#define IDLE_MS 10000

/* A buffer of so many bytes goes back to the system when it is freed. glibc's own limit begins
 * there, and rises to the largest that it has seen. Smaller ones come and go with every connection
 * that is cut off. */
#define MAPPED_BYTES (128 * 1024)

/* For the hand-back, when --stop-timeout is short, or what was in flight took all of it. */
#define HAND_BACK_LEAST_MS 1000

/* What a stop may take beyond its options: the last answers and replies, HAND_BACK_LEAST_MS, the
 * end of the keeper and of its session, and some. */
#define STOP_SPARE_MS 5000

typedef struct {
	const Options *options;
	gint64 started_us; /* monotonic */
	char *nonce;
	char *address; /* where clients reach this server */
	SystemClock clock;
	Generator *generator;
	CounterSet *counters;
	Keeper *keeper;
	ServiceConfig service;
	RpcServer *rpc;
	GMainLoop *loop;
	int news_fd; /* an eventfd: the keeper has news, or an event loop has failed */
	gboolean ready;
} Server;

static void log_failure(const char *message)
{
	g_autofree char *quoted = log_quote(message);

	log_event(LOG_FAILED, "error=%s", quoted);
}

/* Construction */

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void server_clear(Server *self)
{
	g_clear_pointer(&self->keeper, keeper_free);
	g_clear_pointer(&self->rpc, rpc_server_free);
	g_clear_pointer(&self->generator, generator_free);
	g_clear_pointer(&self->counters, counter_set_free);
	g_clear_pointer(&self->loop, g_main_loop_unref);
	g_clear_pointer(&self->address, g_free);
	g_clear_pointer(&self->nonce, g_free);
	close_fd(self->news_fd);
}

/* The descriptors that the process may have, if possible @wanted or more. */
static rlim_t raise_descriptor_limit(rlim_t wanted)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit); /* fails for wrong arguments only */
	if (limit.rlim_cur >= wanted)
		return limit.rlim_cur;
	/* root may raise the hard limit too */
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted, MAX(limit.rlim_max, wanted)}) == 0)
		return wanted;
	wanted = MIN(wanted, limit.rlim_max);
	if (setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted, limit.rlim_max}) == 0)
		return wanted;
	return limit.rlim_cur;
}

/**
 * As many connections as there are descriptors for. The rest is for the server itself: without one
 * to write its record with, it could not go on serving those that are connected.
 *
 * Returns: the number, 0 if there is room for none
 */
static guint allowed_connections(const Options *options)
{
	rlim_t own = 3 * (rlim_t)options->threads + SPARE_DESCRIPTORS;
	rlim_t descriptors = raise_descriptor_limit((rlim_t)options->max_connections + own);
	rlim_t connections = descriptors > own ? descriptors - own : 0;

	if (connections >= (rlim_t)options->max_connections)
		return (guint)options->max_connections;
	log_event(LOG_LIMITS,
		  "file_descriptors=%llu max_connections=%llu remedy=\"raise the limit (ulimit -n, "
		  "LimitNOFILE=) or lower --max-connections\"",
		  (unsigned long long)descriptors, (unsigned long long)connections);
	return (guint)connections;
}

/* Any thread: the main thread looks what is new. */
static void wake_main(gpointer user_data)
{
	Server *self = user_data;
	guint64 one = 1;

	if (write(self->news_fd, &one, sizeof one) < 0 && errno != EAGAIN)
		g_critical("cannot wake the main thread: %s", g_strerror(errno));
}

/* The keeper's thread: what waits for a lease may go on, too. */
static void on_keeper_changed(gpointer user_data)
{
	Server *self = user_data;

	rpc_server_wake(self->rpc);
	wake_main(self);
}

static void make_generator(Server *self)
{
	const GeneratorPolicy policy = {
		.max_ahead_ms = self->options->max_ahead_ms,
		.sequence_start_range = (guint)self->options->sequence_start,
		.max_batch = (guint)self->options->max_batch,
	};

	system_clock_init(&self->clock);
	self->generator = generator_new(&self->options->layout, &self->clock.clock, &policy);
}

/* Also by a name, or a number that only the resolver knows, as 0x0. */
static gboolean is_bound_everywhere(const Server *self, const char *bound)
{
	const Address *first = self->options->listen->pdata[0];
	g_autoptr(Address) address = address_parse(bound, NULL);

	return address_is_everywhere(first) || (address != NULL && address_is_everywhere(address));
}

/* Where it listens; by this machine's name if that is everywhere. */
static char *default_address(const Server *self)
{
	g_autofree char *address = rpc_server_address(self->rpc);
	/* the kernel takes any bytes for a name, records and replies do not */
	g_autofree char *name = g_utf8_make_valid(g_get_host_name(), -1);

	if (!is_bound_everywhere(self, address))
		return g_steal_pointer(&address);
	/* the port is the bound one, which 0 stands for in the options */
	return g_strconcat(name, strrchr(address, ':'), NULL);
}

static gboolean make_rpc_server(Server *self, GError **error)
{
	const Options *options = self->options;
	const RpcServerConfig config = {
		.service =
			{
				.new_handler = service_new,
				.fast_path = options->no_fast_path ? NULL : fast_path_answer,
				.user_data = &self->service,
			},
		.limits =
			{
				.max_frame_bytes = (gsize)options->max_frame_bytes,
				.max_depth = (guint)options->max_depth,
				.max_pending_bytes = (gsize)options->max_pending_bytes,
				.max_wait_ms = options->max_wait_ms,
				.turn_ids = generator_max_batch(self->generator),
				.frame_timeout_ms = options->frame_timeout_ms,
				.write_timeout_ms = options->write_timeout_ms,
				.idle_timeout_ms = options->idle_timeout_ms,
			},
		.n_loops = (guint)options->threads,
		.roster =
			{
				.max_connections = allowed_connections(options),
				.max_per_address = (guint)options->max_connections_per_address,
				/* whoever waits for an answer is silent too */
				.idle_ms = (guint)MAX(IDLE_MS, options->max_wait_ms + 1000),
			},
		.failed = wake_main,
		.user_data = self,
	};

	if (config.roster.max_connections == 0) {
		g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_MFILE,
			    "no file descriptors are left for connections: raise the limit "
			    "(ulimit -n, LimitNOFILE=)");
		return FALSE;
	}
	self->rpc = rpc_server_new(&config, self->counters, error);
	if (self->rpc == NULL)
		return FALSE;
	for (guint i = 0; i < options->listen->len; i++) {
		const Address *address = options->listen->pdata[i];

		if (!rpc_server_listen(self->rpc, address->host, address->port, error))
			return FALSE;
	}
	self->address =
		options->advertise ? g_strdup(options->advertise->text) : default_address(self);
	return TRUE;
}

static Registry *make_registry_file(Server *self)
{
	const Options *options = self->options;
	g_autofree char *directory =
		options->state_directory ? g_canonicalize_filename(options->state_directory, NULL)
					 : file_registry_default_directory();
	const FileRegistryConfig config = {
		.directory = directory,
		.layout = &options->layout,
		.datacenter_id = (guint)MAX(options->datacenter_id, 0),
		.worker_id = (guint)MAX(options->worker_id, 0),
		.nonce = self->nonce,
		.address = self->address,
	};

	if (options->datacenter_id < 0 && options->worker_id < 0) {
		g_autofree char *quoted = log_quote(directory);

		log_event(LOG_DIRECTORY_UNIQUE,
			  "state_directory=%s meaning=\"no --datacenter-id and no --worker-id: IDs "
			  "are unique among the servers on this directory only\"",
			  quoted);
	}
	return file_registry_new(&config);
}

/* Others are told this address. What was given with --advertise is one; a host name may be
 * anything, as the one of a container that is all digits. */
static Address *advertised_address(const Server *self, GError **error)
{
	g_autoptr(GError) local = NULL;
	Address *address = address_parse_peer(self->address, &local);

	if (address == NULL) {
		g_autofree char *name = g_strescape(g_get_host_name(), NULL);

		g_set_error(
			error, local->domain, local->code,
			"nobody could reach this server by the machine's host name \"%s\" (%s): "
			"say where others reach it, with --advertise HOST:PORT",
			name, local->message);
	}
	return address;
}

static Registry *make_registry_zookeeper(Server *self, GError **error)
{
	const Options *options = self->options;
	g_autoptr(Address) address = advertised_address(self, error);
	g_autofree char *auth = NULL;

	if (address == NULL)
		return NULL;
	if (options->zookeeper_auth != NULL) {
		auth = zookeeper_auth_read(options->zookeeper_auth, error);
		if (auth == NULL) {
			g_prefix_error(error, "--zookeeper-auth: ");
			return NULL;
		}
	}

	const ZookeeperRegistryConfig config = {
		.hosts = options->zookeeper,
		.auth = auth,
		.layout = &options->layout,
		.clock = &self->clock,
		.datacenter_id = (guint)options->datacenter_id,
		.worker_id = options->worker_id,
		.nonce = self->nonce,
		.address = address,
		.version = SNOWFLAKE_VERSION,
		.session_timeout_ms = options->session_timeout_ms,
		.connect_timeout_ms = options->connect_timeout_ms,
		.max_length_ms = options->reservation_ms,
		.max_clock_skew_ms = options->max_clock_skew_ms,
		.skip_sanity_checks = options->skip_sanity_checks,
	};

	return zookeeper_registry_new(&config);
}

static gboolean make_keeper(Server *self, GError **error)
{
	const Options *options = self->options;
	Registry *registry = options->zookeeper != NULL ? make_registry_zookeeper(self, error)
							: make_registry_file(self);
	const KeeperConfig config = {
		.max_clock_skew_ms = options->max_clock_skew_ms,
		.reclaim_on_step_back = options->on_clock_step == OPTIONS_CLOCK_STEP_RECLAIM,
		.max_ahead_ms = options->max_ahead_ms,
		.datacenter_id = (gint)MAX(options->datacenter_id, 0),
		.changed = on_keeper_changed,
		.user_data = self,
	};

	if (registry == NULL)
		return FALSE;
	self->keeper = keeper_new(registry, self->generator, &self->clock, &config);
	return TRUE;
}

static gboolean server_init(Server *self, const Options *options, GError **error)
{
	*self = (Server){
		.options = options,
		.started_us = g_get_monotonic_time(),
		.nonce = g_uuid_string_random(),
		.counters = counter_set_new(),
		.loop = g_main_loop_new(NULL, FALSE),
		.news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	if (self->news_fd < 0) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
			    "cannot make an eventfd: %s", g_strerror(errno));
		return FALSE;
	}
	make_generator(self);
	if (!make_rpc_server(self, error) || !make_keeper(self, error))
		return FALSE;
	self->service = (ServiceConfig){
		.generator = self->generator,
		.keeper = self->keeper,
		.counters = self->counters,
		.address = self->address,
		.nonce = self->nonce,
		.max_wait_ms = options->max_wait_ms,
	};
	return TRUE;
}

/* Running */

/* Ready is when IDs can be drawn. */
static void check_ready(Server *self)
{
	KeeperStatus status;

	keeper_get_status(self->keeper, &status);
	if (self->ready || self->service.draining || status.state != KEEPER_SERVING)
		return;
	self->ready = TRUE;
	log_event(LOG_READY, "datacenter_id=%d worker_id=%d startup_ms=%" G_GINT64_FORMAT,
		  status.datacenter_id, status.worker_id,
		  (g_get_monotonic_time() - self->started_us) / 1000);
	sd_notifyf(0, "READY=1\nSTATUS=datacenter %d, worker %d, serving on %s",
		   status.datacenter_id, status.worker_id, self->address);
}

static gboolean on_news(gint fd, GIOCondition condition G_GNUC_UNUSED, gpointer user_data)
{
	Server *self = user_data;
	g_autoptr(GError) error = NULL;
	guint64 count;

	/* first: news that comes after this makes the descriptor readable again */
	if (read(fd, &count, sizeof count) < 0)
		return G_SOURCE_CONTINUE;
	error = keeper_error(self->keeper);
	if (error != NULL || !rpc_server_check(self->rpc, &error))
		g_main_loop_quit(self->loop);
	else
		check_ready(self);
	return G_SOURCE_CONTINUE;
}

static gboolean on_drained(gpointer user_data)
{
	Server *self = user_data;

	g_main_loop_quit(self->loop);
	return G_SOURCE_REMOVE;
}

static void on_signal(int number, gboolean stop, guint sender, gpointer user_data)
{
	Server *self = user_data;
	gint64 delay_ms = self->options->drain_delay_ms;
	g_autofree char *name = log_quote(strsignal(number));

	if (!stop) {
		log_event(LOG_SIGNAL_IGNORED, "signal=%s pid=%u", name, sender);
		return;
	}
	if (self->service.draining) /* by one that does not count twice */
		return;
	self->service.draining = TRUE;
	log_event(LOG_STOPPING, "signal=%s drain_ms=%" G_GINT64_FORMAT, name, delay_ms);
	sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%" G_GINT64_FORMAT,
		   1000 * (delay_ms + self->options->stop_timeout_ms + STOP_SPARE_MS));
	/* whoever asks twice does not want to wait */
	signals_kill_at_next_stop();
	g_timeout_add((guint)delay_ms, on_drained, self);
}

/* Tells systemd that all threads go round, if they do. */
static gboolean on_watchdog(gpointer user_data)
{
	Server *self = user_data;

	if (rpc_server_responds(self->rpc) && keeper_idle_ms(self->keeper) < KEEPER_HANGS_MS)
		sd_notify(0, "WATCHDOG=1");
	return G_SOURCE_CONTINUE;
}

static gboolean add_sources(Server *self, GError **error)
{
	uint64_t watchdog_us = 0;

	if (!signals_watch(on_signal, self, error))
		return FALSE;
	g_unix_fd_add(self->news_fd, G_IO_IN, on_news, self);
	if (sd_watchdog_enabled(0, &watchdog_us) > 0)
		g_timeout_add((guint)MAX(watchdog_us / 2000, 1), on_watchdog, self);
	return TRUE;
}

static void log_start(const Server *self)
{
	const Options *options = self->options;
	g_autofree char *text = layout_to_string(&options->layout);
	g_autofree char *layout = log_quote(text);
	g_autofree char *registry =
		log_quote(options->zookeeper != NULL ? options->zookeeper->text : "files");
	g_autofree char *worker_id =
		options->worker_id < 0 && options->zookeeper != NULL
			? g_strdup("any")
			: g_strdup_printf("%" G_GINT64_FORMAT, MAX(options->worker_id, 0));

	log_event(LOG_STARTING,
		  "version=%s pid=%d registry=%s datacenter_id=%" G_GINT64_FORMAT
		  " worker_id=%s layout=%s threads=%" G_GINT64_FORMAT,
		  SNOWFLAKE_VERSION, getpid(), registry, MAX(options->datacenter_id, 0), worker_id,
		  layout, options->threads);
}

static void log_end(const Server *self)
{
	log_event(LOG_STOPPED,
		  "ids=%" G_GUINT64_FORMAT " calls=%" G_GUINT64_FORMAT
		  " exceptions=%" G_GUINT64_FORMAT " uptime_s=%" G_GINT64_FORMAT,
		  counter_set_sum(self->counters, COUNTER_IDS_GENERATED),
		  counter_set_sum(self->counters, COUNTER_CALLS),
		  counter_set_sum(self->counters, COUNTER_EXCEPTIONS),
		  (g_get_monotonic_time() - self->started_us) / G_USEC_PER_SEC);
}

/* %FALSE: the keeper hangs. */
static gboolean server_stop(Server *self)
{
	gint64 timeout_ms = self->options->stop_timeout_ms;
	gint64 began_us = g_get_monotonic_time();
	gint64 left_ms;

	rpc_server_stop(self->rpc, timeout_ms);
	/* the worker ID is handed back when nobody draws any more */
	left_ms = timeout_ms - (g_get_monotonic_time() - began_us) / 1000;
	return keeper_stop(self->keeper, MAX(left_ms, HAND_BACK_LEAST_MS));
}

static gboolean server_run(Server *self, GError **error)
{
	GError *failure;
	gboolean stopped;

	if (!add_sources(self, error))
		return FALSE;
	log_start(self);
	if (!rpc_server_start(self->rpc, error))
		return FALSE;
	keeper_start(self->keeper);
	g_main_loop_run(self->loop);
	stopped = server_stop(self);
	log_end(self);
	if (!stopped) {
		log_failure("the worker ID was not handed back in time");
		_exit(EXIT_FAILURE); /* its thread may still use all that would be freed */
	}
	failure = keeper_error(self->keeper);
	if (failure == NULL)
		return rpc_server_check(self->rpc, error);
	g_propagate_error(error, failure);
	return FALSE;
}

/* Descriptors 0 to 2 are not for sockets and records, even if whoever started us closed them. */
static void occupy_standard_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	close_fd(fd);
}

static int serve(const Options *options)
{
	g_autoptr(GError) error = NULL;
	Server server;
	gboolean ok;

	occupy_standard_descriptors();
	log_set_level(options->log_level);
	signal(SIGPIPE, SIG_IGN);
	generated_types_init();
	ok = server_init(&server, options, &error) && server_run(&server, &error);
	if (error != NULL)
		log_failure(error->message);
	server_clear(&server);
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Prints @text; an unwritable standard output is a failure. */
static int print(const char *text)
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
	return text != NULL ? print(text) : serve(options);
}
