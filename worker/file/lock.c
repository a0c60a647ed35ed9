/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/strict-json.h"
#include "core/text.h"
#include "worker/file/disk-call.h"
#include "worker/registry.h"

struct _FileLock {
	char *name;
	char *address;
	StateFd fd; /* locked; -1: not held */
};

FileLock *file_lock_new(const char *name, const char *address)
{
	FileLock *self = g_new(FileLock, 1);

	*self = (FileLock){g_strdup(name), g_strdup(address), -1};
	return self;
}

static void let_go(FileLock *self)
{
	if (self->fd >= 0)
		state_directory_close_fd(self->fd);
	self->fd = -1;
}

void file_lock_free(FileLock *self)
{
	if (self == NULL)
		return;
	let_go(self);
	g_free(self->name);
	g_free(self->address);
	g_free(self);
}

/* (transfer full): as far as the holder has got with writing it. */
static char *describe_holder(const FileLock *self, const StateDirectory *directory)
{
	g_autofree char *text = NULL;
	g_autoptr(JsonObject) holder = NULL;
	const char *address, *started;
	gint64 pid;

	if (state_directory_read(directory, self->name, &text, NULL) && text != NULL)
		holder = strict_json_parse_object(text, strlen(text), NULL);
	if (holder == NULL || !strict_json_get_int(holder, "pid", 0, G_MAXINT64, &pid, NULL) ||
	    (address = strict_json_get_string(holder, "address", NULL)) == NULL ||
	    (started = strict_json_get_string(holder, "started", NULL)) == NULL)
		return g_strdup("another process");
	return g_strdup_printf("pid %" G_GINT64_FORMAT " (%s, started %s)", pid, address, started);
}

/* A lock without a description is as good a lock: nothing fails for it. */
static void write_holder(FileLock *self, const StateDirectory *directory)
{
	g_autofree char *started = text_time_ms(g_get_real_time() / 1000);
	JsonObject *holder = json_object_new();
	g_autofree char *path = state_directory_file_path(directory, self->name);
	g_autofree char *text = NULL;
	gboolean is_written;

	json_object_set_int_member(holder, "pid", getpid());
	json_object_set_string_member(holder, "address", self->address);
	json_object_set_string_member(holder, "started", started);
	text = strict_json_print(holder);
	disk_call_begin("write", path, NULL);
	is_written = ftruncate(self->fd, 0) == 0 && pwrite(self->fd, text, strlen(text), 0) >= 0;
	disk_call_end();
	if (!is_written)
		g_debug("cannot write %s: %s", self->name, g_strerror(errno));
}

static gboolean open_and_lock(FileLock *self, const StateDirectory *directory, GError **error)
{
	g_autoptr(GError) local = NULL;
	g_auto(StateFd) fd =
		state_directory_open_file(directory, self->name, O_RDWR | O_CREAT, &local);

	if (local != NULL) {
		g_propagate_error(error, g_steal_pointer(&local));
		return FALSE;
	}
	if (fd < 0) { /* the directory itself was removed */
		errno = ENOENT;
		return state_directory_fail_file(directory, "make", self->name, error);
	}
	if (!state_directory_lock_fd(directory, self->name, fd)) {
		g_autofree char *holder = NULL;

		if (errno != EWOULDBLOCK)
			return state_directory_fail_file(directory, "lock", self->name, error);
		holder = describe_holder(self, directory);
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST, "held by %s", holder);
		return FALSE;
	}
	self->fd = g_steal_fd(&fd);
	write_holder(self, directory);
	return TRUE;
}

gboolean file_lock_take(FileLock *self, const StateDirectory *directory, GError **error)
{
	/* again after locking: the file may have been removed between open() and flock() */
	while (self->fd < 0 || !state_directory_has(directory, self->name, self->fd)) {
		let_go(self);
		if (!open_and_lock(self, directory, error))
			return FALSE;
	}
	return TRUE;
}
