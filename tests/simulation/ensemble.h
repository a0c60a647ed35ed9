/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/world.h"
#include "worker/zookeeper/session.h"

/*
 * A simulated ZooKeeper ensemble: a leader that orders the writes, three followers that apply them
 * with a lag and answer reads, and sessions that expire. The client side is in sessions.h.
 *
 * The rules are those of https://zookeeper.apache.org/doc/r3.8.0/zookeeperProgrammers.html and
 * zookeeperInternals.html: versions, sequence numbers, ephemeral znodes, transactions and one-shot
 * watches. A client never connects to a server that has applied less than the client has seen.
 */

#define ENSEMBLE_SERVERS 3

typedef enum {
	ENSEMBLE_GET,
	ENSEMBLE_EXISTS,
	ENSEMBLE_CHILDREN,
	ENSEMBLE_CREATE,
	ENSEMBLE_CREATE_EPHEMERAL, /* and sequential */
	ENSEMBLE_DELETE,
	ENSEMBLE_GET_ACL,
	ENSEMBLE_SYNC,
	ENSEMBLE_COMMIT,
	ENSEMBLE_CLOSE, /* the session */
} EnsembleOperation;

typedef struct {
	EnsembleOperation operation;
	char *path; /* NULL for COMMIT and CLOSE */
	char *data;
	guint n_writes;
	ZookeeperWrite writes[ZOOKEEPER_MAX_WRITES]; /* the request owns these strings */
} EnsembleRequest;

void ensemble_request_clear(EnsembleRequest *request);

void ensemble_init(void);
void ensemble_clear(void);

/* The leader's clock, which stamps the writes. */
gint64 ensemble_now_ms(void);
/* Changes the leader: the clock of the new one is ahead of true time by @ahead_ms. */
void ensemble_set_clock(gint64 ahead_ms);

/* Sessions. @auth: (nullable): "user:password". Returns: its ID, 1 or more. */
gint64 ensemble_open_session(const char *auth, gint64 timeout_ms);
gboolean ensemble_is_session_alive(gint64 session);
void ensemble_expire_session(gint64 session);

/* @last_contact_us: returns the time of the last message from a session's client; called before the
 * session expires. @ended: called when a session has ended. */
void ensemble_set_clients(gint64 (*last_contact_us)(gint64 session), void (*ended)(gint64 session));

/**
 * ensemble_execute:
 * @server: the server that the client is connected to, 0 to ENSEMBLE_SERVERS - 1
 *
 * Returns: (transfer full): the reply, without its number and times; %NULL if the session has
 *   expired, and the request was not executed
 */
ZookeeperMessage *ensemble_execute(guint server, gint64 session, const EnsembleRequest *request);

/* The number of the last write that a server has applied. */
guint64 ensemble_applied(guint server);

/* Called when a server has applied a change to a znode. */
typedef enum { ENSEMBLE_MADE, ENSEMBLE_CHANGED, ENSEMBLE_GONE } EnsembleChange;
void ensemble_set_applied(void (*applied)(guint server, const char *path, EnsembleChange change));

/* Looks up the last change of a znode and of its children at a server, as numbers of writes: for
 * watches that a new connection sets again. Returns: %FALSE if there is no such znode */
gboolean ensemble_find(guint server, const char *path, guint64 *out_changed,
		       guint64 *out_children_changed);

/* Faults, and actions of operators. Each takes effect at the leader at once. */

/* Returns: (nullable): borrowed until the next change. */
const char *ensemble_read(const char *path);
/* Makes or sets a znode, and makes its parents. */
void ensemble_write(const char *path, const char *data);
void ensemble_delete(const char *path);
/* Deletes each ephemeral znode with this probability. */
void ensemble_delete_claims(gdouble probability);
/* Returns: (element-type char) (transfer full): @prefix and the paths below it, in order. */
GPtrArray *ensemble_paths(const char *prefix);

/* Until @until_us, requests for @prefix and below fail with @outcome: NO_AUTH for all, or REFUSED
 * for writes only, as by a quota. */
void ensemble_deny(const char *prefix, ZookeeperOutcome outcome, gint64 until_us);

/* Backs everything up, and restores the last backup. After a restore the sessions are those of the
 * backup. Cut off all clients before a restore. */
void ensemble_back_up(void);
gboolean ensemble_has_backup(void);
void ensemble_restore(void);

/* Called before each change of a znode that the leader commits for a session. @data: the new data;
 * NULL if the znode is being deleted */
void ensemble_set_committed(void (*committed)(const char *path, const char *data));
guint64 ensemble_n_writes(void);
