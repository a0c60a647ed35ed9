/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include <errno.h>
#include <grp.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "admin/http.h"
#include "common/address.h"
#include "common/log.h"
#include "common/socket.h"
#include "common/tls/client.h"
#include "common/version.h"
#include "core/text.h"
#include "options/options-table.h"
#include "server/codecs.h"

/* Number of descriptors that connections cannot use, because they are for listeners, loops, state
 * files, the log, and connections that are closing to make room. */
#define SPARE_DESCRIPTORS (64 + CONNECTION_LIMITS_MOST_CLOSING)

/* If the server is full, it can close a connection that has been idle for at least this long. */
#define IDLE_MS 10000

/* Sockets */

#define ADMIN_NAME "admin" /* FileDescriptorName= */

static void passed_sockets_clear(PassedSockets *self)
{
	g_clear_pointer(&self->thrift, g_array_unref);
	g_clear_pointer(&self->admin, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PassedSockets, passed_sockets_clear)

/* Takes over the passed sockets. Call it once, before other threads exist. Leaves their names in
 * the environment, because a reload checks the options against them. Child processes ignore these
 * variables, because LISTEN_PID differs. Returns %FALSE with a GFileError set if a descriptor is
 * not such a socket. */
static gboolean take_passed_sockets(PassedSockets *out_sockets, GError **error)
{
	g_auto(PassedSockets) sockets = {
		.thrift = g_array_new(FALSE, FALSE, sizeof(int)),
		.admin = g_array_new(FALSE, FALSE, sizeof(int)),
	};
	g_auto(GStrv) names = NULL;
	int count = sd_listen_fds_with_names(FALSE, &names);

	if (count < 0)
		return text_set_error(error, G_FILE_ERROR, g_file_error_from_errno(-count),
				      "cannot use the sockets in LISTEN_FDS and LISTEN_FDNAMES: %s",
				      g_strerror(-count));
	for (int i = 0; i < count; i++) {
		int fd = SD_LISTEN_FDS_START + i;
		gboolean is_admin = g_str_equal(names[i], ADMIN_NAME);
		g_autofree char *escaped = NULL;

		if (sd_is_socket_inet(fd, AF_UNSPEC, SOCK_STREAM, 1, 0) > 0 ||
		    (!is_admin && sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0)) {
			g_array_append_val(is_admin ? sockets.admin : sockets.thrift, fd);
			continue;
		}
		escaped = text_escape(names[i], strlen(names[i]));
		return text_set_error(
			error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
			"file descriptor %d, passed as \"%s\", is not a listening %s; in the "
			"socket unit, use only ListenStream= with %s",
			fd, escaped, is_admin ? "TCP socket" : "TCP or local stream socket",
			is_admin ? "a port" : "a port or a path");
	}
	*out_sockets = sockets;
	sockets = (PassedSockets){0};
	return TRUE;
}

/* Returns whether there is an admin port: an option gives its address, or a socket for it was
 * passed. */
static gboolean has_admin(const Server *self)
{
	return self->options->admin_listen != NULL || self->sockets.admin->len > 0;
}

/* Returns how many descriptors the server needs in addition to those of Thrift connections. */
static guint own_descriptors(const Server *self)
{
	return 3 * (guint)self->options->threads + SPARE_DESCRIPTORS +
	       (has_admin(self) ? ADMIN_HTTP_DESCRIPTORS : 0);
}

/* Raises the limit of descriptors if possible, and returns the number of connections that it
 * allows. The other descriptors are reserved, because a server that cannot write its record cannot
 * serve connections. */
static guint allowed_connections(const Server *self)
{
	rlim_t most = (rlim_t)self->options->max_connections;
	rlim_t own = own_descriptors(self);
	struct rlimit limit = {0};
	rlim_t connections;

	getrlimit(RLIMIT_NOFILE, &limit); /* fails only if its arguments are invalid */
	/* root can also raise the hard limit */
	if (limit.rlim_cur < most + own &&
	    setrlimit(RLIMIT_NOFILE,
		      &(struct rlimit){most + own, MAX(limit.rlim_max, most + own)}) != 0)
		setrlimit(RLIMIT_NOFILE,
			  &(struct rlimit){MIN(most + own, limit.rlim_max), limit.rlim_max});
	getrlimit(RLIMIT_NOFILE, &limit);
	connections = limit.rlim_cur > own ? limit.rlim_cur - own : 0;
	if (connections >= most)
		return (guint)most;
	log_event(LOG_LIMITS, log_number("file_descriptors", (gint64)limit.rlim_cur),
		  log_number("max_connections", (gint64)connections),
		  log_text("remedy", "raise the limit (ulimit -n, LimitNOFILE=) or lower "
				     "--max-connections"));
	return (guint)connections;
}

/* Thread-safe. Makes the main thread check the source and the loops. */
static void wake_main(gpointer user_data)
{
	Server *self = user_data;
	guint64 one = 1;

	if (write(self->event_fd, &one, sizeof one) < 0 && errno != EAGAIN)
		g_critical("cannot wake the main thread: %s", g_strerror(errno));
}

/* Thread-safe. Makes the loops retry parked calls. */
static void wake_loops(gpointer user_data)
{
	rpc_server_wake(((Server *)user_data)->rpc);
}

/* Called in the keeper's thread. */
static void on_keeper_changed(gpointer user_data)
{
	wake_loops(user_data);
	wake_main(user_data);
}

/* Uses the passed sockets, or opens sockets if none were passed. */
static gboolean find_sockets(Server *self, GError **error)
{
	const Options *options = self->options;
	const GArray *passed = self->sockets.thrift;
	GPtrArray *listeners = rpc_server_listeners(self->rpc);
	SocketFileAccess access = {.mode = options->socket_mode, .gid = (gid_t)-1};
	const char *name = options->socket_group; /* a name or a number */
	gboolean is_open = TRUE;
	guint64 number;

	if (passed->len == 0) {
		if (name != NULL && text_parse_number(name, 10, 0, (gid_t)-1 - 1, &number)) {
			access.gid = (gid_t)number;
		} else if (name != NULL) {
			const struct group *group = getgrnam(name);
			g_autofree char *escaped = text_escape(name, strlen(name));

			if (group == NULL)
				return text_set_error(
					error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
					"--socket-group: the group \"%s\" does not exist; use "
					"a group from \"getent group\"",
					escaped);
			access.gid = group->gr_gid;
		}
		for (guint i = 0; is_open && i < options->listen->len; i++) {
			const Address *address = options->listen->pdata[i];

			is_open = address->path != NULL
					  ? listener_open_local(address->path, &access, listeners,
								error)
					  : listener_open(address->host, address->port,
							  address->is_tls, listeners, error);
		}
		return is_open;
	}
	if (address_any_is_tls(options->listen))
		return text_set_error(
			error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
			"--listen: tls: has no effect on passed sockets, which would accept calls "
			"without TLS; disable snowflaked.socket, or remove tls:");
	for (guint i = 0; i < passed->len; i++) {
		int fd = g_array_index(passed, int, i);
		g_autofree char *end = socket_name_local(fd);
		g_autofree char *text = g_strconcat("the passed socket ", end, NULL);
		g_autoptr(Address) address = address_parse_listen(end, NULL);

		if (address != NULL && !address_is_local(address) &&
		    !options_check_reachable(options, text, error))
			return FALSE;
		listener_adopt(fd, listeners);
	}
	log_event(LOG_SOCKETS_PASSED, log_number("count", passed->len),
		  log_text("meaning", "the server accepts calls there, and ignores --listen"));
	return TRUE;
}

/* The certificate */

#define DAY_MS  (24 * 60 * 60 * G_GINT64_CONSTANT(1000))
#define SOON_MS (30 * DAY_MS)

/* Warns if the certificate expires soon. */
static gboolean on_certificate_day(gpointer user_data)
{
	const Server *self = user_data;
	gint64 left_ms = atomic_load(&self->certificate_expires_ms) - g_get_real_time() / 1000;

	if (left_ms < SOON_MS)
		log_event(LOG_CERTIFICATE_ENDS_SOON,
			  log_text("file", self->options->tls_certificate),
			  log_text("expires", self->certificate_expires),
			  log_number("days_left", left_ms / DAY_MS),
			  log_text("meaning", "after that, clients refuse it; replace the files of "
					      "--tls-certificate and --tls-key, then send SIGHUP"));
	return G_SOURCE_CONTINUE;
}

/* Reads the certificate and its key as a pair, for handshakes that begin afterwards; open
 * connections stay. Also reads and checks the files for calls to other servers: common/tls/client.h
 * describes when they take effect. Does nothing without TLS. Returns %FALSE with an error set if a
 * file is invalid; the previous files of its group then stay in use. */
static gboolean read_certificates(Server *self, GError **error)
{
	const Options *options = self->options;
	const TlsNames names = options_tls_names(options);
	gboolean has_client = (options->relay != NULL || options_has_shared_registry(options)) &&
			      (names.ca != NULL || names.certificate != NULL);
	g_autoptr(TlsContext) context = NULL;
	g_autoptr(TlsClient) client = NULL;
	g_autoptr(GDateTime) time = NULL;
	gint64 expires_ms = G_MAXINT64;

	if (address_any_is_tls(options->listen)) {
		context = tls_context_new_server(options->tls_certificate, options->tls_key,
						 options->tls_client_ca, error);
		if (context == NULL)
			return FALSE;
		rpc_server_set_tls(self->rpc, context);
		expires_ms = context->expires_ms;
	}
	if (has_client)
		client = tls_client_new(&names, error);
	if (context == NULL && client != NULL)
		expires_ms = tls_client_expires_ms(client);
	if (context != NULL || client != NULL)
		atomic_store(&self->certificate_expires_ms, expires_ms);
	if (expires_ms != G_MAXINT64) {
		time = g_date_time_new_from_unix_utc(expires_ms / 1000);
		g_free(self->certificate_expires);
		self->certificate_expires = time != NULL
						    ? g_date_time_format(time, "%Y-%m-%dT%H:%M:%SZ")
						    : g_strdup("?");
		log_event(LOG_CERTIFICATE, log_text("file", options->tls_certificate),
			  log_text("expires", self->certificate_expires));
		on_certificate_day(self);
	}
	return !has_client || client != NULL;
}

/* The parts */

/* Sets the address at which others reach this server: the one in the option, or the one on which it
 * listens, with this machine's name in place of a wildcard. A passed socket has no other
 * address. */
static void set_address(Server *self)
{
	const Options *options = self->options;
	g_autoptr(Address) bound = NULL;
	g_autofree char *name = NULL;
	char *text;

	if (options->advertise != NULL) {
		self->address = g_strdup(options->advertise->text);
		return;
	}
	self->address = text = rpc_server_address(self->rpc);
	/* the wildcard can be the address of a name, or a number that only the resolver
	 * understands, such as 0x0 */
	bound = address_parse_listen(text, NULL);
	if (bound == NULL || !address_is_everywhere(bound))
		return;
	/* the kernel allows any bytes in a host name, but records and replies do not */
	name = g_utf8_make_valid(g_get_host_name(), -1);
	/* use the actual port, because the option can be 0 */
	self->address = g_strconcat(bound->is_tls ? ADDRESS_TLS_PREFIX : "", name,
				    strrchr(text, ':'), NULL);
	g_free(text);
}

static gboolean make_rpc_server(Server *self, GError **error)
{
	const Options *options = self->options;
	const RpcServerConfig config = {
		.service = codecs_service(&self->service, !options->no_fast_path),
		.limits =
			{
				.max_frame_bytes = (gsize)options->max_frame_bytes,
				.max_depth = (guint)options->max_depth,
				.max_pending_bytes = (gsize)options->max_pending_bytes,
				.max_wait_ms = options->max_wait_ms,
				.turn_ids = source_max_batch(self->source),
				.batches_apart = self->source->batches_apart,
				.frame_timeout_ms = options->frame_timeout_ms,
				.write_timeout_ms = options->write_timeout_ms,
				.idle_timeout_ms = options->idle_timeout_ms,
			},
		.handshake_timeout_ms = options->frame_timeout_ms,
		.n_loops = (guint)options->threads,
		.connections =
			{
				.max_connections = allowed_connections(self),
				.max_per_address = (guint)options->max_connections_per_address,
				/* longer than a client stays silent while it waits for an answer */
				.idle_ms = (guint)MAX(IDLE_MS, options->max_wait_ms + 1000),
				.is_idle = connection_limits_is_idle,
			},
		.failed = wake_main,
		.user_data = self,
	};

	if (config.connections.max_connections == 0)
		return text_set_error(
			error, G_FILE_ERROR, G_FILE_ERROR_MFILE,
			"too few file descriptors: the server needs %u, plus one for each "
			"connection; raise the limit (ulimit -n, LimitNOFILE=)",
			own_descriptors(self));
	self->rpc = rpc_server_new(&config, self->counters, error);
	if (self->rpc == NULL)
		return FALSE;
	rpc_server_set_access(self->rpc, options->allow, config.connections.max_per_address);
	if (!find_sockets(self, error) || !read_certificates(self, error))
		return FALSE;
	set_address(self);
	return TRUE;
}

static gboolean make_source(Server *self, GError **error)
{
	const RelayListener listener = {wake_loops, wake_main, self};

	if (self->options->relay != NULL) {
		uuid_to_text(uuid_random(), self->nonce);
		self->relay = relay_source_new(self->options, self->nonce, &listener, error);
		if (self->relay == NULL)
			return FALSE;
		self->source = relay_source_get(self->relay);
	} else {
		if (!issuer_init(&self->issuer, self->options, error))
			return FALSE;
		issuer_source_init(&self->issuer_source, self->issuer.generator);
		self->source = &self->issuer_source.source;
		g_strlcpy(self->nonce, self->issuer.nonce, sizeof self->nonce);
	}
	uuid_generator_init(&self->ulids, self->source->clock);
	return TRUE;
}

gboolean server_init(Server *self, Options *options, GError **error)
{
	*self = (Server){
		.options = options,
		.started_us = g_get_monotonic_time(),
		.certificate_expires_ms = G_MAXINT64,
		.counters = counter_set_new(),
		.agents = agent_counters_new(),
		.loop = g_main_loop_new(NULL, FALSE),
		.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	if (self->event_fd < 0)
		return text_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
				      "cannot create an eventfd: %s", g_strerror(errno));
	if (!take_passed_sockets(&self->sockets, error) || !make_source(self, error))
		return FALSE;
	self->audit = audit_log_new(options->audit_log, (gsize)options->audit_queue_bytes, error);
	if (self->audit == NULL) {
		g_prefix_error(error, "--audit-log: ");
		return FALSE;
	}
	self->service = (ServiceConfig){
		.source = self->source,
		.ulids = &self->ulids,
		.counters = self->counters,
		.agents = self->agents,
		.audit = self->audit,
		.nonce = self->nonce,
		.max_wait_ms = options->max_wait_ms,
	};
	health_init(&self->health, &self->service);
	if (!make_rpc_server(self, error))
		return FALSE;
	if (has_admin(self)) {
		const AdminConfig admin = {
			.options = self->options,
			.service = &self->service,
			.health = &self->health,
			.rpc = self->rpc,
			.certificate_expires_ms = &self->certificate_expires_ms,
			.started_us = self->started_us,
			.sockets = self->sockets.admin,
		};

		self->admin = admin_new(&admin, error);
		if (self->admin == NULL)
			return FALSE;
	}
	if (self->relay == NULL) { /* the keeper needs the address */
		const IssuerMember member = {.address = self->address,
					     .version = SNOWFLAKE_VERSION};

		if (!issuer_join(&self->issuer, &member, on_keeper_changed, self, error))
			return FALSE;
		self->issuer_source.keeper = self->issuer.keeper;
	}
	self->service.address = self->address;
	return TRUE;
}

gboolean server_start(Server *self, GError **error)
{
	watchdog_start(&self->watchdog, self->rpc, self->source, &self->health,
		       self->options->relay == NULL && !options_has_shared_registry(self->options));
	if (atomic_load(&self->certificate_expires_ms) != G_MAXINT64)
		g_timeout_add_seconds(DAY_MS / 1000, on_certificate_day, self);
	if (!audit_log_start(self->audit, error) ||
	    (self->admin != NULL && !admin_start(self->admin, error)) ||
	    !rpc_server_start(self->rpc, error))
		return FALSE;
	self->source->ops->start(self->source);
	return TRUE;
}

/* Reload */

/* Applies the options that are reread, and logs other options that differ. */
static void take_options(Server *self, const Options *next, guint sender)
{
	Options *options = self->options;
	LogLevel before = options->log_level;
	g_autoptr(GString) changed = g_string_new(NULL);
	g_autoptr(GString) needs_restart = g_string_new(NULL);

	for (guint i = 0; i < OPTIONS_TABLE_LENGTH; i++) {
		const OptionSpec *spec = &OPTIONS_TABLE[i];
		GString *names = spec->reread ? changed : needs_restart;
		g_autofree char *old_text = options_text_of(options, spec);
		g_autofree char *text = options_text_of(next, spec);

		if (g_strcmp0(old_text, text) == 0)
			continue;
		g_string_append_printf(names, "%s%s", names->len > 0 ? "," : "", spec->name);
		if (!spec->reread)
			continue;
		if (spec->type == OPTION_ALLOW) {
			allow_list_unref(options->allow);
			options->allow = allow_list_ref(next->allow);
			continue;
		}
		g_assert(spec->type == OPTION_NUMBER || spec->type == OPTION_CHOICE);
		memcpy((char *)options + spec->offset, (const char *)next + spec->offset,
		       spec->type == OPTION_NUMBER ? sizeof(gint64) : sizeof(guint));
	}
	/* if the new level suppresses this line, it takes effect only after the line */
	log_set_level(MAX(before, options->log_level));
	log_event(LOG_RELOAD, log_number("pid", sender),
		  log_text("changed", changed->len > 0 ? changed->str : "none"),
		  log_text("needs_restart", needs_restart->len > 0 ? needs_restart->str : "none"));
	log_set_level(options->log_level);
	rpc_server_set_access(self->rpc, options->allow,
			      (guint)options->max_connections_per_address);
	/* other reread options, such as drain-delay, are read whenever they are needed */
}

void server_reload(Server *self, guint sender)
{
	g_autoptr(GError) error = NULL;
	g_autoptr(Options) next = options_new_from_args((int)g_strv_length(self->options->args),
							self->options->args, &error);

	audit_log_reopen(self->audit);
	/* Names in --allow are compared with clients' certificates, which a server requests only if
	 * it was started with --tls-client-ca. Without it, such a list would admit no client. */
	if (next != NULL && allow_list_has_names(next->allow) &&
	    self->options->tls_client_ca == NULL)
		g_set_error_literal(&error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
				    "allow: " ALLOW_LIST_NAME_PREFIX
				    "NAME requires tls-client-ca, which is read only at the start; "
				    "restart the server");
	if (error == NULL) {
		take_options(self, next, sender);
		read_certificates(self, &error);
	}
	if (error != NULL)
		log_event(LOG_RELOAD_FAILED, log_number("pid", sender),
			  log_text("error", error->message));
}

/* Stop */

/* The minimum time for the release and the audit log, even if --stop-timeout is short or used
 * up. */
#define LAST_STEPS_LEAST_MS 1000

/* The time that a stop can take in addition to its options: for the last answers and replies,
 * LAST_STEPS_LEAST_MS, the end of the keeper and of its session, and a margin. */
#define STOP_SPARE_MS 5000

void server_drain(Server *self, gint64 within_ms)
{
	self->service.draining = TRUE;
	sd_notifyf(0, "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=%" G_GINT64_FORMAT,
		   1000 * (within_ms + STOP_SPARE_MS));
}

void server_stop(Server *self)
{
	CounterSet *counters = self->counters;
	gint64 timeout_ms = self->options->stop_timeout_ms;
	gint64 began_us = g_get_monotonic_time();
	gint64 left_ms;
	gboolean source_ended;

	/* needed again, because after a failure the drain has not begun, or --stop-timeout was
	 * reread */
	server_drain(self, timeout_ms);
	health_note(&self->health, timeout_ms + STOP_SPARE_MS);
	rpc_server_stop(self->rpc, timeout_ms);
	if (self->admin != NULL)
		admin_stop(self->admin);
	/* no IDs are drawn from here on */
	left_ms = MAX(timeout_ms - (g_get_monotonic_time() - began_us) / 1000, LAST_STEPS_LEAST_MS);
	audit_log_finish(self->audit, g_get_monotonic_time() + left_ms * 1000);
	source_ended = self->source->ops->stop(self->source, left_ms);
	audit_log_join(self->audit);
	log_tell_suppressed();
	log_event(LOG_STOPPED,
		  log_number("ids", (gint64)counter_set_sum(counters, COUNTER_IDS_GENERATED)),
		  log_number("calls", (gint64)counter_set_sum(counters, COUNTER_CALLS)),
		  log_number("exceptions", (gint64)counter_set_sum(counters, COUNTER_EXCEPTIONS)),
		  log_number("uptime_s",
			     (g_get_monotonic_time() - self->started_us) / G_USEC_PER_SEC));
	if (source_ended)
		return;
	log_event(LOG_FAILED, log_text("error", "the worker ID was not released in time"));
	_exit(EXIT_FAILURE); /* the keeper's thread may still use the objects that would be freed */
}

void server_clear(Server *self)
{
	g_clear_pointer(&self->admin, admin_free);
	/* free these first, because their threads call the RPC server */
	g_clear_pointer(&self->issuer.keeper, keeper_free);
	g_clear_pointer(&self->relay, relay_source_free);
	g_clear_pointer(&self->rpc, rpc_server_free);
	passed_sockets_clear(&self->sockets);
	g_clear_pointer(&self->audit, audit_log_free);
	if (self->source != NULL)
		uuid_generator_clear(&self->ulids);
	issuer_clear(&self->issuer);
	watchdog_clear(&self->watchdog);
	g_free(self->certificate_expires);
	g_clear_pointer(&self->agents, agent_counters_free);
	g_clear_pointer(&self->counters, counter_set_free);
	g_clear_pointer(&self->loop, g_main_loop_unref);
	g_clear_pointer(&self->address, g_free);
	if (self->event_fd >= 0)
		close(self->event_fd);
}
