/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/socket-file.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/socket.h"

#define LOCK_WAIT_MS 5000
#define LOCK_LOOK_MS 10

static G_GNUC_PRINTF(4, 5) gboolean
	fail(const char *path, int number, GError **error, const char *format, ...)
{
	va_list arguments;
	g_autofree char *text = NULL;

	va_start(arguments, format);
	text = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	g_set_error(error, G_IO_ERROR, (gint)g_io_error_from_errno(number),
		    "cannot listen on unix:%s: %s", path, text);
	return FALSE;
}

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* With errno as it was. */
static void drop(int fd)
{
	int number = errno;

	close(fd);
	errno = number;
}

/* The lock of the directory, or -1 with errno set: EWOULDBLOCK if others have it. */
static int take_lock(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (guint waited_ms = 0; fd >= 0; waited_ms += LOCK_LOOK_MS) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return fd;
		if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms >= LOCK_WAIT_MS) {
			drop(fd);
			return -1;
		}
		g_usleep(1000 * LOCK_LOOK_MS);
	}
	return -1;
}

static int lock_directory(const char *path, const char *directory, GError **error)
{
	int fd = take_lock(directory);

	if (fd >= 0)
		return fd;
	if (errno == ENOENT)
		fail(path, errno, error, "there is no directory %s: make it, or use another",
		     directory);
	else if (errno == EWOULDBLOCK)
		fail(path, errno, error,
		     "somebody has held a lock on %s for %d s: flock(1) does, or a server that "
		     "hangs as it starts; end it, or use another directory",
		     directory, LOCK_WAIT_MS / 1000);
	else
		fail(path, errno, error, "cannot open and lock the directory %s: %s", directory,
		     g_strerror(errno));
	return -1;
}

/* 0: somebody listens there. */
static int try_to_connect(const char *path)
{
	struct sockaddr_un address;
	socklen_t length = socket_unix_address(path, &address);
	int fd = new_socket();
	int number = 0;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, length) != 0)
		number = errno;
	if (fd >= 0)
		close(fd);
	/* that is, when as many wait there as may */
	return number == EAGAIN ? 0 : number;
}

/* What is in the way, if it is a socket where nobody listens. */
static gboolean remove_stale(const char *path, GError **error)
{
	struct stat found;
	int number;

	if (lstat(path, &found) != 0)
		return errno == ENOENT || fail(path, errno, error, "%s", g_strerror(errno));
	if (!S_ISSOCK(found.st_mode))
		return fail(path, EEXIST, error,
			    "there is a file that is no socket: remove it, or use another path");
	number = try_to_connect(path);
	if (number == 0)
		return fail(path, EADDRINUSE, error,
			    "somebody listens there already: stop that, or use another path");
	if (number != ECONNREFUSED && number != ENOENT)
		return fail(path, number, error,
			    "cannot find out whether somebody listens there already: %s",
			    g_strerror(number));
	if (unlink(path) != 0 && errno != ENOENT)
		return fail(path, errno, error, "cannot remove the socket that was left there: %s",
			    g_strerror(errno));
	return TRUE;
}

/* The file has the mode from its first moment. */
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

static gboolean bind_file(int fd, const char *path, const char *directory, mode_t mode,
			  GError **error)
{
	if (bind_with_mode(fd, path, mode))
		return TRUE;
	if (errno == EADDRINUSE) {
		if (!remove_stale(path, error))
			return FALSE;
		if (bind_with_mode(fd, path, mode))
			return TRUE;
	}
	if (errno == EACCES)
		return fail(path, errno, error,
			    "%s: the server's user must be able to write the directory %s",
			    g_strerror(errno), directory);
	return fail(path, errno, error, "%s", g_strerror(errno));
}

/* Nobody can connect before it listens, so until then nobody is let in that should not be. */
static gboolean give_and_listen(int fd, const char *path, gid_t gid, GError **error)
{
	if (gid != (gid_t)-1 && fchownat(AT_FDCWD, path, (uid_t)-1, gid, AT_SYMLINK_NOFOLLOW) != 0)
		return fail(path, errno, error,
			    "cannot give the socket to group %u: %s: the server's user must be in "
			    "the group",
			    gid, g_strerror(errno));
	return listen(fd, SOMAXCONN) == 0 || fail(path, errno, error, "%s", g_strerror(errno));
}

/* With the lock. */
static gboolean open_file(int fd, const char *path, const char *directory,
			  const SocketFileAccess *access, SocketFile *out_file, GError **error)
{
	struct stat made;

	if (!bind_file(fd, path, directory, access->mode, error))
		return FALSE;
	if (lstat(path, &made) != 0)
		return fail(path, errno, error, "%s", g_strerror(errno));
	if (!give_and_listen(fd, path, access->gid, error)) {
		unlink(path);
		return FALSE;
	}
	*out_file = (SocketFile){g_strdup(path), made.st_dev, made.st_ino};
	return TRUE;
}

int socket_file_listen(const char *path, const SocketFileAccess *access, SocketFile *out_file,
		       GError **error)
{
	g_autofree char *directory = g_path_get_dirname(path);
	int lock = lock_directory(path, directory, error);
	int fd;

	if (lock < 0)
		return -1;
	fd = new_socket();
	if (fd < 0) {
		fail(path, errno, error, "%s", g_strerror(errno));
	} else if (!open_file(fd, path, directory, access, out_file, error)) {
		close(fd);
		fd = -1;
	}
	close(lock);
	return fd;
}

void socket_file_remove(SocketFile *self)
{
	struct stat found;

	if (self->path == NULL)
		return;
	if (lstat(self->path, &found) == 0 && found.st_dev == self->device &&
	    found.st_ino == self->inode)
		unlink(self->path);
	g_clear_pointer(&self->path, g_free);
}
