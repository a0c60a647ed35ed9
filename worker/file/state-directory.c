/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/state-directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fork-guard.h"
#include "worker/file/disk-call.h"
#include "worker/registry.h"

#define DIRECTORY_MODE   0700
#define FILE_MODE        0600
#define OTHERS_MAY_WRITE (S_IWGRP | S_IWOTH)
#define MAX_BYTES        4096
#define TEMPORARY_SUFFIX ".new"
#define NOT_REGULAR      "it is not a regular file"

/* The lock is held for an instant; its holder may hang, but whoever waits must not. In all this is
 * half of the shortest reservation: there is time for another try. */
#define LOCK_TRIES    100
#define LOCK_PAUSE_US 5000

struct _StateDirectory {
	char *path; /* for messages */
	StateFd fd;
	gboolean links_allowed;
};

/* System calls, with disk_call_begin(). @path: directory; @name: (nullable): file in the directory
 */

void state_directory_close_fd(StateFd fd)
{
	disk_call_begin("close", NULL, NULL);
	fork_guard_close(fd);
	disk_call_end();
}

static StateFd open_at(int directory_fd, const char *path, const char *name, int flags)
{
	StateFd fd;

	disk_call_begin((flags & O_CREAT) != 0 ? "make" : "open", path, name);
	fd = fork_guard_open(directory_fd, name != NULL ? name : path, flags | O_CLOEXEC,
			     FILE_MODE);
	disk_call_end();
	return fd;
}

static int get_info(int fd, const char *path, const char *name, struct stat *out_info)
{
	int result;

	disk_call_begin("look at", path, name);
	result = fstat(fd, out_info);
	disk_call_end();
	return result;
}

static int sync_fd(int fd, const char *path, const char *name)
{
	int result;

	disk_call_begin("sync", path, name);
	result = fsync(fd);
	disk_call_end();
	return result;
}

static gboolean test_path(const char *path, GFileTest test)
{
	gboolean is_true;

	disk_call_begin("look at", path, NULL);
	is_true = g_file_test(path, test);
	disk_call_end();
	return is_true;
}

static int make_at(const char *path)
{
	int result;

	disk_call_begin("make", path, NULL);
	result = g_mkdir(path, DIRECTORY_MODE);
	disk_call_end();
	return result;
}

void state_directory_free(StateDirectory *self)
{
	if (self == NULL)
		return;
	state_directory_close_fd(self->fd);
	g_free(self->path);
	g_free(self);
}

static gboolean fail(const char *what, const char *path, GError **error)
{
	int code = errno;

	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED, "cannot %s %s: %s", what, path,
		    g_strerror(code));
	return FALSE;
}

char *state_directory_file_path(const StateDirectory *self, const char *name)
{
	return g_build_filename(self->path, name, NULL);
}

gboolean state_directory_fail_file(const StateDirectory *self, const char *what, const char *name,
				   GError **error)
{
	int code = errno;
	g_autofree char *path = state_directory_file_path(self, name);

	errno = code;
	return fail(what, path, error);
}

/* The directory */

/* (nullable): with errno set. */
static StateDirectory *open_directory(const char *path)
{
	StateFd fd = open_at(AT_FDCWD, path, NULL, O_RDONLY | O_DIRECTORY);
	StateDirectory *self;

	if (fd < 0)
		return NULL;
	self = g_new(StateDirectory, 1);
	*self = (StateDirectory){.path = g_strdup(path), .fd = fd};
	return self;
}

void state_directory_allow_links(StateDirectory *self)
{
	self->links_allowed = TRUE;
}

StateDirectory *state_directory_open(const char *path, GError **error)
{
	StateDirectory *self = open_directory(path);

	if (self == NULL)
		fail("open", path, error);
	return self;
}

gboolean state_directory_sync_name(const StateDirectory *self, GError **error)
{
	g_auto(StateFd) parent = open_at(self->fd, self->path, "..", O_RDONLY | O_DIRECTORY);
	struct stat own, above;

	/* whoever made it in a directory that is closed to us made it for good */
	if (parent < 0 && errno == EACCES)
		return TRUE;
	if (parent < 0 || get_info(self->fd, self->path, NULL, &own) != 0 ||
	    get_info(parent, self->path, "..", &above) != 0)
		return fail("look at the parent of", self->path, error);
	/* a mount point does not hang on its name; EINVAL: a file system that is never written */
	return own.st_dev != above.st_dev || sync_fd(parent, self->path, "..") == 0 ||
	       errno == EINVAL || fail("sync the parent of", self->path, error);
}

/* Sets @error by errno. */
static void refuse_directory(const char *path, GError **error)
{
	int code = errno;
	gboolean is_link;

	if (code == ENOTDIR && test_path(path, G_FILE_TEST_EXISTS)) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "%s is not a directory: name another --state-directory", path);
		return;
	}
	is_link = test_path(path, G_FILE_TEST_IS_SYMLINK);
	errno = code;
	fail(code == ENOENT && is_link ? "follow the link" : "open", path, error);
}

static gboolean make_parent(const char *path, GError **error);

static gboolean make_directory(const char *path, GError **error)
{
	g_autofree char *parent = g_path_get_dirname(path);

	if (!test_path(parent, G_FILE_TEST_EXISTS) && !make_parent(parent, error))
		return FALSE;
	/* EEXIST: another server was faster */
	return make_at(path) == 0 || errno == EEXIST || fail("make the directory", path, error);
}

/* Its name is synced before anything is made in it. */
static gboolean make_parent(const char *path, GError **error)
{
	g_autoptr(StateDirectory) made = NULL;

	if (!make_directory(path, error))
		return FALSE;
	made = open_directory(path);
	if (made == NULL) {
		refuse_directory(path, error);
		return FALSE;
	}
	return state_directory_sync_name(made, error);
}

static gboolean check_directory(const StateDirectory *self, GError **error)
{
	struct stat info;

	if (get_info(self->fd, self->path, NULL, &info) != 0)
		return fail("look at", self->path, error);
	if (info.st_uid != geteuid()) {
		g_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"the state directory %s belongs to user %u, this server runs as user %u: "
			"run it as that user, or name another --state-directory",
			self->path, (guint)info.st_uid, (guint)geteuid());
		return FALSE;
	}
	if ((info.st_mode & OTHERS_MAY_WRITE) != 0) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "the state directory %s has mode %04o, so that others may change what "
			    "is reserved: chmod go-w it, or name a new directory inside of it",
			    self->path, (guint)info.st_mode & 07777);
		return FALSE;
	}
	return TRUE;
}

StateDirectory *state_directory_prepare(const char *path, GError **error)
{
	g_autoptr(StateDirectory) self = open_directory(path);

	if (self == NULL && errno == ENOENT) {
		if (!make_directory(path, error))
			return NULL;
		self = open_directory(path);
	}
	if (self == NULL) {
		refuse_directory(path, error);
		return NULL;
	}
	return check_directory(self, error) ? g_steal_pointer(&self) : NULL;
}

/* Its files */

/* (transfer full) (nullable): what is wrong with it. */
static char *file_fault(const struct stat *info, nlink_t most_links)
{
	if (!S_ISREG(info->st_mode))
		return g_strdup(NOT_REGULAR);
	if (info->st_uid != geteuid())
		return g_strdup_printf("it belongs to user %u, this server runs as user %u",
				       (guint)info->st_uid, (guint)geteuid());
	/* 0: it was replaced meanwhile */
	if (info->st_nlink > most_links)
		return g_strdup_printf(
			"it has %u links, the most is 1 (if the others are a snapshot's, give it a "
			"file of its own while no server runs: cp -p FILE x && mv x FILE)",
			(guint)info->st_nlink);
	if (info->st_size > MAX_BYTES)
		return g_strdup_printf("it has %" G_GINT64_FORMAT " bytes, the most is %d",
				       (gint64)info->st_size, MAX_BYTES);
	return NULL;
}

static gboolean refuse_file(const StateDirectory *self, const char *name, const char *fault,
			    GError **error)
{
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
		    "%s/%s is not as a server leaves it, %s: find out who changed it, or use "
		    "another --state-directory and --worker-id",
		    self->path, name, fault);
	return FALSE;
}

/* A file that is written in place never has another name. */
static nlink_t most_links(const StateDirectory *self, int flags)
{
	return self->links_allowed && (flags & O_ACCMODE) == O_RDONLY ? G_MAXUINT : 1;
}

/* What is wrong with a file that cannot be opened, by errno, or NULL. */
static const char *opening_fault(int code)
{
	if (code == ELOOP)
		return "it is a symbolic link";
	/* a directory, a socket */
	return code == EISDIR || code == ENXIO ? NOT_REGULAR : NULL;
}

static gboolean check_file(const StateDirectory *self, const char *name, int fd, int flags,
			   GError **error)
{
	g_autofree char *fault = NULL;
	struct stat info;

	if (get_info(fd, self->path, name, &info) != 0)
		return state_directory_fail_file(self, "look at", name, error);
	fault = file_fault(&info, most_links(self, flags));
	return fault == NULL || refuse_file(self, name, fault, error);
}

StateFd state_directory_open_file(const StateDirectory *self, const char *name, int flags,
				  GError **error)
{
	/* O_NONBLOCK: a FIFO has nobody at its other end */
	g_auto(StateFd) fd = open_at(self->fd, self->path, name, flags | O_NOFOLLOW | O_NONBLOCK);

	const char *fault = fd < 0 ? opening_fault(errno) : NULL;

	if (fault != NULL)
		refuse_file(self, name, fault, error);
	else if (fd < 0 && errno != ENOENT)
		state_directory_fail_file(self, "open", name, error);
	else if (fd >= 0 && check_file(self, name, fd, flags, error))
		return g_steal_fd(&fd);
	return -1;
}

/* Returns the number of bytes, or -1 with errno set. */
static gssize read_all(int fd, char *buffer, gsize size)
{
	gsize length = 0;

	while (length < size) {
		ssize_t n = read(fd, buffer + length, size - length);

		if (n == 0)
			break;
		if (n > 0)
			length += (gsize)n;
		else if (errno != EINTR)
			return -1;
	}
	return (gssize)length;
}

gboolean state_directory_read(const StateDirectory *self, const char *name, char **out_text,
			      GError **error)
{
	g_autoptr(GError) local = NULL;
	g_auto(StateFd) fd = state_directory_open_file(self, name, O_RDONLY, &local);
	char buffer[MAX_BYTES + 1] = {0};
	gssize length;

	if (local != NULL) {
		g_propagate_error(error, g_steal_pointer(&local));
		return FALSE;
	}
	if (fd < 0) {
		*out_text = NULL;
		return TRUE;
	}
	disk_call_begin("read", self->path, name);
	length = read_all(fd, buffer, MAX_BYTES);
	disk_call_end();
	if (length < 0)
		return state_directory_fail_file(self, "read", name, error);
	if (memchr(buffer, '\0', (gsize)length) != NULL) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "%s/%s is damaged: it holds a NUL at byte %zu", self->path, name,
			    strlen(buffer));
		return FALSE;
	}
	*out_text = g_strdup(buffer);
	return TRUE;
}

static gboolean write_some(int fd, const char *text, gsize left)
{
	while (left > 0) {
		ssize_t n = write(fd, text, left);

		if (n < 0 && errno != EINTR)
			return FALSE;
		if (n > 0) {
			text += n;
			left -= (gsize)n;
		}
	}
	return TRUE;
}

static gboolean write_all(const StateDirectory *self, int fd, const char *name, const char *text)
{
	gboolean is_written;

	disk_call_begin("write", self->path, name);
	is_written = write_some(fd, text, strlen(text));
	disk_call_end();
	return is_written;
}

static void remove_file(const StateDirectory *self, const char *name)
{
	disk_call_begin("remove", self->path, name);
	unlinkat(self->fd, name, 0);
	disk_call_end();
}

/* A file of a new name: two writers never share one, and nobody has put it there. Returns a
 * descriptor, or -1. */
static StateFd write_durably(const StateDirectory *self, const char *name, const char *text,
			     GError **error)
{
	g_auto(StateFd) fd =
		open_at(self->fd, self->path, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);

	if (fd < 0 || !write_all(self, fd, name, text) || sync_fd(fd, self->path, name) != 0) {
		state_directory_fail_file(self, "write", name, error);
		if (fd >= 0)
			remove_file(self, name);
		return -1;
	}
	return g_steal_fd(&fd);
}

gboolean state_directory_lock_fd(const StateDirectory *self, const char *name, int fd)
{
	gboolean is_locked;

	disk_call_begin("lock", self->path, name);
	is_locked = flock(fd, LOCK_EX | LOCK_NB) == 0;
	disk_call_end();
	return is_locked;
}

static gboolean lock_directory(const StateDirectory *self, GError **error)
{
	for (int tries = 0; !state_directory_lock_fd(self, NULL, self->fd); tries++) {
		if (errno != EWOULDBLOCK)
			return fail("lock (is it on a local file system?)", self->path, error);
		if (tries == LOCK_TRIES) {
			g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED,
				    "%s is locked by another process, for longer than %d ms: is "
				    "one stopped, or does something else lock it?",
				    self->path, LOCK_TRIES * LOCK_PAUSE_US / 1000);
			return FALSE;
		}
		fork_guard_pause();
		g_usleep(LOCK_PAUSE_US);
		fork_guard_resume();
	}
	return TRUE;
}

static void unlock_directory(const StateDirectory *self)
{
	disk_call_begin("unlock", self->path, NULL);
	flock(self->fd, LOCK_UN);
	disk_call_end();
}

static int rename_file(const StateDirectory *self, const char *from, const char *to)
{
	int result;

	disk_call_begin("replace", self->path, to);
	result = renameat(self->fd, from, self->fd, to);
	disk_call_end();
	return result;
}

static gboolean rename_if_equal(const StateDirectory *self, const char *temporary, const char *name,
				const char *expected, GError **error)
{
	g_autofree char *present = NULL;

	if (!state_directory_read(self, name, &present, error))
		return FALSE;
	if (g_strcmp0(present, expected) != 0) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST,
			    "another process wrote %s/%s at the same time", self->path, name);
		return FALSE;
	}
	return rename_file(self, temporary, name) == 0 ||
	       state_directory_fail_file(self, "replace", name, error);
}

/* The comparison and the renaming, with the directory's lock held for no longer than that. */
static gboolean swap(const StateDirectory *self, const char *temporary, const char *name,
		     const char *expected, GError **error)
{
	gboolean swapped;

	if (!lock_directory(self, error))
		return FALSE;
	swapped = rename_if_equal(self, temporary, name, expected, error);
	unlock_directory(self);
	return swapped;
}

/* Returns a descriptor of the file, which is in place but may not stay so, or -1. */
static StateFd put(const StateDirectory *self, const char *name, const char *expected,
		   const char *text, GError **error)
{
	/* by processes of one number, in containers, and those that were forked from one */
	g_autofree char *temporary =
		g_strdup_printf("%s.%d-%08x" TEMPORARY_SUFFIX, name, (int)getpid(), g_random_int());
	g_auto(StateFd) fd = write_durably(self, temporary, text, error);

	if (fd < 0)
		return -1;
	if (!swap(self, temporary, name, expected, error)) {
		remove_file(self, temporary);
		return -1;
	}
	return g_steal_fd(&fd);
}

gboolean state_directory_replace(const StateDirectory *self, const char *name, const char *expected,
				 const char *text, StateFd *out_file, GError **error)
{
	g_auto(StateFd) fd = put(self, name, expected, text, error);

	if (fd < 0)
		return FALSE;
	if (out_file != NULL)
		*out_file = g_steal_fd(&fd);
	return sync_fd(self->fd, self->path, NULL) == 0 || fail("sync", self->path, error);
}

gboolean state_directory_make(const StateDirectory *self, const char *name, const char *text,
			      GError **error)
{
	g_auto(StateFd) fd = put(self, name, NULL, text, error);

	return fd >= 0;
}

static void close_listing(DIR *listing)
{
	int fd = dirfd(listing);

	disk_call_begin("close", NULL, NULL);
	fork_guard_begin_close(fd);
	closedir(listing);
	fork_guard_end_close(fd);
	disk_call_end();
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DIR, close_listing)

/* (nullable): with errno set. */
static DIR *open_listing(const StateDirectory *self)
{
	g_auto(StateFd) fd = open_at(self->fd, self->path, ".", O_RDONLY | O_DIRECTORY);
	DIR *listing = NULL;

	disk_call_begin("list", self->path, NULL);
	if (fd >= 0)
		listing = fdopendir(fd);
	disk_call_end();
	if (listing != NULL)
		g_steal_fd(&fd);
	return listing;
}

static const char *read_name(DIR *listing, const char *prefix, const char *suffix)
{
	const struct dirent *entry;

	for (errno = 0; (entry = readdir(listing)) != NULL; errno = 0)
		if (g_str_has_prefix(entry->d_name, prefix) &&
		    g_str_has_suffix(entry->d_name, suffix))
			return entry->d_name;
	return NULL;
}

/* (nullable): the next name in the directory; NULL with errno set to 0: there is no other. */
static const char *next_name(const StateDirectory *self, DIR *listing, const char *prefix,
			     const char *suffix)
{
	const char *name;

	disk_call_begin("list", self->path, NULL);
	name = read_name(listing, prefix, suffix);
	disk_call_end();
	return name;
}

gboolean state_directory_find(const StateDirectory *self, const char *prefix, const char *suffix,
			      char **out_name, GError **error)
{
	g_autoptr(DIR) listing = open_listing(self);
	const char *name = listing != NULL ? next_name(self, listing, prefix, suffix) : NULL;

	if (name == NULL && (listing == NULL || errno != 0))
		return fail("list", self->path, error);
	*out_name = g_strdup(name);
	return TRUE;
}

void state_directory_clean(const StateDirectory *self, const char *name)
{
	g_autofree char *prefix = g_strconcat(name, ".", NULL);
	g_autoptr(DIR) listing = open_listing(self);
	const char *leftover;

	/* nothing is taken away between its comparison and its renaming */
	if (listing == NULL || !lock_directory(self, NULL))
		return;
	while ((leftover = next_name(self, listing, prefix, TEMPORARY_SUFFIX)) != NULL)
		remove_file(self, leftover);
	unlock_directory(self);
}

static int get_info_of_path(int directory_fd, const char *directory, const char *name,
			    struct stat *out_info)
{
	int result;

	disk_call_begin("look at", directory, name);
	result = fstatat(directory_fd, name != NULL ? name : directory, out_info,
			 AT_SYMLINK_NOFOLLOW);
	disk_call_end();
	return result;
}

/* -1: nobody can tell. */
static int is_same_file(int directory_fd, const char *directory, const char *name, int fd)
{
	struct stat open_file, named_file;

	if (get_info_of_path(directory_fd, directory, name, &named_file) != 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
	if (get_info(fd, directory, name, &open_file) != 0)
		return -1;
	return open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
}

gboolean state_directory_has(const StateDirectory *self, const char *name, int fd)
{
	return is_same_file(self->fd, self->path, name, fd) == 1;
}

gboolean state_directory_is_at(const char *path, int fd)
{
	return is_same_file(AT_FDCWD, path, NULL, fd) != 0;
}
