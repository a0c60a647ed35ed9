/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "common/zookeeper/handle.h"
#include "ctl/zookeeper.h"

/* What the requests of a session and its watches share. */

typedef struct _CtlZookeeper CtlZookeeper;

struct _CtlZookeeper {
	zhandle_t *handle; /* NULL: given up */
	char *servers;
	char *certificates; /* (nullable): of ZookeeperHosts */
	char *identity;     /* of the auth it was made with, for ACLs; NULL: it came without */
	guint timeout_ms;
	gboolean is_left; /* the client library's threads were left behind, and use it */

	/* What the client library's threads write, under the lock. */
	pthread_mutex_t lock;
	pthread_cond_t woken;
	int state;
	guint unanswered;
	guint changes;
	struct ACL_vector acl; /* for CREATE; empty: ZooKeeper refuses it */
};

/* A time on the clock of @woken. */
struct timespec ctl_zookeeper_deadline(guint milliseconds);

/* Under the lock, which it gives up meanwhile. %FALSE: it is @deadline. */
gboolean ctl_zookeeper_wait_until(CtlZookeeper *self, const struct timespec *deadline);

/* Gives the session up, with LOST: no thread of the client library is left behind it, and nothing
 * is under way. Returns %FALSE. */
gboolean ctl_zookeeper_lose(CtlZookeeper *self, GError **error, const char *what);

/* Does @znodes, all at once. @watcher: NULL, or ctl_zookeeper_on_event() */
gboolean ctl_zookeeper_request(CtlZookeeper *self, const GPtrArray *znodes, watcher_fn watcher,
			       GError **error);

/* Called by the client library: counts the change, and wakes the owner. */
void ctl_zookeeper_on_event(zhandle_t *handle, int type, int state, const char *path,
			    void *context);
