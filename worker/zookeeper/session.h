/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * A handle of ZooKeeper's C client, and a thread that makes it and closes it: both can take
 * long. The threads only leave messages here. The thread that owns the session is woken, and takes
 * them out one by one. Only close() waits for ZooKeeper or a name server.
 *
 * A session that has expired is of no more use: store.c makes another.
 *
 * What comes of the messages, and when another session is begun, is in store.c.
 *
 * The meaning of the codes and the rules of versions, watches and ephemeral znodes are ZooKeeper's:
 * https://zookeeper.apache.org/doc/r3.8.0/zookeeperProgrammers.html
 */
typedef struct _ZookeeperSession ZookeeperSession;

typedef enum {
	/* The first message is one of these. After NO_NAMES and NOT_OPENED there is no other. */
	ZOOKEEPER_OPENED,     /* connecting begins; requests may be made */
	ZOOKEEPER_NO_NAMES,   /* no server's address is known */
	ZOOKEEPER_NOT_OPENED, /* ZooKeeper's client could not begin; another session may succeed */

	ZOOKEEPER_CONNECTED,    /* the session is up, for the first time or again */
	ZOOKEEPER_DISCONNECTED, /* what is asked for now fails at once, or waits for the next one */
	ZOOKEEPER_EXPIRED,      /* the server has forgotten the session, and its claim with it */
	ZOOKEEPER_DENIED,       /* the server does not take our authentication */
	ZOOKEEPER_CHANGED,      /* a watch: something happened to @path */
	ZOOKEEPER_REPLY,        /* to @request */
} ZookeeperMessageType;

typedef enum {
	ZOOKEEPER_OK,
	ZOOKEEPER_NO_NODE,
	ZOOKEEPER_NODE_EXISTS,
	ZOOKEEPER_BAD_VERSION,
	ZOOKEEPER_NO_AUTH, /* an ACL forbids it */
	ZOOKEEPER_REFUSED, /* it did not take place, and will not: a quota, a wrong parent, ... */
	ZOOKEEPER_UNSURE,  /* whether it took place nobody knows: read again */
} ZookeeperOutcome;

/* Of a znode. */
typedef struct {
	gint32 version;
	gint64 created_order; /* of all that was ever written: the transaction that created it */
	gint64 created_ms;    /* by the clock of the leader that wrote it, since the Unix epoch */
	gint64 modified_ms;   /* likewise */
	gint64 owner_session; /* of an ephemeral one; else 0 */
} ZookeeperStat;

typedef struct {
	ZookeeperMessageType type;
	/* OPENED, NO_NAMES, NOT_OPENED */
	char *unknown; /* (nullable): the names that cannot be looked up, and why */
	/* OPENED, NOT_OPENED */
	GStrv addresses; /* that it connects to: see name_resolution_look_up() */
	/* NOT_OPENED */
	char *failure; /* (nullable): why; NULL: the first connection was refused */
	/* CONNECTED */
	gint64 session;
	/* CHANGED; REPLY to create: where it is */
	char *path;
	/* CHANGED */
	gboolean gone;
	/* REPLY */
	guint64 request;
	ZookeeperOutcome outcome;
	const char *reason; /* what ZooKeeper's client says to it; static */
	gint error;         /* UNSURE: an error that is not about the connection; otherwise 0 */
	const char *remedy; /* (nullable): for that error; static */
	guint failed;       /* of commit, unless OK or UNSURE: the number of the write, from 0 */
	char *data;         /* of get: NUL-terminated */
	gsize length;       /* of the data, without that NUL */
	GStrv children;     /* of children: names */
	gboolean open;      /* of get_acl: as znodes.h has it */
	ZookeeperStat stat; /* of create, get, exists, set, get_acl; of commit: of the last set */
	gint64 sent_ns;     /* CLOCK_BOOTTIME, before the request left */
	gint64 received_ns; /* CLOCK_BOOTTIME, after its reply came */
} ZookeeperMessage;

void zookeeper_message_free(ZookeeperMessage *message);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperMessage, zookeeper_message_free)

typedef struct {
	const char *servers; /* "host:port,..." */
	GStrv known; /* (nullable): addresses of @servers, for names that cannot be looked up */
	gboolean look_up;         /* FALSE: @known will do for all of them */
	const char *certificates; /* (nullable): of ZookeeperHosts */
	const char *auth;  /* (nullable): "user:password": what is created is for them only */
	gint64 timeout_ms; /* of the session, if the servers agree */
	void (*wake)(gpointer user_data); /* there is a message; called in any thread */
	gpointer user_data;
} ZookeeperSessionConfig;

/**
 * zookeeper_session_new:
 * @config: copied
 *
 * Looks names up and connects in the background.
 *
 * Returns: (transfer full): a session; its first message is OPENED, NO_NAMES or NOT_OPENED
 */
ZookeeperSession *zookeeper_session_new(const ZookeeperSessionConfig *config);

/**
 * zookeeper_session_close:
 * @timeout_ms: how long to wait for the end, 0 or more
 *
 * Ends the session, and with it its ephemeral znodes, if the server can be told. wake() is not
 * called any more when it returns. Takes some ms; seconds, if the server is stuck or a name is
 * being looked up: what is not done in time is done in the background.
 */
void zookeeper_session_close(ZookeeperSession *self, gint64 timeout_ms);
/* The same, without waiting. */
void zookeeper_session_free(ZookeeperSession *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperSession, zookeeper_session_free)

/* (transfer full) (nullable): the next message. */
ZookeeperMessage *zookeeper_session_take(ZookeeperSession *self);

/* How long the session outlives its connection: what was asked for, or what the server has made of
 * it, once there was a connection. */
gint64 zookeeper_session_timeout_ms(ZookeeperSession *self);

/* Requests. Each is answered by one REPLY with the number that it returns, 1 or more, in order, and
 * UNSURE when the connection is or gets lost. @watch: and by a CHANGED when something happens to
 * it. */

guint64 zookeeper_session_get(ZookeeperSession *self, const char *path, gboolean watch);
guint64 zookeeper_session_exists(ZookeeperSession *self, const char *path, gboolean watch);
guint64 zookeeper_session_children(ZookeeperSession *self, const char *path, gboolean watch);
/* @is_ephemeral: the path is completed with a sequence number, and the znode goes when the session
 * ends */
guint64 zookeeper_session_create(ZookeeperSession *self, const char *path, const char *data,
				 gboolean is_ephemeral);
guint64 zookeeper_session_delete(ZookeeperSession *self, const char *path);
/* Reads the ACL; NO_AUTH if this client may neither read nor administer the znode. */
guint64 zookeeper_session_get_acl(ZookeeperSession *self, const char *path);
/* Reads the ACL of @path. What is created after its answer OK gets that ACL; before the answer
 * nothing can be created. */
guint64 zookeeper_session_copy_acl(ZookeeperSession *self, const char *path);
/* What is read after this is no older than what was written, by anybody, before it. */
guint64 zookeeper_session_sync(ZookeeperSession *self, const char *path);

/* A part of a transaction. */
typedef struct {
	enum {
		ZOOKEEPER_CHECK,  /* that it is there, at @version; -1: whatever it is */
		ZOOKEEPER_CREATE, /* a persistent znode */
		ZOOKEEPER_SET,    /* @version -1: whatever it is */
	} type;
	const char *path;
	const char *data;
	gint32 version;
} ZookeeperWrite;

#define ZOOKEEPER_MAX_WRITES 3

/* All of it or nothing. */
guint64 zookeeper_session_commit(ZookeeperSession *self, const ZookeeperWrite *writes,
				 guint n_writes);
