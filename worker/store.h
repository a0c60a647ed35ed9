/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The store of a registration: a few hundred small records, each with a version, that servers
 * share. registration/ is the protocol above it, zookeeper/store.h an implementation.
 *
 * A record has a key such as "/snowflake/datacenters/3/floor". It can be made only below a record
 * that exists. A mortal record is deleted when the session that made it ends.
 *
 * One thread calls a store, the keeper's, and no function but close() waits. A request returns its
 * number, 1 or more, and take() returns its answer later. What the protocol relies on:
 *
 *   S1 commit() is atomic and linearizable, and a commit that was answered OK is never lost.
 *   S2 A fresh read or list is no older than any commit that was answered before it was requested.
 *   S3 A version is 0 when a record is made and one more after each write. So the server that wrote
 *      on version v knows that its write is v + 1.
 *   S4 After UNSURE a commit can take place at any time, or never.
 *
 * Uniqueness does not rely on mortal records, watches, the store's clock, or on list() as a
 * snapshot.
 */
typedef struct _Store Store;

typedef enum {
	STORE_OK,
	STORE_ABSENT,   /* read, list: no such record; commit: a record that must be there is not */
	STORE_CONFLICT, /* commit: another version, or a record that must not be there is there */
	STORE_DENIED,   /* these credentials may not */
	STORE_REFUSED,  /* a quota, an answer that makes no sense: not done, and will not be */
	STORE_UNSURE,   /* it is unknown whether it took place */
} StoreOutcome;

typedef struct {
	char *key;
	char *data; /* (nullable): NUL-terminated; NULL in the answer to a commit, and in a list if
		       these credentials may not read the record: then only its key is known */
	gsize length; /* of the data, without that NUL */
	gint32 version;
	gint64 order; /* of creation, among all records: unique */
	/* Since the Unix epoch, by the store's clock; 0: unknown. */
	gint64 created_ms;
	gint64 modified_ms;
	gboolean is_own; /* mortal, and made in the current session */
} StoreRecord;

void store_record_free(StoreRecord *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StoreRecord, store_record_free)

#define STORE_NONE (-1) /* a version: the record must not be there */
#define STORE_ANY  (-2) /* the record must be there, at any version */

/* A part of a commit. */
typedef struct {
	const char *key;
	gint32 version;   /* that the record must have, or one of the above */
	const char *data; /* NULL: the record is only checked */
	/* With NONE, and as the only write: the record is mortal, and the store completes its key:
	 * two never have the same. */
	gboolean is_mortal;
} StoreWrite;
#define STORE_MAX_WRITES 3

typedef enum {
	STORE_UP,       /* connected. Requests made before it and not answered are UNSURE, and will
			   not be answered; nothing that was read before counts */
	STORE_DOWN,     /* not connected: requests are UNSURE, at once or later */
	STORE_AWAY,     /* down for a second; the log says so */
	STORE_LAPSED,   /* the store has ended the session: mortal records are gone. The next UP is
			   of another session. Open requests are not answered */
	STORE_RENEWED,  /* as LAPSED, but of a session that was not connected for too long: its
			   mortal records may be there for a while */
	STORE_REJECTED, /* as RENEWED: the store does not accept the credentials */
	STORE_CHANGED,  /* records have come or gone below @key, which list() watches. It may be
			   lost with a connection, or come without need */
	STORE_GONE,     /* the record @key, which watch() watches, is gone */
	STORE_ANSWER,   /* to @request */
} StoreEvent;

typedef struct {
	StoreEvent event;
	char *key; /* CHANGED, GONE */

	/* ANSWER */
	guint64 request;
	StoreOutcome outcome;
	const char *reason; /* in words; static */
	gint error;         /* UNSURE: an error that is not about the connection; else 0 */
	const char *remedy; /* (nullable): for that error; static */
	GPtrArray *records; /* of StoreRecord, if OK: of read(), the one; of list(), all; of
			       commit(), the last that was written, or none */
	guint failed;       /* commit: ABSENT, CONFLICT, DENIED, REFUSED: which write, from 0 */
	gboolean is_open;   /* check_access(): others may write @key; if it is not OK, @key could
			       not be checked */
	/* CLOCK_BOOTTIME: the store's clock was read between the two. */
	gint64 sent_ns, received_ns;
} StoreMessage;

void store_message_free(StoreMessage *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StoreMessage, store_message_free)

typedef struct {
	/* @fresh: see S2. */
	guint64 (*read)(Store *self, const char *key, gboolean fresh);
	/* The records right below @prefix, with their data, in no order. @watch: and CHANGED when
	 * one comes or goes. */
	guint64 (*list)(Store *self, const char *prefix, gboolean fresh, gboolean watch);
	guint64 (*commit)(Store *self, const StoreWrite *writes, guint n_writes);
	/* No answer to @request is wanted any more. */
	void (*drop)(Store *self, guint64 request);
	/* Deletes a mortal record that an earlier session of this server has left; no answer. */
	void (*erase)(Store *self, const char *key);
	/* From now on GONE is reported if @key, an own record, goes; until the session ends. */
	void (*watch)(Store *self, const char *key);
	/* Checks that clients without this store's credentials may not write the records that the
	 * servers of a datacenter share. Returns: 0 if there are no credentials */
	guint64 (*check_access)(Store *self, guint datacenter_id);
	/* (transfer full): how an operator keeps others from writing @key: after a colon. */
	char *(*describe_remedy)(Store *self, const char *key);

	/* (transfer full) (nullable): the next message. The first call begins to connect. */
	StoreMessage *(*take)(Store *self);
	/* Monotonic: take() is due then, unless wake() is called earlier; or G_MAXINT64. */
	gint64 (*due_at_us)(const Store *self);
	/* How long a session may be silent before it ends. */
	gint64 (*lapse_ms)(const Store *self);
	/* Finds out why there is no connection. @out_why: (transfer full) (nullable): NULL: not
	 * known. Returns: %FALSE while it is being found out: call again after wake() */
	gboolean (*find_why_down)(Store *self, char **out_why);
	/* The reason is not wanted any more. */
	void (*forget_why_down)(Store *self);
	/* Ends the session, with its mortal records, and frees the store. Waits for @timeout_ms at
	 * most. */
	void (*close)(Store *self, gint64 timeout_ms);
} StoreOps;

struct _Store {
	const StoreOps *ops;
	const char *name;   /* for messages, as in "ZooKeeper"; static */
	gint64 heard_at_us; /* monotonic: when the store last answered anything; 0: never */
	/* Set before the first call: there is a message. Called in any thread. */
	void (*wake)(gpointer user_data);
	gpointer wake_data;
};
