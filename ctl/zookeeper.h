/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/zookeeper/hosts.h"

/*
 * A session with ZooKeeper that sends many requests at once and waits for all replies. One thread
 * uses it. It changes nothing in ZooKeeper except by SET and CREATE.
 */

#define CTL_ZOOKEEPER_ERROR (ctl_zookeeper_error_quark())
GQuark ctl_zookeeper_error_quark(void);

typedef enum {
	/* No connection or no reply in time, or the session has ended. A new session can succeed.
	 */
	CTL_ZOOKEEPER_ERROR_LOST,
	/* Not allowed, or not a path. A new session would fail too. */
	CTL_ZOOKEEPER_ERROR_REFUSED,
} CtlZookeeperError;

gboolean ctl_zookeeper_is_lost(const GError *error);

typedef enum {
	CTL_ZNODE_GET,      /* its data */
	CTL_ZNODE_LIST,     /* the names of its children */
	CTL_ZNODE_SET,      /* other data, if it has that version */
	CTL_ZNODE_CREATE,   /* if it is not there; after a TAKE_ACL */
	CTL_ZNODE_LOOK,     /* whether it exists */
	CTL_ZNODE_TAKE_ACL, /* who may do what to it: that is what CREATE gives from then on */
} CtlZnodeOperation;

typedef enum {
	CTL_ZNODE_DONE,
	CTL_ZNODE_MISSING,  /* there is no such znode */
	CTL_ZNODE_CONFLICT, /* it has another version, or is there already */
	CTL_ZNODE_DENIED,   /* it is not allowed; an error, unless may_be_denied is set */
} CtlZnodeResult;

/* One request and its answer. */
typedef struct {
	CtlZnodeOperation operation;
	char *path;
	char *data;     /* what GET has read, with a NUL after it; what SET or CREATE writes */
	int length;     /* of data; -1: the znode has none */
	gint32 version; /* what GET has read; what SET asks for, and the one after it */
	char **names;   /* what LIST has read; in no order */
	gint64 created_at_ms;   /* by ZooKeeper's clock, since the Unix epoch; not by LIST */
	gint64 modified_at_ms;  /* likewise */
	gboolean may_be_denied; /* that it is not allowed is a result, DENIED, and no error */
	CtlZnodeResult result;

	int code;            /* the client library's own */
	gpointer in_session; /* while it is under way */
} CtlZnode;

/* (transfer full) (element-type CtlZnode) */
GPtrArray *ctl_znode_list_new(void);

/* @path: (transfer full). SET and CREATE need more. Returns: (transfer none): for that. */
CtlZnode *ctl_znode_list_add(GPtrArray *self, CtlZnodeOperation operation, char *path);

typedef struct _CtlZookeeper CtlZookeeper;

/**
 * ctl_zookeeper_connect:
 * @auth: (nullable): "user:password"
 * @timeout_ms: how long to connect may take, and then how long ZooKeeper may be without an answer
 *
 * Returns: (transfer full) (nullable): a session, or %NULL with an error set
 */
CtlZookeeper *ctl_zookeeper_connect(const ZookeeperHosts *hosts, const char *auth, guint timeout_ms,
				    GError **error);
void ctl_zookeeper_free(CtlZookeeper *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlZookeeper, ctl_zookeeper_free)

/* (transfer none): "a:2181,b:2181", as it was given. */
const char *ctl_zookeeper_servers(const CtlZookeeper *self);

/* Does @znodes, an array of CtlZnode, all at once. %FALSE with an error set if one of them came to
 * none of the results above; the others may have been done all the same. */
gboolean ctl_zookeeper_do(CtlZookeeper *self, const GPtrArray *znodes, GError **error);
