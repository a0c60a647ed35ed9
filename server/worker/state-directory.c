/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/state-directory.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/worker/registry.h"

#define DIRECTORY_MODE   0750
#define FILE_MODE        0640
#define TEMPORARY_SUFFIX ".new"

/* The lock is held for an instant; its holder may hang, but whoever waits must not. In all this is
 * half of the shortest reservation: there is time for another try. */
#define LOCK_TRIES    100
#define LOCK_PAUSE_US 5000

void state_directory_close_fd(StateFd fd)
{
	close(fd);
}

gboolean state_directory_fail(const char *what, const char *path, GError **error)
{
	int code = errno;

	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED, "cannot %s %s: %s", what, path,
		    g_strerror(code));
	return FALSE;
}

static gboolean sync_directory(const char *directory, GError **error)
{
	g_auto(StateFd) fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return (fd >= 0 && fsync(fd) == 0) || state_directory_fail("sync", directory, error);
}

/* A directory is only as durable as its name in its parent, hence the sync. */
static gboolean make_directory(const char *directory, GError **error)
{
	g_autofree char *parent = g_path_get_dirname(directory);

	if (g_file_test(directory, G_FILE_TEST_EXISTS))
		return TRUE;
	if (!make_directory(parent, error))
		return FALSE;
	/* EEXIST: another server was faster */
	if (g_mkdir(directory, DIRECTORY_MODE) != 0 && errno != EEXIST)
		return state_directory_fail("make the directory", directory, error);
	return sync_directory(parent, error);
}

gboolean state_directory_prepare(const char *directory, GError **error)
{
	struct stat info;

	if (!make_directory(directory, error))
		return FALSE;
	if (stat(directory, &info) != 0)
		return state_directory_fail("look at", directory, error);
	if (!S_ISDIR(info.st_mode)) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "%s is not a directory: name another --state-directory", directory);
		return FALSE;
	}
	if (info.st_uid != geteuid()) {
		g_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"the state directory %s belongs to user %u, this server runs as user %u: "
			"run it as that user, or name another --state-directory",
			directory, (guint)info.st_uid, (guint)geteuid());
		return FALSE;
	}
	return TRUE;
}

gboolean state_directory_read(const char *directory, const char *name, char **out_text,
			      GError **error)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autofree char *text = NULL;
	g_autoptr(GError) local = NULL;
	gsize length;

	if (g_file_get_contents(path, &text, &length, &local)) {
		if (strlen(text) != length) {
			g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
				    "%s is damaged: it holds a NUL at byte %zu", path,
				    strlen(text));
			return FALSE;
		}
	} else if (!g_error_matches(local, G_FILE_ERROR, G_FILE_ERROR_NOENT)) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED, "cannot read %s: %s",
			    path, local->message);
		return FALSE;
	}
	*out_text = g_steal_pointer(&text);
	return TRUE;
}

static gboolean write_all(int fd, const char *text)
{
	gsize left = strlen(text);

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

/* A file of a new name: two writers never share one. @path is a template for g_mkstemp(). */
static gboolean write_durably(char *path, const char *text, GError **error)
{
	g_auto(StateFd) fd = g_mkstemp_full(path, O_WRONLY | O_CLOEXEC, FILE_MODE);

	return (fd >= 0 && write_all(fd, text) && fsync(fd) == 0) ||
	       state_directory_fail("write", path, error);
}

static gboolean lock_directory(int fd, const char *directory, GError **error)
{
	for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
		if (errno != EWOULDBLOCK)
			return state_directory_fail("lock (is it on a local file system?)",
						    directory, error);
		if (tries == LOCK_TRIES) {
			g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED,
				    "%s is locked by another process, for longer than %d ms: is "
				    "one stopped, or does something else lock it?",
				    directory, LOCK_TRIES * LOCK_PAUSE_US / 1000);
			return FALSE;
		}
		g_usleep(LOCK_PAUSE_US);
	}
	return TRUE;
}

static gboolean rename_if_equal(const char *temporary, const char *path, const char *present,
				const char *expected, GError **error)
{
	if (g_strcmp0(present, expected) != 0) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST,
			    "another process wrote %s at the same time", path);
		return FALSE;
	}
	return g_rename(temporary, path) == 0 || state_directory_fail("replace", path, error);
}

/* The comparison and the renaming, with the directory's lock held for no longer than that. */
static gboolean swap(int directory_fd, const char *directory, const char *name,
		     const char *expected, const char *temporary, GError **error)
{
	g_autofree char *path = g_build_filename(directory, name, NULL);
	g_autofree char *present = NULL;
	gboolean swapped;

	if (!lock_directory(directory_fd, directory, error))
		return FALSE;
	swapped = state_directory_read(directory, name, &present, error) &&
		  rename_if_equal(temporary, path, present, expected, error);
	flock(directory_fd, LOCK_UN);
	return swapped;
}

gboolean state_directory_replace(const char *directory, const char *name, const char *expected,
				 const char *text, GError **error)
{
	g_auto(StateFd) directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	g_autofree char *temporary =
		g_strconcat(directory, "/", name, ".XXXXXX" TEMPORARY_SUFFIX, NULL);

	if (directory_fd < 0)
		return state_directory_fail("open", directory, error);
	if (!write_durably(temporary, text, error) ||
	    !swap(directory_fd, directory, name, expected, temporary, error)) {
		g_unlink(temporary);
		return FALSE;
	}
	return fsync(directory_fd) == 0 || state_directory_fail("sync", directory, error);
}

void state_directory_clean(const char *directory, const char *name)
{
	g_autoptr(GDir) listing = g_dir_open(directory, 0, NULL);
	g_autofree char *prefix = g_strconcat(name, ".", NULL);
	const char *entry;

	while (listing != NULL && (entry = g_dir_read_name(listing)) != NULL) {
		g_autofree char *path = g_build_filename(directory, entry, NULL);

		if (g_str_has_prefix(entry, prefix) && g_str_has_suffix(entry, TEMPORARY_SUFFIX))
			g_unlink(path);
	}
}
