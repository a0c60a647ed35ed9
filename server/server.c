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
#include "core/text.h"
#include "server/certificates.h"
#include "server/handler.h"

/* Descriptors that are not for connections: listeners, loops, state files, the log; and those of
 * connections that are closing to make room. */
#define SPARE_DESCRIPTORS (64 + CONNECTION_TABLE_MOST_CLOSING)

/* If the server is full, a connection that was silent for this time may be closed. */
#define IDLE_MS 10000

/* Sockets */

#define ADMIN_NAME "admin" /* FileDescriptorName= */

static gboolean check_passed_socket(int fd, const char *name, GError **error)
{
	gboolean is_admin = g_str_equal(name, ADMIN_NAME);
	g_autofree char *escaped = NULL;

	if (sd_is_socket_inet(fd, AF_UNSPEC, SOCK_STREAM, 1, 0) > 0 ||
	    (!is_admin && sd_is_socket_unix(fd, SOCK_STREAM, 1, NULL, 0) > 0))
		return TRUE;
	escaped = text_escape(name, strlen(name));
	g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
		    "file descriptor %d, passed as \"%s\", is no %s that listens: in the socket "
		    "unit, have ListenStream= with %s only",
		    fd, escaped, is_admin ? "TCP socket" : "TCP or local stream socket",
		    is_admin ? "a port" : "a port or a path");
	return FALSE;
}

static void passed_sockets_clear(PassedSockets *self)
{
	g_clear_pointer(&self->thrift, g_array_unref);
	g_clear_pointer(&self->admin, g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PassedSockets, passed_sockets_clear)

/* Takes the sockets once, before there are other threads. Children do not get them again. %FALSE
 * with a GFileError set: a descriptor is no such socket. */
static gboolean take_passed_sockets(PassedSockets *out_sockets, GError **error)
{
	g_auto(PassedSockets) sockets = {
		.thrift = g_array_new(FALSE, FALSE, sizeof(int)),
		.admin = g_array_new(FALSE, FALSE, sizeof(int)),
	};
	g_auto(GStrv) names = NULL;
	int count = sd_listen_fds_with_names(TRUE, &names);

	if (count < 0) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(-count),
			    "cannot take the sockets that LISTEN_FDS and LISTEN_FDNAMES tell of: "
			    "%s",
			    g_strerror(-count));
		return FALSE;
	}
	for (int i = 0; i < count; i++) {
		int fd = SD_LISTEN_FDS_START + i;

		if (!check_passed_socket(fd, names[i], error))
			return FALSE;
		g_array_append_val(
			g_str_equal(names[i], ADMIN_NAME) ? sockets.admin : sockets.thrift, fd);
	}
	*out_sockets = sockets;
	sockets = (PassedSockets){0};
	return TRUE;
}

/* Raises the limit of file descriptors to @wanted, if possible. Returns the limit. */
static rlim_t raise_descriptor_limit(rlim_t wanted)
{
	struct rlimit limit = {0};

	getrlimit(RLIMIT_NOFILE, &limit); /* fails for wrong arguments only */
	/* root may raise the hard limit too */
	if (limit.rlim_cur < wanted &&
	    setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted, MAX(limit.rlim_max, wanted)}) != 0)
		setrlimit(RLIMIT_NOFILE,
			  &(struct rlimit){MIN(wanted, limit.rlim_max), limit.rlim_max});
	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur;
}

/* Whether there is an admin port: an option names it, or a socket for it was passed. */
static gboolean has_admin(const Server *self)
{
	return self->options->admin_listen != NULL || self->sockets.admin->len > 0;
}

/* Returns how many descriptors the server needs besides Thrift connections. */
static guint own_descriptors(const Server *self)
{
	return 3 * (guint)self->options->threads + SPARE_DESCRIPTORS +
	       (has_admin(self) ? ADMIN_HTTP_DESCRIPTORS : 0);
}

/* Returns for how many connections there are descriptors; 0: for none. The server keeps the others
 * for itself: if it could not write its record, it could not serve the connections. */
static guint allowed_connections(const Server *self)
{
	const Options *options = self->options;
	rlim_t own = own_descriptors(self);
	rlim_t descriptors = raise_descriptor_limit((rlim_t)options->max_connections + own);
	rlim_t connections = descriptors > own ? descriptors - own : 0;

	if (connections >= (rlim_t)options->max_connections)
		return (guint)options->max_connections;
	log_event(LOG_LIMITS, log_number("file_descriptors", (gint64)descriptors),
		  log_number("max_connections", (gint64)connections),
		  log_text("remedy", "raise the limit (ulimit -n, LimitNOFILE=) or lower "
				     "--max-connections"));
	return (guint)connections;
}

/* Any thread: has the main thread check the source and the loops. */
static void wake_main(gpointer user_data)
{
	Server *self = user_data;
	guint64 one = 1;

	if (write(self->event_fd, &one, sizeof one) < 0 && errno != EAGAIN)
		g_critical("cannot wake the main thread: %s", g_strerror(errno));
}

/* Any thread: parked calls are tried again. */
static void wake_loops(gpointer user_data)
{
	rpc_server_wake(((Server *)user_data)->rpc);
}

/* The keeper's thread. */
static void on_keeper_changed(gpointer user_data)
{
	wake_loops(user_data);
	wake_main(user_data);
}

/* (transfer full): the address on which it listens, with this machine's name for a wildcard. */
static char *default_address(const Server *self)
{
	g_autofree char *text = rpc_server_address(self->rpc);
	/* the wildcard can be the address of a name, or a number that only the resolver reads, such
	 * as 0x0; a passed socket has no other address */
	g_autoptr(Address) bound = address_parse_listen(text, NULL);
	/* the kernel allows any bytes in a name, records and replies do not */
	g_autofree char *name = g_utf8_make_valid(g_get_host_name(), -1);

	if (bound == NULL || !address_is_everywhere(bound))
		return g_steal_pointer(&text);
	/* the port is the bound one, as the option can be 0 */
	return g_strconcat(bound->is_tls ? ADDRESS_TLS_PREFIX : "", name, strrchr(text, ':'), NULL);
}

/* @text: (nullable): a name or a number; -1: none */
static gboolean find_group(const char *text, gid_t *out_gid, GError **error)
{
	const struct group *group;
	guint64 number = (gid_t)-1;
	g_autofree char *escaped = NULL;

	if (text == NULL || text_parse_number(text, 10, 0, (gid_t)-1 - 1, &number)) {
		*out_gid = (gid_t)number;
		return TRUE;
	}
	group = getgrnam(text);
	if (group != NULL) {
		*out_gid = group->gr_gid;
		return TRUE;
	}
	escaped = text_escape(text, strlen(text));
	g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
		    "--socket-group: there is no group \"%s\" on this machine: name one that "
		    "\"getent group\" lists",
		    escaped);
	return FALSE;
}

static gboolean open_sockets(Server *self, GError **error)
{
	const Options *options = self->options;
	SocketFileAccess access = {.mode = options->socket_mode};
	gboolean opened = find_group(options->socket_group, &access.gid, error);

	for (guint i = 0; opened && i < options->listen->len; i++) {
		const Address *address = options->listen->pdata[i];

		opened = address->path != NULL
				 ? rpc_server_listen_local(self->rpc, address->path, &access, error)
				 : rpc_server_listen(self->rpc, address->host, address->port,
						     address->is_tls, error);
	}
	return opened;
}

/* Uses the passed sockets, or opens its own. */
static gboolean find_sockets(Server *self, GError **error)
{
	const GArray *passed = self->sockets.thrift;

	if (passed->len == 0)
		return open_sockets(self, error);
	if (address_any_is_tls(self->options->listen)) {
		g_set_error_literal(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
				    "--listen: tls: has no effect on the sockets that were passed, "
				    "by systemd, say, where calls would be taken without TLS: "
				    "disable snowflaked.socket, or leave tls: out");
		return FALSE;
	}
	for (guint i = 0; i < passed->len; i++)
		rpc_server_adopt(self->rpc, g_array_index(passed, int, i));
	log_event(LOG_SOCKETS_PASSED, log_number("count", passed->len),
		  log_text("meaning", "calls are taken there, and not where --listen says"));
	return TRUE;
}

static gboolean make_rpc_server(Server *self, GError **error)
{
	const Options *options = self->options;
	const RpcServerConfig config = {
		.service = handler_service(&self->service, !options->no_fast_path),
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
				/* a client that waits for an answer is silent too */
				.idle_ms = (guint)MAX(IDLE_MS, options->max_wait_ms + 1000),
				.is_idle = connection_table_is_idle,
			},
		.failed = wake_main,
		.user_data = self,
	};

	if (config.connections.max_connections == 0) {
		g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_MFILE,
			    "no file descriptors are left for connections: the server itself needs "
			    "%u, and each connection one more; raise the limit (ulimit -n, "
			    "LimitNOFILE=)",
			    own_descriptors(self));
		return FALSE;
	}
	self->rpc = rpc_server_new(&config, self->counters, error);
	if (self->rpc == NULL)
		return FALSE;
	rpc_server_set_allow(self->rpc, options->allow);
	if (!find_sockets(self, error) || !certificates_read(self, error))
		return FALSE;
	self->address =
		options->advertise ? g_strdup(options->advertise->text) : default_address(self);
	return TRUE;
}

static gboolean make_admin(Server *self, GError **error)
{
	const AdminConfig config = {
		.options = self->options,
		.service = &self->service,
		.health = &self->health,
		.rpc = self->rpc,
		.certificate_expires_ms = &self->certificate_expires_ms,
		.started_us = self->started_us,
		.sockets = self->sockets.admin,
	};

	if (!has_admin(self))
		return TRUE;
	self->admin = admin_new(&config, error);
	return self->admin != NULL;
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
	ulid_generator_init(&self->ulids, self->source->clock);
	return TRUE;
}

/* Makes the keeper, which needs the address. */
static gboolean join_registry(Server *self, GError **error)
{
	const IssuerMember member = {.address = self->address, .version = SNOWFLAKE_VERSION};

	if (self->relay != NULL)
		return TRUE;
	if (!issuer_join(&self->issuer, &member, on_keeper_changed, self, error))
		return FALSE;
	issuer_source_join(&self->issuer_source, self->issuer.keeper);
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
	if (self->event_fd < 0) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
			    "cannot make an eventfd: %s", g_strerror(errno));
		return FALSE;
	}
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
	if (!make_rpc_server(self, error) || !make_admin(self, error) ||
	    !join_registry(self, error))
		return FALSE;
	self->service.address = self->address;
	return TRUE;
}

void server_clear(Server *self)
{
	g_clear_pointer(&self->admin, admin_free);
	/* the threads of both call the RPC server */
	g_clear_pointer(&self->issuer.keeper, keeper_free);
	g_clear_pointer(&self->relay, relay_source_free);
	g_clear_pointer(&self->rpc, rpc_server_free);
	passed_sockets_clear(&self->sockets);
	g_clear_pointer(&self->audit, audit_log_free);
	if (self->source != NULL)
		ulid_generator_clear(&self->ulids);
	issuer_clear(&self->issuer);
	watchdog_clear(&self->watchdog);
	g_clear_pointer(&self->agents, agent_counters_free);
	g_clear_pointer(&self->counters, counter_set_free);
	g_clear_pointer(&self->loop, g_main_loop_unref);
	g_clear_pointer(&self->address, g_free);
	if (self->event_fd >= 0)
		close(self->event_fd);
}
