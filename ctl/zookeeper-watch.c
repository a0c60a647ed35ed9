/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/zookeeper-private.h"

#define QUIET_MS 50
#define BURST_MS 500 /* as long may a burst of changes go on unseen */

/* A missing znode has no data or children to watch. */
static gboolean watch_missing(CtlZookeeper *self, const GPtrArray *znodes, GError **error)
{
	g_autoptr(GPtrArray) missing = ctl_znode_list_new();

	for (guint i = 0; i < znodes->len; i++) {
		const CtlZnode *znode = znodes->pdata[i];

		if (znode->result == CTL_ZNODE_MISSING)
			ctl_znode_list_add(missing, CTL_ZNODE_LOOK, g_strdup(znode->path));
	}
	if (!ctl_zookeeper_request(self, missing, ctl_zookeeper_on_event, error))
		return FALSE;
	for (guint i = 0; i < missing->len; i++) {
		const CtlZnode *znode = missing->pdata[i];

		/* made since it was read */
		if (znode->result == CTL_ZNODE_DONE) {
			pthread_mutex_lock(&self->lock);
			self->changes++;
			pthread_mutex_unlock(&self->lock);
		}
	}
	return TRUE;
}

gboolean ctl_zookeeper_watch(CtlZookeeper *self, const GPtrArray *znodes, GError **error)
{
	return ctl_zookeeper_request(self, znodes, ctl_zookeeper_on_event, error) &&
	       watch_missing(self, znodes, error);
}

/* Under the lock. Waits for the first change, or, as long as there is a connection, until @end.
 * %FALSE: there is none. */
static gboolean wait_first(CtlZookeeper *self, const struct timespec *end)
{
	struct timespec deadline;
	gboolean was_connected = TRUE;

	for (;;) {
		gboolean connected = self->state == ZOO_CONNECTED_STATE;

		if (connected && self->changes > 0)
			return TRUE;
		if (self->state == ZOO_EXPIRED_SESSION_STATE)
			return FALSE;
		if (connected) {
			if (!ctl_zookeeper_wait_until(self, end))
				return TRUE;
		} else {
			if (was_connected)
				deadline = ctl_zookeeper_deadline(self->timeout_ms);
			if (!ctl_zookeeper_wait_until(self, &deadline))
				return self->state == ZOO_CONNECTED_STATE;
		}
		was_connected = connected;
	}
}

/* Under the lock. */
static void wait_quiet(CtlZookeeper *self)
{
	gint64 began_us = g_get_monotonic_time();
	guint changes;

	do {
		struct timespec deadline = ctl_zookeeper_deadline(QUIET_MS);

		changes = self->changes;
		while (ctl_zookeeper_wait_until(self, &deadline))
			;
	} while (self->changes > changes &&
		 g_get_monotonic_time() - began_us < BURST_MS * G_GINT64_CONSTANT(1000));
}

/* Whether ZooKeeper is there, and nothing has changed that it would not have told of. */
static gboolean sync_now(CtlZookeeper *self, GError **error)
{
	g_autoptr(GPtrArray) znodes = ctl_znode_list_new();

	ctl_znode_list_add(znodes, CTL_ZNODE_SYNC, g_strdup("/"));
	return ctl_zookeeper_request(self, znodes, NULL, error);
}

gboolean ctl_zookeeper_wait_change(CtlZookeeper *self, guint max_ms, gboolean *out_changed,
				   GError **error)
{
	struct timespec end = ctl_zookeeper_deadline(max_ms);

	if (self->handle == NULL)
		return ctl_zookeeper_lose(self, error, "the connection was lost");
	pthread_mutex_lock(&self->lock);

	gboolean connected = wait_first(self, &end);
	gboolean changed = self->changes > 0;

	pthread_mutex_unlock(&self->lock);
	if (!connected)
		return ctl_zookeeper_lose(self, error, "the connection is lost");
	if (!changed && !sync_now(self, error))
		return FALSE;
	pthread_mutex_lock(&self->lock);
	if (self->changes > 0)
		wait_quiet(self);
	*out_changed = self->changes > 0;
	self->changes = 0;
	pthread_mutex_unlock(&self->lock);
	return TRUE;
}
