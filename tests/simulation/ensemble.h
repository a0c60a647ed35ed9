/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/world.h"
#include "worker/zookeeper/session.h"

/*
 * A ZooKeeper ensemble of a world, as its servers see it: a leader that orders the writes, three
 * servers that follow it with a lag and answer reads from what they have applied, and sessions that
 * expire. What a client makes of it is in simulated-session.c.
 *
 * The rules are those of https://zookeeper.apache.org/doc/r3.8.0/zookeeperProgrammers.html and
 * zookeeperInternals.html: versions, sequence numbers, ephemeral znodes, transactions, one-shot
 * watches, and a client that is never served by a server which has applied less than it has seen.
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
	ENSEMBLE_SET_ACL, /* @version: of the ACL */
	ENSEMBLE_SYNC,
	ENSEMBLE_COMMIT,
	ENSEMBLE_CLOSE, /* the session */
} EnsembleOperation;

typedef struct {
	EnsembleOperation operation;
	char *path; /* NULL: COMMIT, CLOSE */
	char *data;
	gint32 version;
	guint n_writes;
	ZookeeperWrite writes[ZOOKEEPER_MAX_WRITES]; /* their texts are owned */
} EnsembleRequest;

void ensemble_request_clear(EnsembleRequest *request);

void ensemble_init(void);
void ensemble_clear(void);

/* The leader's clock, which stamps what is written. */
gint64 ensemble_now_ms(void);
/* Another server leads, and its clock is ahead of true time by so much. */
void ensemble_set_clock(gint64 ahead_ms);

/* Sessions. @auth: (nullable): "user:password". Returns: its ID, 1 or more. */
gint64 ensemble_open_session(const char *auth, gint64 timeout_ms);
gboolean ensemble_is_session_alive(gint64 session);
void ensemble_expire_session(gint64 session);

/* @heard_us: when the client of a session was heard last; asked for before it expires. @ended: the
 * session has ended. */
void ensemble_set_clients(gint64 (*heard_us)(gint64 session), void (*ended)(gint64 session));

/**
 * ensemble_execute:
 * @server: that is connected to the client, 0 to ENSEMBLE_SERVERS - 1
 *
 * Returns: (transfer full): the reply, but for its number and times; %NULL if the session has
 *   expired: nothing was done
 */
ZookeeperMessage *ensemble_execute(guint server, gint64 session, const EnsembleRequest *request);

/* How many writes a server has applied, in the order of all; a client is not connected to one that
 * has applied less than it has seen. */
guint64 ensemble_applied(guint server);

/* Called when a server has applied a change to a znode. */
typedef enum { ENSEMBLE_MADE, ENSEMBLE_CHANGED, ENSEMBLE_GONE } EnsembleChange;
void ensemble_set_applied(void (*applied)(guint server, const char *path, EnsembleChange change));

/* What a server knows of a znode, for watches that are set again: when it was changed, and when its
 * children were, last. %FALSE: there is none. */
gboolean ensemble_find(guint server, const char *path, guint64 *out_changed,
		       guint64 *out_children_changed);

/* Faults, and what operators do. Each takes effect at the leader at once. */

/* (nullable): borrowed until the next change. */
const char *ensemble_read(const char *path);
/* Makes or sets it, with all that is above it, whatever its version. */
void ensemble_write(const char *path, const char *data);
void ensemble_delete(const char *path);
/* Deletes some ephemeral znodes by chance. */
void ensemble_delete_claims(gdouble probability);
/* (element-type char) (transfer full): the paths below @prefix, in order. */
GPtrArray *ensemble_paths(const char *prefix);

/* Requests about @prefix and below end with @outcome until @until_us: NO_AUTH, or REFUSED as by a
 * quota, which concerns writes only. */
void ensemble_deny(const char *prefix, ZookeeperOutcome outcome, gint64 until_us);

/* A backup of everything, and going back to it: all sessions of since then are unknown, those of
 * before live again. The clients are to be cut off before. */
void ensemble_back_up(void);
gboolean ensemble_has_backup(void);
void ensemble_restore(void);

/* Called before each change of a znode that the leader commits for a session; @data: what it is to
 * hold, NULL: it is deleted. */
void ensemble_set_committed(void (*committed)(const char *path, const char *data));
guint64 ensemble_n_writes(void);
