/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/listener.h"

#include <errno.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "common/address.h"
#include "common/socket.h"

/* Of silence, before a client is asked whether it is there; and as long again for its answer. */
#define KEEPALIVE_S 60

struct _Listener {
	int fd;
	gboolean adopted;
	gboolean is_local;
	gboolean is_tls;
	SocketFile file; /* of a local one that is its own */
	guint source;    /* watches the socket, or waits for the end of a pause; 0: neither */
	ListenerReady ready;
	gpointer user_data;
};

static gboolean set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* A connection, or a socket that listens, and then those that are made from now on. */
static void tune(int fd)
{
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	/* a client that vanished without a word does not count as one for ever */
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S / 4);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

/* A socket that listens at @address, or -1 with errno set. */
static int open_socket(const struct addrinfo *address, gboolean any)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int failure;

	if (fd < 0)
		return -1;
	tune(fd);
	/* "*" is one socket for both families; an IPv6 address is that alone */
	if (set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
	    (address->ai_family != AF_INET6 || set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !any)) &&
	    bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	failure = errno;
	close(fd);
	errno = failure;
	return -1;
}

static Listener *listener_new(int fd)
{
	Listener *self = g_new0(Listener, 1);

	self->fd = fd;
	return self;
}

void listener_withdraw(Listener *self)
{
	socket_file_remove(&self->file);
}

void listener_free(Listener *self)
{
	if (self == NULL)
		return;
	/* while it listens still, so that nobody takes the file for one that was left behind */
	listener_withdraw(self);
	if (self->source != 0)
		g_source_remove(self->source);
	close(self->fd);
	g_free(self);
}

static struct addrinfo *resolve(const char *host, guint16 port, int family, GError **error)
{
	g_autofree char *service = g_strdup_printf("%u", port);
	struct addrinfo hints = {
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
		.ai_family = family,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *addresses = NULL;
	int failure = getaddrinfo(host, service, &hints, &addresses);

	if (failure != 0)
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED, "cannot listen on %s: %s", host,
			    failure == EAI_SYSTEM ? g_strerror(errno) : gai_strerror(failure));
	return addresses;
}

/* An address of a family that this machine has not: no harm if the name has another. */
static gboolean is_absent(int failure)
{
	return failure == EAFNOSUPPORT || failure == EADDRNOTAVAIL;
}

/* %FALSE with errno set if one cannot be opened, or none. */
static gboolean open_all(const struct addrinfo *addresses, gboolean any, GPtrArray *listeners)
{
	guint first = listeners->len;
	int failure = 0;

	for (; addresses != NULL && (failure == 0 || is_absent(failure));
	     addresses = addresses->ai_next) {
		int fd = open_socket(addresses, any);

		if (fd >= 0)
			g_ptr_array_add(listeners, listener_new(fd));
		else
			failure = errno;
	}
	if (listeners->len > first && (failure == 0 || is_absent(failure)))
		return TRUE;
	g_ptr_array_set_size(listeners, (gint)first);
	errno = failure;
	return FALSE;
}

gboolean listener_open(const char *host, guint16 port, GPtrArray *listeners, GError **error)
{
	gboolean any = g_str_equal(host, "*");
	/* "*": IPv6 takes IPv4 in; a machine without IPv6 has IPv4 alone */
	const int families[] = {any ? AF_INET6 : AF_UNSPEC, AF_INET};

	for (guint i = 0; i < (any ? 2 : 1); i++) {
		struct addrinfo *addresses = resolve(any ? NULL : host, port, families[i], error);
		gboolean opened;

		if (addresses == NULL)
			return FALSE;
		opened = open_all(addresses, any, listeners);
		freeaddrinfo(addresses);
		if (opened)
			return TRUE;
		if (!is_absent(errno))
			break;
	}
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno),
		    "cannot listen on %s port %u: %s", host, port, g_strerror(errno));
	return FALSE;
}

static gboolean bind_abstract(int fd, const char *path)
{
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(path, &address);

	return bind(fd, (const struct sockaddr *)&address, length) == 0 &&
	       listen(fd, SOMAXCONN) == 0;
}

/* The name goes with its last socket, so nobody leaves it behind. Or -1. */
static int listen_abstract(const char *path, GError **error)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int failure;

	if (fd >= 0 && bind_abstract(fd, path))
		return fd;
	failure = errno;
	g_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure),
		    "cannot listen on unix:%s: %s", path,
		    failure == EADDRINUSE ? "somebody listens there already; use another name"
					  : g_strerror(failure));
	if (fd >= 0)
		close(fd);
	return -1;
}

gboolean listener_open_local(const char *path, const SocketFileAccess *access, GPtrArray *listeners,
			     GError **error)
{
	SocketFile file = {0};
	int fd = *path == '@' ? listen_abstract(path, error)
			      : socket_file_listen(path, access, &file, error);
	Listener *self;

	if (fd < 0)
		return FALSE;
	self = listener_new(fd);
	self->is_local = TRUE;
	self->file = file;
	g_ptr_array_add(listeners, self);
	return TRUE;
}

int listener_fd(const Listener *self)
{
	return self->fd;
}

void listener_adopt(int fd, GPtrArray *listeners)
{
	Listener *self = listener_new(fd);
	int domain = AF_UNSPEC;

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof domain});
	self->is_local = domain == AF_UNIX;
	self->adopted = TRUE;
	g_unix_set_fd_nonblocking(fd, TRUE, NULL);
	g_ptr_array_add(listeners, self);
}

gboolean listener_is_adopted(const Listener *self)
{
	return self->adopted;
}

gboolean listener_is_local(const Listener *self)
{
	return self->is_local;
}

void listener_set_tls(Listener *self)
{
	self->is_tls = TRUE;
}

gboolean listener_is_tls(const Listener *self)
{
	return self->is_tls;
}

/* Whether one socket takes clients on every address of IPv4 and IPv6. [::] is IPv6 only. */
static gboolean takes_both_families(const Listener *self)
{
	struct sockaddr_in6 address = {0};
	socklen_t length = sizeof address;
	int v6_only = 1;

	return getsockname(self->fd, (struct sockaddr *)&address, &length) == 0 &&
	       address.sin6_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr) &&
	       getsockopt(self->fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only,
			  &(socklen_t){sizeof v6_only}) == 0 &&
	       v6_only == 0;
}

char *listener_address(const Listener *self)
{
	g_autofree char *name = socket_name_local(self->fd);
	const char *prefix = self->is_tls ? ADDRESS_TLS_PREFIX : "";

	if (takes_both_families(self))
		return g_strconcat(prefix, "*", strrchr(name, ':'), NULL);
	return g_strconcat(prefix, name, NULL);
}

static gboolean on_pause_over(gpointer user_data)
{
	Listener *self = user_data;

	listener_watch(self, self->ready, self->user_data);
	return G_SOURCE_REMOVE;
}

static gboolean on_acceptable(gint fd G_GNUC_UNUSED, GIOCondition condition G_GNUC_UNUSED,
			      gpointer user_data)
{
	Listener *self = user_data;
	guint pause_ms = self->ready(self, self->user_data);

	if (pause_ms == 0)
		return G_SOURCE_CONTINUE;
	/* the socket stays readable, and the thread would spin */
	self->source = g_timeout_add(pause_ms, on_pause_over, self);
	return G_SOURCE_REMOVE;
}

void listener_watch(Listener *self, ListenerReady ready, gpointer user_data)
{
	g_autoptr(GSource) source = NULL;

	self->ready = ready;
	self->user_data = user_data;
	source = g_unix_fd_source_new(self->fd, G_IO_IN);
	g_source_set_callback(source, G_SOURCE_FUNC(on_acceptable), self, NULL);
	/* else GLib takes the socket out of its poll for as long as the callback runs, and rings
	 * its own bell each time, which is four system calls for each client; nobody runs the main
	 * loop in there */
	g_source_set_can_recurse(source, TRUE);
	self->source = g_source_attach(source, NULL);
}

int listener_accept(const Listener *self, Origin *out_origin)
{
	struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
	socklen_t length = sizeof peer;
	int connection =
		accept4(self->fd, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (connection < 0)
		return -1;
	if (self->adopted && !self->is_local) /* it may have been made before the socket was ours */
		tune(connection);
	*out_origin = origin_of_peer(connection, (const struct sockaddr *)&peer);
	return connection;
}
