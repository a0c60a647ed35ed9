/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "common/zookeeper/handle.h"
#include "worker/zookeeper/session.h"

/* What session.c, which has the requests and what comes of them, and session-thread.c, which makes
 * and closes the handle, share. */
typedef struct _ZookeeperSession ZookeeperSession;

struct _ZookeeperSession {
	ZookeeperSessionConfig config; /* with texts of its own */
	guint64 last_request;
	const struct ACL_vector *acl; /* of what is created */
	struct ACL own_entry;         /* of that, with auth: everything, for them alone */
	struct ACL_vector own_acl;

	pthread_mutex_t mutex; /* for what follows */
	pthread_cond_t changed;
	zhandle_t *handle; /* (nullable): set with OPENED */
	GQueue messages;   /* of ZookeeperMessage */
	gint64 timeout_ms;
	gboolean opened; /* or it cannot be: the message that says so is, or was, the first */
	gboolean ending; /* the owner wants no more of it */
	gboolean ended;  /* the thread has closed it, or there is none */
	gboolean left;   /* the owner does not wait for that: the thread frees it */
};

/* Called by the client's threads. */
void zookeeper_session_on_event(zhandle_t *handle, int type, int state, const char *path,
				void *context);
