/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/zookeeper/reach-probe.h"

#include <pthread.h>

#include "common/thread.h"
#include "common/zookeeper/handle.h"

struct _ReachProbe {
	char *servers;
	char *certificates; /* (nullable) */
	void (*done)(gpointer user_data);
	gpointer user_data;

	pthread_mutex_t mutex; /* protects the members below */
	char *text;            /* (nullable): the result */
	gboolean is_done;      /* the result is known */
	gboolean is_dropped;   /* the owner has called free(), so the thread frees the probe */
};

static void probe_destroy(ReachProbe *self)
{
	pthread_mutex_destroy(&self->mutex);
	g_free(self->servers);
	g_free(self->certificates);
	g_free(self->text);
	g_free(self);
}

static void *probe_thread(void *data)
{
	ReachProbe *self = data;
	char *text;
	gboolean is_dropped;

	text = zookeeper_handle_describe_trouble(self->servers, self->certificates);
	pthread_mutex_lock(&self->mutex);
	self->text = text;
	self->is_done = TRUE;
	is_dropped = self->is_dropped;
	/* under the mutex, so that done() is not called after free() */
	if (!is_dropped)
		self->done(self->user_data);
	pthread_mutex_unlock(&self->mutex);
	if (is_dropped)
		probe_destroy(self);
	return NULL;
}

ReachProbe *reach_probe_new(const char *servers, const char *certificates,
			    void (*done)(gpointer user_data), gpointer user_data)
{
	ReachProbe *self = g_new0(ReachProbe, 1);

	self->servers = g_strdup(servers);
	self->certificates = g_strdup(certificates);
	self->done = done;
	self->user_data = user_data;
	pthread_mutex_init(&self->mutex, NULL);
	if (thread_start_detached("reach", probe_thread, self) == 0)
		return self;
	probe_destroy(self);
	return NULL;
}

gboolean reach_probe_take(ReachProbe *self, char **out_text)
{
	gboolean is_done;

	pthread_mutex_lock(&self->mutex);
	is_done = self->is_done;
	if (is_done)
		*out_text = g_steal_pointer(&self->text);
	pthread_mutex_unlock(&self->mutex);
	return is_done;
}

void reach_probe_free(ReachProbe *self)
{
	gboolean is_done;

	if (self == NULL)
		return;
	pthread_mutex_lock(&self->mutex);
	is_done = self->is_done;
	self->is_dropped = !is_done;
	pthread_mutex_unlock(&self->mutex);
	if (is_done)
		probe_destroy(self);
}
