/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/address.h"
#include "common/socket.h"
#include "core/text.h"

/* How long a client can be silent before it is probed, and how long it then has to answer. */
#define KEEPALIVE_S 60

/* Files of local sockets */

#define LOCK_WAIT_MS  5000
#define LOCK_RETRY_MS 10

/* Sets an error for the errno @number. Returns %FALSE. */
static G_GNUC_PRINTF(4, 5) gboolean
	set_local_error(const char *path, int number, GError **error, const char *format, ...)
{
	va_list arguments;
	g_autofree char *text = NULL;

	va_start(arguments, format);
	text = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	return text_set_error(error, G_IO_ERROR, g_io_error_from_errno(number),
			      "cannot listen on unix:%s: %s", path, text);
}

/* Returns the descriptor that holds the lock of the directory, or -1 with an error set. */
static int lock_directory(const char *path, const char *directory, GError **error)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int number;

	for (guint waited_ms = 0; fd >= 0; waited_ms += LOCK_RETRY_MS) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= LOCK_WAIT_MS)
			break;
		g_usleep(1000 * LOCK_RETRY_MS);
	}
	number = errno;
	if (fd >= 0)
		close(fd);
	if (number == ENOENT)
		set_local_error(path, number, error,
				"the directory %s does not exist; create it, or use another",
				directory);
	else if (number == EWOULDBLOCK)
		set_local_error(path, number, error,
				"cannot lock %s within %d s: another process holds the lock, for "
				"example flock(1) or a server that hung during startup; stop that "
				"process, or use another directory",
				directory, LOCK_WAIT_MS / 1000);
	else
		set_local_error(path, number, error, "cannot open and lock the directory %s: %s",
				directory, g_strerror(number));
	return -1;
}

/* Removes the file at @path if it is a socket on which no process listens. */
static gboolean remove_stale(const char *path, GError **error)
{
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(path, &address);
	struct stat found;
	int fd, number = 0;

	if (lstat(path, &found) != 0)
		return errno == ENOENT ||
		       set_local_error(path, errno, error, "%s", g_strerror(errno));
	if (!S_ISSOCK(found.st_mode))
		return set_local_error(path, EEXIST, error,
				       "a file that is not a socket exists there; remove it, or "
				       "use a different path");
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, length) != 0)
		number = errno;
	if (fd >= 0)
		close(fd);
	/* EAGAIN: a process listens, but its queue of clients is full */
	if (number == 0 || number == EAGAIN)
		return set_local_error(path, EADDRINUSE, error,
				       "another process is already listening there; stop it, or "
				       "use a different path");
	if (number != ECONNREFUSED && number != ENOENT)
		return set_local_error(path, number, error,
				       "cannot check whether another process listens there: %s",
				       g_strerror(number));
	if (unlink(path) != 0 && errno != ENOENT)
		return set_local_error(path, errno, error, "cannot remove the old socket: %s",
				       g_strerror(errno));
	return TRUE;
}

/* Binds @fd to a file that has the given mode from the start. */
static gboolean bind_with_mode(int fd, const char *path, mode_t mode)
{
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(path, &address);
	mode_t before = umask(0);
	gboolean bound =
		fchmod(fd, mode) == 0 && bind(fd, (const struct sockaddr *)&address, length) == 0;
	int number = errno;

	umask(before);
	errno = number;
	return bound;
}

/* Binds @fd to a file, and listens there. The directory must be locked. */
static gboolean open_file(int fd, const char *path, const char *directory,
			  const SocketFileAccess *access, struct stat *out_made, GError **error)
{
	gid_t gid = access->gid;
	gboolean is_bound = bind_with_mode(fd, path, access->mode);

	if (!is_bound && errno == EADDRINUSE) {
		if (!remove_stale(path, error))
			return FALSE;
		is_bound = bind_with_mode(fd, path, access->mode);
	}
	if (!is_bound && errno == EACCES)
		return set_local_error(
			path, errno, error,
			"%s; give the server's user write permission for the directory %s",
			g_strerror(errno), directory);
	if (!is_bound || lstat(path, out_made) != 0)
		return set_local_error(path, errno, error, "%s", g_strerror(errno));
	/* no client can connect before listen(), so the group is set in time */
	if (gid != (gid_t)-1 && fchownat(AT_FDCWD, path, (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW) != 0)
		set_local_error(path, errno, error,
				"cannot change the group of the socket to %u: %s; add the server's "
				"user to this group",
				gid, g_strerror(errno));
	else if (listen(fd, SOMAXCONN) == 0)
		return TRUE;
	else
		set_local_error(path, errno, error, "%s", g_strerror(errno));
	unlink(path);
	return FALSE;
}

/* Sockets */

static gboolean set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* Sets the options of a connection, or of a listening socket, whose later connections inherit them.
 */
static void set_tcp_options(int fd)
{
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	/* detect clients that have vanished */
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_S);
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_S / 4);
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

static Listener *listener_new(int fd, gboolean is_tls)
{
	Listener *self = g_new0(Listener, 1);

	self->fd = fd;
	self->is_tls = is_tls;
	return self;
}

void listener_withdraw(Listener *self)
{
	struct stat found;

	if (self->path == NULL)
		return;
	if (lstat(self->path, &found) == 0 && found.st_dev == self->device &&
	    found.st_ino == self->inode)
		unlink(self->path);
	g_clear_pointer(&self->path, g_free);
}

void listener_free(Listener *self)
{
	if (self == NULL)
		return;
	/* remove the file while the socket listens, so that no process takes it for a stale one */
	listener_withdraw(self);
	if (self->source != 0)
		g_source_remove(self->source);
	close(self->fd);
	g_free(self);
}

/* Returns whether the error means that the machine does not support the address's family. This is
 * not a failure if the name has another address. */
static gboolean is_absent(int failure)
{
	return failure == EAFNOSUPPORT || failure == EADDRNOTAVAIL;
}

/* Returns %FALSE with errno set if an address cannot be opened, or if there is no address. @any:
 * the host is "*", so an IPv6 socket also accepts IPv4; otherwise IPv6 sockets exclude IPv4 */
static gboolean open_all(const struct addrinfo *addresses, gboolean any, gboolean is_tls,
			 GPtrArray *listeners)
{
	guint first = listeners->len;
	int failure = 0;

	for (const struct addrinfo *one = addresses;
	     one != NULL && (failure == 0 || is_absent(failure)); one = one->ai_next) {
		int fd = socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		if (fd >= 0)
			set_tcp_options(fd);
		if (fd >= 0 && set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
		    (one->ai_family != AF_INET6 ||
		     set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, !any)) &&
		    bind(fd, one->ai_addr, one->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0) {
			g_ptr_array_add(listeners, listener_new(fd, is_tls));
			continue;
		}
		failure = errno;
		if (fd >= 0)
			close(fd);
	}
	if (listeners->len > first && (failure == 0 || is_absent(failure)))
		return TRUE;
	g_ptr_array_set_size(listeners, (gint)first);
	errno = failure;
	return FALSE;
}

gboolean listener_open(const char *host, guint16 port, gboolean is_tls, GPtrArray *listeners,
		       GError **error)
{
	gboolean any = g_str_equal(host, "*");
	/* for "*", an IPv6 socket includes IPv4; without IPv6, an IPv4 socket is used */
	const int families[] = {any ? AF_INET6 : AF_UNSPEC, AF_INET};
	g_autofree char *service = g_strdup_printf("%u", port);
	gboolean is_open = FALSE;

	for (guint i = 0; i < (any ? 2 : 1); i++) {
		const struct addrinfo hints = {
			.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
			.ai_family = families[i],
			.ai_socktype = SOCK_STREAM,
		};
		struct addrinfo *addresses = NULL;
		int failure = getaddrinfo(any ? NULL : host, service, &hints, &addresses);

		if (failure != 0)
			return text_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED,
					      "cannot listen on %s: %s", host,
					      failure == EAI_SYSTEM ? g_strerror(errno)
								    : gai_strerror(failure));
		is_open = open_all(addresses, any, is_tls, listeners);
		failure = errno;
		freeaddrinfo(addresses);
		errno = failure;
		if (is_open || !is_absent(errno))
			break;
	}
	return is_open ||
	       text_set_error(error, G_IO_ERROR, g_io_error_from_errno(errno),
			      "cannot listen on %s port %u: %s", host, port, g_strerror(errno));
}

gboolean listener_open_local(const char *path, const SocketFileAccess *access, GPtrArray *listeners,
			     GError **error)
{
	gboolean is_abstract = *path == '@', is_open = FALSE;
	g_autofree char *directory = is_abstract ? NULL : g_path_get_dirname(path);
	int lock = is_abstract ? -1 : lock_directory(path, directory, error);
	struct sockaddr_un address;
	struct stat made = {0};
	Listener *self;
	int fd;

	if (!is_abstract && lock < 0)
		return FALSE;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (is_abstract && fd >= 0) {
		/* the kernel removes an abstract name with its last socket, so the name is never
		 * stale */
		socklen_t length = socket_unix_address(path, &address);

		is_open = bind(fd, (const struct sockaddr *)&address, length) == 0 &&
			  listen(fd, SOMAXCONN) == 0;
	} else if (fd >= 0) {
		is_open = open_file(fd, path, directory, access, &made, error);
	}
	if (!is_open && (is_abstract || fd < 0))
		set_local_error(path, errno, error, "%s",
				is_abstract && errno == EADDRINUSE
					? "another process is already listening there; stop it, or "
					  "use a different name"
					: g_strerror(errno));
	if (lock >= 0)
		close(lock);
	if (!is_open && fd >= 0)
		close(fd);
	if (!is_open)
		return FALSE;
	self = listener_new(fd, FALSE);
	self->is_local = TRUE;
	self->path = is_abstract ? NULL : g_strdup(path);
	self->device = made.st_dev;
	self->inode = made.st_ino;
	g_ptr_array_add(listeners, self);
	return TRUE;
}

void listener_adopt(int fd, GPtrArray *listeners)
{
	Listener *self = listener_new(fd, FALSE);
	int domain = AF_UNSPEC;

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof domain});
	self->is_local = domain == AF_UNIX;
	self->is_adopted = TRUE;
	g_unix_set_fd_nonblocking(fd, TRUE, NULL);
	g_ptr_array_add(listeners, self);
}

char *listener_address(const Listener *self)
{
	g_autofree char *name = socket_name_local(self->fd);
	struct sockaddr_in6 address = {0};
	socklen_t length = sizeof address;
	int v6_only = 1;

	getsockname(self->fd, (struct sockaddr *)&address, &length);
	if (address.sin6_family == AF_INET6)
		getsockopt(self->fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only,
			   &(socklen_t){sizeof v6_only});
	/* "*" means every address of IPv4 and IPv6, and [::] every address of IPv6 */
	if (v6_only == 0 && IN6_IS_ADDR_UNSPECIFIED(&address.sin6_addr))
		return g_strconcat(self->is_tls ? ADDRESS_TLS_PREFIX : "", "*", strrchr(name, ':'),
				   NULL);
	return g_strconcat(self->is_tls ? ADDRESS_TLS_PREFIX : "", name, NULL);
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
	/* the socket stays readable, so the thread would spin */
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
	/* otherwise GLib removes the socket from its poll while the callback runs, and wakes itself
	 * each time, which costs four system calls for each client. The callback does not run a
	 * main loop, so it cannot recurse */
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
	if (self->is_adopted &&
	    /* on an adopted socket, the connection may be older than the call to
	     * set_tcp_options() */
	    !self->is_local)
		set_tcp_options(connection);
	*out_origin = origin_of_peer(connection, (const struct sockaddr *)&peer);
	return connection;
}
