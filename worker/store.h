/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* The store of a registration: a few hundred small records, each with a version, that servers
 * share. registration/ contains the protocol that uses it, and zookeeper/store.h an implementation.
 *
 * Here, a record is any entry of the store: the layout, the limits, a floor, a claim record, a
 * reservation, or their parents. It has a key such as "/snowflake/datacenters/3/floor", and can be
 * created only below an existing record. An ephemeral record is deleted when the session that
 * created it ends.
 *
 * Only the keeper's thread calls a store, and only close() waits. A request returns its number, 1
 * or more, and take() returns its answer later. The protocol relies on these guarantees:
 *
 * - S1 commit() is atomic and linearizable, and a commit that was answered OK is never lost,
 *   except as StoreMessage.history says.
 * - S2 A fresh read or list is no older than any commit that was answered before it was requested.
 * - S3 A new record has version 0. Each write adds 1. So a write that required version v produces
 *   version v + 1.
 * - S4 After UNSURE a commit can take place at any time, or never.
 *
 * Uniqueness does not rely on ephemeral records, watches, the store's clock, or on list() as a
 * snapshot. */
typedef struct _Store Store;

typedef enum {
	STORE_OK,
	/* read, list: there is no such record; commit: a required record does not exist */
	STORE_ABSENT,
	/* commit: a record has a different version, or exists although it must not */
	STORE_CONFLICT,
	STORE_DENIED, /* the credentials do not permit the operation */
	/* a quota was exceeded, or the answer is invalid; the operation will not take place */
	STORE_REFUSED,
	STORE_UNSURE, /* it is unknown whether the operation took place */
} StoreOutcome;

typedef struct {
	char *key;
	/* (nullable): NUL-terminated; NULL in the answer to a commit, and in a list if the
	 * credentials do not permit reading the record, so that only its key is known */
	char *data;
	gsize length; /* length of the data, without the final NUL */
	gint32 version;
	gint64 order; /* creation order among all records; unique */
	/* since the Unix epoch, by the store's clock; 0 if unknown */
	gint64 created_ms;
	gint64 modified_ms;
	gboolean is_own; /* ephemeral, and created in the current session */
} StoreRecord;

void store_record_free(StoreRecord *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StoreRecord, store_record_free)

#define STORE_NONE (-1) /* used as a version: the record must not exist */
#define STORE_ANY  (-2) /* the record must exist, with any version */

/* A part of a commit. */
typedef struct {
	const char *key;
	gint32 version;   /* version that the record must have, or one of the above */
	const char *data; /* new data; if NULL, the record is only checked */
	/* The record is ephemeral, and the store completes its key so that it is unique. Allowed
	 * only with STORE_NONE, and as the only write of a commit. */
	gboolean is_ephemeral;
} StoreWrite;
#define STORE_MAX_WRITES 3

typedef enum {
	/* connected. Earlier requests without an answer count as UNSURE, and will not be answered;
	 * earlier readings are no longer valid */
	STORE_UP,
	STORE_DOWN, /* not connected: requests end with UNSURE, immediately or later */
	/* not connected for a second, which the store has logged */
	STORE_STILL_DOWN,
	/* the store has ended the session, and has deleted its ephemeral records. The next UP is
	 * for another session. Open requests are not answered */
	STORE_SESSION_EXPIRED,
	/* like SESSION_EXPIRED, but this program has given up the session after being disconnected
	 * for too long. Its ephemeral records can exist until the store ends it */
	STORE_SESSION_REPLACED,
	/* like SESSION_REPLACED, but because the store does not accept the credentials, or must not
	 * be used, for the reason @text */
	STORE_AUTH_FAILED,
	/* records were created or deleted below @key, which list() watches. The message may be lost
	 * with a connection, or be spurious */
	STORE_CHANGED,
	STORE_GONE,   /* the record @key, which watch() watches, was deleted */
	STORE_ANSWER, /* the answer to @request */
} StoreEvent;

typedef struct {
	StoreEvent event;
	char *key; /* CHANGED, GONE */
	/* AUTH_FAILED (nullable): why, and the remedy, after the name of the store */
	char *text;
	/* UP (nullable): the history of the store. It stays the same on a connection. If it differs
	 * from that of an earlier connection, commits that were answered OK may be lost. NULL if
	 * the store loses commits only by an operator's error */
	char *history;
	char *session; /* UP, SESSION_EXPIRED (nullable): ID of the session, for the log */

	/* ANSWER */
	guint64 request;
	StoreOutcome outcome;
	const char *reason; /* description of the outcome; static */
	/* UNSURE: an error that is not about the connection; otherwise 0. If it is positive,
	 * @reason contains the error's code */
	gint error;
	const char *remedy; /* (nullable): remedy for that error; static */
	/* (element-type StoreRecord): set with OK: after read(), the record; after list(), all
	 * records; after commit(), the last written record, if there is one */
	GPtrArray *records;
	/* after a commit with ABSENT, CONFLICT, DENIED or REFUSED: index of the write that
	 * failed */
	guint failed;
	/* after check_access(): others can write @key; if the outcome is not OK, @key could not be
	 * checked */
	gboolean is_open;
	/* times by CLOCK_BOOTTIME, between which the store's clock was read */
	gint64 sent_ns, received_ns;
} StoreMessage;

void store_message_free(StoreMessage *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(StoreMessage, store_message_free)

typedef struct {
	/* Reads a record. @fresh: see S2 above */
	guint64 (*read)(Store *self, const char *key, gboolean fresh);
	/* Lists the records directly below @prefix, with their data, in no particular order.
	 * @watch: report CHANGED when a record is created or deleted */
	guint64 (*list)(Store *self, const char *prefix, gboolean fresh, gboolean watch);
	guint64 (*commit)(Store *self, const StoreWrite *writes, guint n_writes);
	/* Drops the answer to @request. */
	void (*drop)(Store *self, guint64 request);
	/* Deletes an ephemeral record from an earlier session of this server. There is no
	 * answer. */
	void (*erase)(Store *self, const char *key);
	/* Until the session ends, reports GONE when @key, a record of this session, is deleted. */
	void (*watch)(Store *self, const char *key);
	/* Checks that clients without this store's credentials cannot write the records that the
	 * servers of a datacenter share. Returns: 0 if the store has no credentials */
	guint64 (*check_access)(Store *self, guint datacenter_id);
	/* Requests to copy the access rights of @key: after the answer OK, and until the session
	 * ends, records that are created get these rights. For a tool whose credentials differ from
	 * those of the servers. Returns: 0 if records have no rights of their own */
	guint64 (*copy_access)(Store *self, const char *key);
	/* Returns: (transfer full): how an operator can keep others from writing @key, to be
	 * appended to a message. */
	char *(*describe_remedy)(Store *self, const char *key);

	/* Returns: (transfer full) (nullable): the next message. The first call begins to
	 * connect. */
	StoreMessage *(*take)(Store *self);
	/* Returns the monotonic time at which to call take(), unless wake() is called earlier; or
	 * G_MAXINT64. */
	gint64 (*due_at_us)(const Store *self);
	/* Returns the session timeout: how long a session outlives its connection. */
	gint64 (*session_timeout_ms)(const Store *self);
	/* Determines why there is no connection. @out_why: (transfer full) (nullable): NULL if
	 * unknown. Returns: %FALSE while the reason is being determined; call again after wake() */
	gboolean (*find_why_down)(Store *self, char **out_why);
	/* Drops the result of find_why_down(). */
	void (*forget_why_down)(Store *self);
	/* Ends the session, which deletes its ephemeral records, and frees the store. Waits for at
	 * most @timeout_ms. */
	void (*close)(Store *self, gint64 timeout_ms);
} StoreOps;

struct _Store {
	const StoreOps *ops;
	const char *name; /* name for use in messages, for example "ZooKeeper"; static */
	/* for use in remedies */
	const char *option;        /* the option that names the store, "--zookeeper" */
	const char *root_option;   /* "another root (--zookeeper HOSTS/ROOT)" */
	const char *access_remedy; /* what to do if the store denies access */
	gint64 heard_at_us;        /* monotonic time of the store's last answer; 0 if never */
	/* Called in any thread when there is a message. Must be set before the first call. */
	void (*wake)(gpointer user_data);
	gpointer wake_data;
};
