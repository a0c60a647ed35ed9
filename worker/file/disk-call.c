/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/file/disk-call.h"

#include <errno.h>
#include <pthread.h>

#include "common/fork-guard.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* protects call */
static struct {
	guint64 number;
	const char *operation; /* NULL if no call is in progress */
	const char *directory;
	const char *name;
	gint64 began_us;
} call;

void disk_call_begin(const char *operation, const char *directory, const char *name)
{
	pthread_mutex_lock(&mutex);
	call.number++;
	call.operation = operation;
	call.directory = directory;
	call.name = name;
	call.began_us = g_get_monotonic_time();
	pthread_mutex_unlock(&mutex);
	fork_guard_pause();
}

void disk_call_end(void)
{
	int code = errno;

	fork_guard_resume();
	pthread_mutex_lock(&mutex);
	call.operation = NULL;
	pthread_mutex_unlock(&mutex);
	errno = code;
}

void disk_call_clear(DiskCall *self)
{
	g_free(self->path);
	*self = (DiskCall){0};
}

gboolean disk_call_find(DiskCall *out_call)
{
	const char *directory, *name;
	gboolean is_found;

	pthread_mutex_lock(&mutex);
	is_found = call.operation != NULL;
	if (is_found) {
		directory = call.directory != NULL ? call.directory : "";
		name = call.directory != NULL ? call.name : NULL;
		*out_call = (DiskCall){
			.number = call.number,
			.operation = call.operation,
			.path = name != NULL ? g_build_filename(directory, name, NULL)
					     : g_strdup(directory),
			.began_us = call.began_us,
		};
	}
	pthread_mutex_unlock(&mutex);
	return is_found;
}

char *disk_call_describe_hanging(gint64 least_us)
{
	g_auto(DiskCall) hanging = {0};
	gint64 for_us;

	if (!disk_call_find(&hanging))
		return NULL;
	for_us = g_get_monotonic_time() - hanging.began_us;
	if (for_us < least_us)
		return NULL;
	return g_strdup_printf("the disk hangs: \"%s\" %s%shas taken %" G_GINT64_FORMAT " ms",
			       hanging.operation, hanging.path, *hanging.path != '\0' ? " " : "",
			       for_us / G_TIME_SPAN_MILLISECOND);
}

void disk_call_hold(void)
{
	pthread_mutex_lock(&mutex);
}

void disk_call_go_on(void)
{
	pthread_mutex_unlock(&mutex);
}

void disk_call_go_on_in_child(void)
{
	call.operation = NULL;
	pthread_mutex_unlock(&mutex);
}
