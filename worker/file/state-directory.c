/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/state-directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <systemd/sd-id128.h>
#include <unistd.h>

#include "common/fork-guard.h"
#include "common/strict-json.h"
#include "core/text.h"
#include "worker/file/disk-call.h"
#include "worker/registry.h"

#define DIRECTORY_MODE   0700
#define FILE_MODE        0600
#define OTHERS_MAY_WRITE (S_IWGRP | S_IWOTH)
#define MAX_BYTES        4096
#define TEMPORARY_SUFFIX ".new"
#define NOT_REGULAR      "it is not a regular file"

/* The lock of the directory is held only briefly. Its holder can hang, but processes that wait for
 * the lock must not. All tries together take at most half of the shortest reservation, so there is
 * time for another round of tries. */
#define LOCK_TRIES    100
#define LOCK_PAUSE_US 5000

#define IDENTITY_NAME   "directory.json"
#define IDENTITY_FORMAT 1
#define NO_MACHINE_ID   "none"
#define ID_NAME         "registry.json"
#define ID_FORMAT       1

/* The machine ID is confidential, but an ID that is derived from it with this application ID is
 * not. */
#define APPLICATION_ID SD_ID128_MAKE(3c, 7b, e0, a0, 7c, fa, 4b, ab, ae, 5f, 90, 53, 86, 6b, 05, c1)

struct _StateDirectory {
	char *path; /* for messages */
	StateFd fd;
	gboolean links_allowed;
};

/* Wrappers for system calls.
 * @path: path of the directory
 * @name: (nullable): a file in the directory */

void state_directory_close_fd(StateFd fd)
{
	if (fd < 0)
		return;
	disk_call_begin("close", NULL, NULL);
	fork_guard_close(fd);
	disk_call_end();
}

static StateFd open_at(int directory_fd, const char *path, const char *name, int flags)
{
	return DISK_CALL((flags & O_CREAT) != 0 ? "make" : "open", path, name,
			 fork_guard_open(directory_fd, name != NULL ? name : path,
					 flags | O_CLOEXEC, FILE_MODE));
}

static int get_info(int fd, const char *path, const char *name, struct stat *out_info)
{
	return DISK_CALL("look at", path, name, fstat(fd, out_info));
}

static int sync_fd(int fd, const char *path, const char *name)
{
	return DISK_CALL("sync", path, name, fsync(fd));
}

static gboolean test_path(const char *path, GFileTest test)
{
	return DISK_CALL("look at", path, NULL, g_file_test(path, test));
}

/* Sets @error from errno. Returns: %FALSE */
static gboolean fail_call(const char *what, const char *path, GError **error)
{
	int code = errno;

	return text_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED, "cannot %s %s: %s",
			      what, path, g_strerror(code));
}

static gboolean fail_file(const StateDirectory *self, const char *what, const char *name,
			  GError **error)
{
	int code = errno;
	g_autofree char *path = g_build_filename(self->path, name, NULL);

	errno = code;
	return fail_call(what, path, error);
}

/* The directory */

void state_directory_free(StateDirectory *self)
{
	if (self == NULL)
		return;
	state_directory_close_fd(self->fd);
	g_free(self->path);
	g_free(self);
}

/* Returns: (nullable): the directory, or %NULL with errno set. */
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
		fail_call("open", path, error);
	return self;
}

/* Syncs the parent of the directory, so that the directory's name survives a crash. Called before
 * the first file is written. */
static gboolean sync_name(const StateDirectory *self, GError **error)
{
	g_auto(StateFd) parent = open_at(self->fd, self->path, "..", O_RDONLY | O_DIRECTORY);
	struct stat own, above;

	/* if this user may not open the parent, another user has created the directory durably */
	if (parent < 0 && errno == EACCES)
		return TRUE;
	if (parent < 0 || get_info(self->fd, self->path, NULL, &own) != 0 ||
	    get_info(parent, self->path, "..", &above) != 0)
		return fail_call("check the parent of", self->path, error);
	/* the name of a mount point needs no sync; EINVAL means that the file system is never
	 * written */
	return own.st_dev != above.st_dev || sync_fd(parent, self->path, "..") == 0 ||
	       errno == EINVAL || fail_call("sync the parent of", self->path, error);
}

/* Sets @error from errno. */
static void refuse_directory(const char *path, GError **error)
{
	int code = errno;
	gboolean is_link;

	if (code == ENOTDIR && test_path(path, G_FILE_TEST_EXISTS)) {
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			    "%s is not a directory; use another --state-directory", path);
		return;
	}
	is_link = test_path(path, G_FILE_TEST_IS_SYMLINK);
	errno = code;
	fail_call(code == ENOENT && is_link ? "follow the link" : "open", path, error);
}

/* Creates the directory, and its missing parents. */
static gboolean make_directory(const char *path, GError **error)
{
	g_autofree char *parent = g_path_get_dirname(path);

	if (!test_path(parent, G_FILE_TEST_EXISTS)) {
		g_autoptr(StateDirectory) made = NULL;

		if (!make_directory(parent, error))
			return FALSE;
		made = open_directory(parent);
		if (made == NULL) {
			refuse_directory(parent, error);
			return FALSE;
		}
		/* sync the name before anything is created in the directory */
		if (!sync_name(made, error))
			return FALSE;
	}
	/* EEXIST: another server has just created it */
	return DISK_CALL("make", path, NULL, g_mkdir(path, DIRECTORY_MODE)) == 0 ||
	       errno == EEXIST || fail_call("make the directory", path, error);
}

StateDirectory *state_directory_prepare(const char *path, GError **error)
{
	g_autoptr(StateDirectory) self = open_directory(path);
	struct stat info;

	if (self == NULL && errno == ENOENT) {
		if (!make_directory(path, error))
			return NULL;
		self = open_directory(path);
	}
	if (self == NULL) {
		refuse_directory(path, error);
		return NULL;
	}
	if (get_info(self->fd, self->path, NULL, &info) != 0)
		fail_call("look at", self->path, error);
	else if (info.st_uid != geteuid())
		text_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			       "the state directory %s belongs to user %u, but this server runs as "
			       "user %u; run it as that user, or use another --state-directory",
			       self->path, (guint)info.st_uid, (guint)geteuid());
	else if ((info.st_mode & OTHERS_MAY_WRITE) != 0)
		text_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"the state directory %s has mode %04o, so other users can change the "
			"reservations; run chmod go-w on it",
			self->path, (guint)info.st_mode & 07777);
	else
		return g_steal_pointer(&self);
	return NULL;
}

/* Reading a file */

/* Returns: (transfer full) (nullable): in what way the file is not as expected. */
static char *file_fault(const struct stat *info, nlink_t most_links)
{
	if (!S_ISREG(info->st_mode))
		return g_strdup(NOT_REGULAR);
	if (info->st_uid != geteuid())
		return g_strdup_printf("it belongs to user %u, but this server runs as user %u",
				       (guint)info->st_uid, (guint)geteuid());
	/* 0 links: the file was replaced in the meantime */
	if (info->st_nlink > most_links)
		return g_strdup_printf(
			"it has %u links; the limit is 1 (if the other links are a snapshot, stop "
			"all servers and copy the file: cp -p FILE x && mv x FILE)",
			(guint)info->st_nlink);
	if (info->st_size > MAX_BYTES)
		return g_strdup_printf("it has %" G_GINT64_FORMAT " bytes; the limit is %d",
				       (gint64)info->st_size, MAX_BYTES);
	return NULL;
}

/* Returns a descriptor; or -1 with FATAL set if the file is not as expected, with FAILED set, or
 * without an error if the file does not exist. */
static StateFd open_file(const StateDirectory *self, const char *name, int flags, GError **error)
{
	/* O_NONBLOCK, because a FIFO may have no process at its other end */
	g_auto(StateFd) fd = open_at(self->fd, self->path, name, flags | O_NOFOLLOW | O_NONBLOCK);
	/* a file that is written in place must have only one name */
	gboolean may_have_links = self->links_allowed && (flags & O_ACCMODE) == O_RDONLY;
	g_autofree char *fault = NULL;
	struct stat info;

	if (fd < 0 && errno == ENOENT)
		return -1;
	if (fd < 0 && errno == ELOOP) {
		fault = g_strdup("it is a symbolic link");
	} else if (fd < 0 && (errno == EISDIR || errno == ENXIO)) { /* a directory, a socket */
		fault = g_strdup(NOT_REGULAR);
	} else if (fd < 0) {
		fail_file(self, "open", name, error);
		return -1;
	} else if (get_info(fd, self->path, name, &info) != 0) {
		fail_file(self, "look at", name, error);
		return -1;
	} else {
		fault = file_fault(&info, may_have_links ? G_MAXUINT : 1);
	}
	if (fault == NULL)
		return g_steal_fd(&fd);
	g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
		    "%s/%s was changed by another program: %s; undo the change, or use another "
		    "--state-directory and --worker-id",
		    self->path, name, fault);
	return -1;
}

gboolean state_directory_read(const StateDirectory *self, const char *name, char **out_text,
			      GError **error)
{
	g_autoptr(GError) local = NULL;
	g_auto(StateFd) fd = open_file(self, name, O_RDONLY, &local);
	char buffer[MAX_BYTES + 1] = {0};
	gsize length = 0;
	ssize_t n;

	if (local != NULL) {
		g_propagate_error(error, g_steal_pointer(&local));
		return FALSE;
	}
	if (fd < 0) {
		*out_text = NULL;
		return TRUE;
	}
	disk_call_begin("read", self->path, name);
	do {
		n = read(fd, buffer + length, MAX_BYTES - length);
		if (n > 0)
			length += (gsize)n;
	} while ((n > 0 && length < MAX_BYTES) || (n < 0 && errno == EINTR));
	disk_call_end();
	if (n < 0)
		return fail_file(self, "read", name, error);
	if (memchr(buffer, '\0', length) != NULL)
		return text_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
				      "%s/%s is damaged: it contains a NUL at byte %zu", self->path,
				      name, strlen(buffer));
	*out_text = g_strdup(buffer);
	return TRUE;
}

/* Replacing a file */

static gboolean write_all(const StateDirectory *self, int fd, const char *name, const char *text)
{
	gsize left = strlen(text);
	gboolean is_written = TRUE;

	disk_call_begin("write", self->path, name);
	while (left > 0 && is_written) {
		ssize_t n = write(fd, text, left);

		is_written = n >= 0 || errno == EINTR;
		if (n > 0) {
			text += n;
			left -= (gsize)n;
		}
	}
	disk_call_end();
	return is_written;
}

static void remove_file(const StateDirectory *self, const char *name)
{
	(void)DISK_CALL("remove", self->path, name, unlinkat(self->fd, name, 0));
}

/* Locks an open file, or the directory itself (@name %NULL). Returns: %FALSE with errno set, to
 * EWOULDBLOCK if another process holds the lock */
static gboolean lock_fd(const StateDirectory *self, const char *name, int fd)
{
	return DISK_CALL("lock", self->path, name, flock(fd, LOCK_EX | LOCK_NB)) == 0;
}

static gboolean lock_directory(const StateDirectory *self, GError **error)
{
	for (int tries = 0; !lock_fd(self, NULL, self->fd); tries++) {
		if (errno != EWOULDBLOCK)
			return fail_call("lock (is it on a local file system?)", self->path, error);
		if (tries == LOCK_TRIES)
			return text_set_error(
				error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED,
				"cannot lock %s within %d ms: another process holds the lock; "
				"is a server stopped, or does another program lock it?",
				self->path, LOCK_TRIES * LOCK_PAUSE_US / 1000);
		fork_guard_pause();
		g_usleep(LOCK_PAUSE_US);
		fork_guard_resume();
	}
	return TRUE;
}

static void unlock_directory(const StateDirectory *self)
{
	(void)DISK_CALL("unlock", self->path, NULL, flock(self->fd, LOCK_UN));
}

/* Renames @temporary to @name, if the text of @name is @expected. The directory is locked only
 * during the comparison and the rename. */
static gboolean swap_file(const StateDirectory *self, const char *temporary, const char *name,
			  const char *expected, GError **error)
{
	g_autofree char *present = NULL;
	gboolean is_read, swapped = FALSE;

	if (!lock_directory(self, error))
		return FALSE;
	is_read = state_directory_read(self, name, &present, error);
	if (is_read && g_strcmp0(present, expected) != 0)
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST,
			    "another process wrote %s/%s at the same time", self->path, name);
	else if (is_read)
		swapped = DISK_CALL("replace", self->path, name,
				    renameat(self->fd, temporary, self->fd, name)) == 0 ||
			  fail_file(self, "replace", name, error);
	unlock_directory(self);
	return swapped;
}

/* Returns a descriptor of the file, which is in place but not yet durable, or -1. */
static StateFd put_file(const StateDirectory *self, const char *name, const char *expected,
			const char *text, GError **error)
{
	/* a name that no other writer uses: processes in different containers may have the same
	 * process ID, and a forked process can draw the same random numbers as its parent */
	g_autofree char *temporary =
		g_strdup_printf("%s.%d-%08x" TEMPORARY_SUFFIX, name, (int)getpid(), g_random_int());
	g_auto(StateFd) fd =
		open_at(self->fd, self->path, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);

	if (fd < 0 || !write_all(self, fd, temporary, text) ||
	    sync_fd(fd, self->path, temporary) != 0)
		fail_file(self, "write", temporary, error);
	else if (swap_file(self, temporary, name, expected, error))
		return g_steal_fd(&fd);
	if (fd >= 0)
		remove_file(self, temporary);
	return -1;
}

gboolean state_directory_replace(const StateDirectory *self, const char *name, const char *expected,
				 const char *text, StateFd *out_file, GError **error)
{
	g_auto(StateFd) fd = put_file(self, name, expected, text, error);

	if (fd < 0)
		return FALSE;
	if (out_file != NULL)
		*out_file = g_steal_fd(&fd);
	return sync_fd(self->fd, self->path, NULL) == 0 || fail_call("sync", self->path, error);
}

/* Listing the directory */

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

/* Returns: (nullable): the directory's entries, or %NULL with errno set. */
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

/* Returns: (nullable): the next name with this prefix and suffix; NULL with errno set to 0 if there
 * is none. */
static const char *next_name(const StateDirectory *self, DIR *listing, const char *prefix,
			     const char *suffix)
{
	const struct dirent *entry;

	disk_call_begin("list", self->path, NULL);
	do {
		errno = 0;
		entry = readdir(listing);
	} while (entry != NULL && !(g_str_has_prefix(entry->d_name, prefix) &&
				    g_str_has_suffix(entry->d_name, suffix)));
	disk_call_end();
	return entry != NULL ? entry->d_name : NULL;
}

void state_directory_clean(const StateDirectory *self, const char *name)
{
	g_autofree char *prefix = g_strconcat(name, ".", NULL);
	g_autoptr(DIR) listing = open_listing(self);
	const char *leftover;

	/* hold the lock, so that no file is removed between its comparison and its rename */
	if (listing == NULL || !lock_directory(self, NULL))
		return;
	while ((leftover = next_name(self, listing, prefix, TEMPORARY_SUFFIX)) != NULL)
		remove_file(self, leftover);
	unlock_directory(self);
}

/* Whether a file is still there */

/* Returns whether @name still refers to the file @fd; -1 if unknown. */
static int is_same_file(int directory_fd, const char *directory, const char *name, int fd)
{
	struct stat opened, named;

	if (DISK_CALL("look at", directory, name,
		      fstatat(directory_fd, name != NULL ? name : directory, &named,
			      AT_SYMLINK_NOFOLLOW)) != 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : -1;
	if (get_info(fd, directory, name, &opened) != 0)
		return -1;
	return opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

gboolean state_directory_is_at(const char *path, int fd)
{
	return is_same_file(AT_FDCWD, path, NULL, fd) != 0;
}

/* The identity */

/* Returns: (transfer full) */
static char *identity_to_json(const Layout *layout, const char *machine_id)
{
	JsonObject *identity = json_object_new();
	g_autofree char *layout_text = layout_to_string(layout);

	json_object_set_int_member(identity, "format", IDENTITY_FORMAT);
	json_object_set_string_member(identity, "layout", layout_text);
	json_object_set_string_member(identity, "machine_id", machine_id);
	return strict_json_print(identity);
}

/* Reads the identity. @out_text: set to %NULL if there is neither an identity nor a record */
static gboolean read_identity(const StateDirectory *self, const Layout *layout,
			      const char *machine_id, char **out_text, GError **error)
{
	g_autoptr(DIR) listing = NULL;
	g_autofree char *record = NULL;

	if (!state_directory_read(self, IDENTITY_NAME, out_text, error))
		return FALSE;
	if (*out_text != NULL)
		return TRUE;
	listing = open_listing(self);
	if (listing != NULL)
		record = g_strdup(next_name(self, listing, "worker-", ".json"));
	if (record == NULL && (listing == NULL || errno != 0))
		return fail_call("list", self->path, error);
	/* if a server has just created the record, it created the identity before */
	if (record != NULL && !state_directory_read(self, IDENTITY_NAME, out_text, error))
		return FALSE;
	if (record != NULL && *out_text == NULL) {
		g_autofree char *text = identity_to_json(layout, machine_id);

		return text_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"%s/%s is there without " IDENTITY_NAME
			", which contains the layout of its ticks; restore that file, or use "
			"another --state-directory and --worker-id; if the record was created "
			"here and for this layout, write %s into it",
			self->path, record, text);
	}
	return TRUE;
}

/* Creates a file, and reads it. If several servers start at the same time, the first one creates
 * it, and the others find it. */
static gboolean make_file(const StateDirectory *self, const char *name, const char *text,
			  char **out_text, GError **error)
{
	g_autoptr(GError) local = NULL;
	/* the next replacement in the directory also writes it to the disk */
	g_auto(StateFd) made = put_file(self, name, NULL, text, &local);

	if (made < 0 && !g_error_matches(local, REGISTRY_ERROR, REGISTRY_ERROR_LOST)) {
		g_propagate_error(error, g_steal_pointer(&local));
		return FALSE;
	}
	if (!state_directory_read(self, name, out_text, error))
		return FALSE;
	if (*out_text == NULL)
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FAILED,
			    "%s/%s was created, but does not exist", self->path, name);
	return *out_text != NULL;
}

static gboolean check_identity(const char *path, const char *text, const Layout *layout,
			       const char *machine_id, GError **error)
{
	g_autoptr(GError) local = NULL;
	g_autoptr(JsonObject) identity = strict_json_parse_object(text, strlen(text), &local);
	g_autofree char *our_layout = layout_to_string(layout);
	const char *their_layout, *their_machine;
	gint64 format;
	gboolean has_format = identity != NULL && strict_json_get_int(identity, "format", 0,
								      G_MAXINT64, &format, &local);

	if (has_format && format != IDENTITY_FORMAT)
		return text_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"%s has format %" G_GINT64_FORMAT
			", but this server supports format %d; use the version of the server "
			"that created it",
			path, format, IDENTITY_FORMAT);
	if (!has_format ||
	    (their_layout = strict_json_get_string(identity, "layout", &local)) == NULL ||
	    (their_machine = strict_json_get_string(identity, "machine_id", &local)) == NULL)
		return text_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"%s is damaged (%s); repair it, or use another --state-directory and "
			"--worker-id",
			path, local->message);
	if (!g_str_equal(their_layout, our_layout))
		return text_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"%s is for the layout %s, but this server uses %s; use that layout, or "
			"another --state-directory for separate IDs",
			path, their_layout, our_layout);
	if (!g_str_equal(their_machine, machine_id))
		return text_set_error(
			error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
			"%s is from another machine (machine_id %s; this machine is %s): two "
			"machines with copies issue the same IDs; use another "
			"--state-directory and --worker-id, or if the directory was moved "
			"here, write this machine_id into it",
			path, their_machine, machine_id);
	return TRUE;
}

gboolean state_directory_check_identity(const StateDirectory *self, const Layout *layout,
					const char *machine_id, GError **error)
{
	g_autofree char *path = g_build_filename(self->path, IDENTITY_NAME, NULL);
	char this_machine[SD_ID128_STRING_MAX] = NO_MACHINE_ID;
	g_autofree char *text = NULL;
	sd_id128_t id;

	if (machine_id == NULL) {
		if (sd_id128_get_machine_app_specific(APPLICATION_ID, &id) >= 0)
			sd_id128_to_string(id, this_machine);
		machine_id = this_machine;
	}
	if (!read_identity(self, layout, machine_id, &text, error))
		return FALSE;
	if (text == NULL) {
		g_autofree char *new_text = identity_to_json(layout, machine_id);

		/* sync the name first, so that the name of a directory with an identity is
		 * durable */
		if (!sync_name(self, error) ||
		    !make_file(self, IDENTITY_NAME, new_text, &text, error))
			return FALSE;
	}
	if (!check_identity(path, text, layout, machine_id, error))
		return FALSE;
	state_directory_clean(self, IDENTITY_NAME);
	return TRUE;
}

/* The ID as a registry. It is not in the file of the identity, because early versions refuse a file
 * with an additional member. */

gboolean state_directory_get_id(const StateDirectory *self, char out_id[static UUID_TEXT_SIZE],
				GError **error)
{
	g_autofree char *text = NULL;
	g_autofree char *new_text = NULL;
	g_autoptr(JsonObject) object = NULL;
	g_autoptr(GError) local = NULL;
	const char *id = NULL;
	Uuid uuid;

	if (!state_directory_read(self, ID_NAME, &text, error))
		return FALSE;
	if (text == NULL) {
		JsonObject *new_object = json_object_new();
		char new_id[UUID_TEXT_SIZE];

		uuid_to_text(uuid_random(), new_id);
		json_object_set_int_member(new_object, "format", ID_FORMAT);
		json_object_set_string_member(new_object, "id", new_id);
		new_text = strict_json_print(new_object);
		if (!make_file(self, ID_NAME, new_text, &text, error))
			return FALSE;
	}
	object = strict_json_parse_record(text, strlen(text), &local);
	if (object != NULL)
		id = strict_json_get_string(object, "id", &local);
	if (id == NULL || !uuid_parse(id, &uuid, &local))
		return text_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_FATAL,
				      "%s/" ID_NAME
				      ", which contains the ID of the directory, is damaged "
				      "(%s); delete it, so that the server generates another ID",
				      self->path, local->message);
	uuid_to_text(uuid, out_id);
	state_directory_clean(self, ID_NAME);
	return TRUE;
}

/* The lock of a worker ID */

/* Returns: (transfer full): a description of the process that holds the lock, if it has already
 *   written one. */
static char *describe_holder(const StateDirectory *self, const char *name)
{
	g_autofree char *text = NULL;
	g_autoptr(JsonObject) holder = NULL;
	const char *address, *started;
	gint64 pid;

	if (state_directory_read(self, name, &text, NULL) && text != NULL)
		holder = strict_json_parse_object(text, strlen(text), NULL);
	if (holder == NULL || !strict_json_get_int(holder, "pid", 0, G_MAXINT64, &pid, NULL) ||
	    (address = strict_json_get_string(holder, "address", NULL)) == NULL ||
	    (started = strict_json_get_string(holder, "started", NULL)) == NULL)
		return g_strdup("another process");
	return g_strdup_printf("pid %" G_GINT64_FORMAT " (%s, started %s)", pid, address, started);
}

/* Writes a description of this process into the file. If this fails, the lock is still held, but
 * without a description. */
static void write_holder(const StateDirectory *self, const char *name, const char *address, int fd)
{
	g_autofree char *started = text_time_ms(g_get_real_time() / 1000);
	JsonObject *holder = json_object_new();
	g_autofree char *text = NULL;
	gboolean is_written;

	json_object_set_int_member(holder, "pid", getpid());
	json_object_set_string_member(holder, "address", address);
	json_object_set_string_member(holder, "started", started);
	text = strict_json_print(holder);
	is_written = DISK_CALL("write", self->path, name,
			       ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) >= 0);
	if (!is_written)
		g_debug("cannot write %s: %s", name, g_strerror(errno));
}

/* Returns a descriptor that holds the lock, or -1. */
static StateFd open_and_lock(const StateDirectory *self, const char *name, const char *address,
			     GError **error)
{
	g_autoptr(GError) local = NULL;
	g_auto(StateFd) fd = open_file(self, name, O_RDWR | O_CREAT, &local);
	g_autofree char *holder = NULL;

	if (local != NULL) {
		g_propagate_error(error, g_steal_pointer(&local));
	} else if (fd < 0) { /* the directory itself was removed */
		errno = ENOENT;
		fail_file(self, "make", name, error);
	} else if (lock_fd(self, name, fd)) {
		write_holder(self, name, address, fd);
		return g_steal_fd(&fd);
	} else if (errno != EWOULDBLOCK) {
		fail_file(self, "lock", name, error);
	} else {
		holder = describe_holder(self, name);
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST, "held by %s", holder);
	}
	return -1;
}

gboolean state_directory_take_lock(const StateDirectory *self, const char *name,
				   const char *address, StateFd *fd, GError **error)
{
	/* check again after locking, because the file may have been removed before the lock was
	 * taken */
	while (*fd < 0 || is_same_file(self->fd, self->path, name, *fd) != 1) {
		state_directory_close_fd(g_steal_fd(fd));
		*fd = open_and_lock(self, name, address, error);
		if (*fd < 0)
			return FALSE;
	}
	return TRUE;
}
