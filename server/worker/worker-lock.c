/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/worker-lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/strict-json.h"
#include "core/text.h"
#include "server/worker/registry.h"
#include "server/worker/state-directory.h"

#define FILE_MODE 0640

struct _WorkerLock {
	char *path;
	char *address;
	StateFd fd; /* locked; -1: not held */
};

WorkerLock *worker_lock_new(const char *path, const char *address)
{
	WorkerLock *self = g_new(WorkerLock, 1);

	*self = (WorkerLock){g_strdup(path), g_strdup(address), -1};
	return self;
}

static void let_go(WorkerLock *self)
{
	if (self->fd >= 0)
		close(self->fd);
	self->fd = -1;
}

void worker_lock_free(WorkerLock *self)
{
	if (self == NULL)
		return;
	let_go(self);
	g_free(self->path);
	g_free(self->address);
	g_free(self);
}

/* Whether the file that is open is still the one that others would find. */
static gboolean is_at_path(int fd, const char *path)
{
	struct stat open_file, named_file;

	return fstat(fd, &open_file) == 0 && stat(path, &named_file) == 0 &&
	       open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
}

/* (transfer full): as far as the holder has got with writing it. */
static char *describe_holder(const char *path)
{
	g_autofree char *text = NULL;
	g_autoptr(JsonObject) holder = NULL;
	const char *address, *started;
	gsize length;
	gint64 pid;

	if (g_file_get_contents(path, &text, &length, NULL))
		holder = strict_json_parse_object(text, length, NULL);
	if (holder == NULL || !strict_json_get_int(holder, "pid", 0, G_MAXINT64, &pid, NULL) ||
	    (address = strict_json_get_string(holder, "address", NULL)) == NULL ||
	    (started = strict_json_get_string(holder, "started", NULL)) == NULL)
		return g_strdup("another process");
	return g_strdup_printf("pid %" G_GINT64_FORMAT " (%s, started %s)", pid, address, started);
}

/* A lock without a description is as good a lock: nothing fails for it. */
static void write_holder(WorkerLock *self)
{
	g_autofree char *started = text_time_ms(g_get_real_time() / 1000);
	JsonObject *holder = json_object_new();
	g_autofree char *text = NULL;

	json_object_set_int_member(holder, "pid", getpid());
	json_object_set_string_member(holder, "address", self->address);
	json_object_set_string_member(holder, "started", started);
	text = strict_json_print(holder);
	if (ftruncate(self->fd, 0) != 0 || pwrite(self->fd, text, strlen(text), 0) < 0)
		g_debug("cannot write %s: %s", self->path, g_strerror(errno));
}

static gboolean open_and_lock(WorkerLock *self, GError **error)
{
	g_auto(StateFd) fd = open(self->path, O_RDWR | O_CREAT | O_CLOEXEC, FILE_MODE);

	if (fd < 0)
		return state_directory_fail("open", self->path, error);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		g_autofree char *holder = NULL;

		if (errno != EWOULDBLOCK)
			return state_directory_fail("lock", self->path, error);
		holder = describe_holder(self->path);
		g_set_error(error, REGISTRY_ERROR, REGISTRY_ERROR_LOST, "held by %s", holder);
		return FALSE;
	}
	self->fd = fd;
	fd = -1;
	write_holder(self);
	return TRUE;
}

gboolean worker_lock_take(WorkerLock *self, GError **error)
{
	/* again after locking: the file may have been removed between open() and flock() */
	while (self->fd < 0 || !is_at_path(self->fd, self->path)) {
		let_go(self);
		if (!open_and_lock(self, error))
			return FALSE;
	}
	return TRUE;
}
