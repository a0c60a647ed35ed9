/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* A handle of ZooKeeper's C client, and a thread that opens and closes it, because opening
 * and closing can take a long time. Other threads only post messages. The thread that owns the
 * session is woken, and takes the messages one by one. Only close() waits for ZooKeeper or a name
 * server.
 *
 * store.c owns the sessions, and handles their messages. An expired session is useless; store.c
 * decides when to open another one.
 *
 * ZooKeeper defines the meaning of the codes, and the rules for versions, watches and ephemeral
 * znodes: https://zookeeper.apache.org/doc/r3.8.0/zookeeperProgrammers.html */
typedef struct _ZookeeperSession ZookeeperSession;

typedef enum {
	/* The first message is one of these. After NO_NAMES and NOT_OPENED there is no other. */
	ZOOKEEPER_OPENED,     /* it begins to connect, and requests are possible */
	ZOOKEEPER_NO_NAMES,   /* no server's address is known */
	ZOOKEEPER_NOT_OPENED, /* ZooKeeper's client could not start; a new session may succeed */

	ZOOKEEPER_CONNECTED, /* connected, for the first time or again */
	/* not connected: requests fail at once, or wait for the next connection */
	ZOOKEEPER_DISCONNECTED,
	ZOOKEEPER_EXPIRED, /* the session has expired, and its ephemeral znodes are deleted */
	ZOOKEEPER_DENIED,  /* ZooKeeper rejects the user and password */
	ZOOKEEPER_CHANGED, /* a watch has fired: @path has changed */
	ZOOKEEPER_REPLY,   /* the reply to @request */
} ZookeeperMessageType;

typedef enum {
	ZOOKEEPER_OK,
	ZOOKEEPER_NO_NODE,
	ZOOKEEPER_NODE_EXISTS,
	ZOOKEEPER_BAD_VERSION,
	ZOOKEEPER_NO_AUTH, /* the ACL does not permit the operation */
	ZOOKEEPER_REFUSED, /* will not take place: a quota, a wrong parent, ... */
	ZOOKEEPER_UNSURE,  /* the outcome is unknown; read the znode again */
} ZookeeperOutcome;

/* The state of a znode. */
typedef struct {
	gint32 version;
	/* number of the transaction that created it (czxid) */
	gint64 created_order;
	gint64 created_ms;    /* time of its creation by the leader's clock, since the Unix epoch */
	gint64 modified_ms;   /* time of its last change, by the same clock */
	gint64 owner_session; /* session of an ephemeral znode; otherwise 0 */
} ZookeeperStat;

typedef struct {
	ZookeeperMessageType type;
	/* set with OPENED, NO_NAMES, NOT_OPENED */
	char *unknown; /* (nullable): the names that cannot be resolved, and why */
	/* OPENED, NOT_OPENED */
	GStrv addresses; /* addresses to which it connects: see name_resolution_look_up() */
	/* NOT_OPENED */
	char *failure; /* (nullable): the reason; NULL if the first connection was refused */
	/* CONNECTED */
	gint64 session;
	/* with CHANGED: path of the znode; with REPLY to create: path of the new znode */
	char *path;
	/* CHANGED */
	gboolean gone;
	/* REPLY */
	guint64 request;
	ZookeeperOutcome outcome;
	const char *reason; /* the client's description of the outcome; static */
	gint error; /* with UNSURE: an error that is not about the connection; otherwise 0 */
	const char *remedy; /* (nullable): remedy for that error; static */
	guint failed;       /* after commit, unless OK or UNSURE: index of the write that failed */
	char *data;         /* after get: NUL-terminated */
	gsize length;       /* length of the data, without the final NUL */
	GStrv children;     /* after children: names */
	gboolean open;      /* after get_acl: the znode is open, as defined in znodes.h */
	/* after create, get, exists, set and get_acl; after commit, the state after the last set */
	ZookeeperStat stat;
	gint64 sent_ns;     /* CLOCK_BOOTTIME before the request was sent */
	gint64 received_ns; /* CLOCK_BOOTTIME after its reply was received */
} ZookeeperMessage;

void zookeeper_message_free(ZookeeperMessage *message);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperMessage, zookeeper_message_free)

typedef struct {
	const char *servers; /* "host:port,..." */
	GStrv known;      /* (nullable): addresses of @servers, for names that cannot be resolved */
	gboolean look_up; /* if FALSE, use @known for all servers */
	const char *certificates; /* (nullable): see ZookeeperHosts */
	/* (nullable): "user:password": new znodes are accessible to this user only */
	const char *auth;
	gint64 timeout_ms;                /* requested timeout of the session */
	void (*wake)(gpointer user_data); /* called in any thread when there is a message */
	gpointer user_data;
} ZookeeperSessionConfig;

/* Resolves the names, and connects in the background.
 * @config: copied
 * Returns: (transfer full): a session; its first message is OPENED, NO_NAMES or NOT_OPENED */
ZookeeperSession *zookeeper_session_new(const ZookeeperSessionConfig *config);

/* Ends the session, which deletes its ephemeral znodes if the server is reachable. wake() is not
 * called after the return. Takes some milliseconds, or seconds if the server hangs or a DNS lookup
 * is in progress. After @timeout_ms, the work continues in the background.
 * @timeout_ms: how long to wait for the end, 0 or more */
void zookeeper_session_close(ZookeeperSession *self, gint64 timeout_ms);
/* Ends the session without waiting. */
void zookeeper_session_free(ZookeeperSession *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperSession, zookeeper_session_free)

/* Returns: (transfer full) (nullable): the next message. */
ZookeeperMessage *zookeeper_session_take(ZookeeperSession *self);

/* Returns how long the session outlives its connection: the requested time, or, after the first
 * connection, the time that the server has granted. */
gint64 zookeeper_session_timeout_ms(ZookeeperSession *self);

/* Requests. Each returns a number, 1 or more. Requests are answered in order, each by one REPLY
 * with the same number. If there is no connection, or if it is lost, the outcome is UNSURE. @watch:
 * also report CHANGED when the znode changes. */

guint64 zookeeper_session_get(ZookeeperSession *self, const char *path, gboolean watch);
guint64 zookeeper_session_exists(ZookeeperSession *self, const char *path, gboolean watch);
guint64 zookeeper_session_children(ZookeeperSession *self, const char *path, gboolean watch);
/* @is_ephemeral: a sequence number is appended to the path, and the znode is deleted when the
 * session ends */
guint64 zookeeper_session_create(ZookeeperSession *self, const char *path, const char *data,
				 gboolean is_ephemeral);
guint64 zookeeper_session_delete(ZookeeperSession *self, const char *path);
/* Reads the ACL; NO_AUTH if this client may neither read nor administer the znode. */
guint64 zookeeper_session_get_acl(ZookeeperSession *self, const char *path);
/* Reads the ACL of @path. After the answer OK, new znodes get this ACL; until the answer, no znode
 * can be created. */
guint64 zookeeper_session_copy_acl(ZookeeperSession *self, const char *path);
/* Makes later reads include every write that was completed before this request. */
guint64 zookeeper_session_sync(ZookeeperSession *self, const char *path);

/* A part of a transaction. */
typedef struct {
	enum {
		/* check that the znode exists, with @version; -1 for any version */
		ZOOKEEPER_CHECK,
		ZOOKEEPER_CREATE, /* create a persistent znode */
		ZOOKEEPER_SET,    /* set the data; @version: -1 for any version */
	} type;
	const char *path;
	const char *data;
	gint32 version;
} ZookeeperWrite;

#define ZOOKEEPER_MAX_WRITES 3

/* Executes all the writes, or none. */
guint64 zookeeper_session_commit(ZookeeperSession *self, const ZookeeperWrite *writes,
				 guint n_writes);
