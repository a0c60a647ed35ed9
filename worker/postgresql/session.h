/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "worker/store.h"

/*
 * A session with PostgreSQL, and the thread that owns it. The thread connects, executes one request
 * after the other, and renews the session. It may block, because libpq resolves names, reads
 * password files and performs handshakes in the calling thread. The owner only exchanges messages
 * with it, so only close() waits.
 */
typedef struct _PostgresqlSession PostgresqlSession;

typedef struct {
	const char *conninfo;
	const char *schema;
	gint64 timeout_ms; /* session timeout */
	void (*wake)(gpointer user_data);
	gpointer user_data;
} PostgresqlSessionConfig;

/* Starts to connect. @config: copied */
PostgresqlSession *postgresql_session_new(const PostgresqlSessionConfig *config);

/* Ends the session, which deletes its ephemeral records if the database is reachable, and frees it.
 * Waits for at most @timeout_ms; after that, the thread ends and frees it later. */
void postgresql_session_close(PostgresqlSession *self, gint64 timeout_ms);

typedef struct {
	enum {
		POSTGRESQL_READ,
		POSTGRESQL_LIST,
		POSTGRESQL_COMMIT,
		POSTGRESQL_ERASE, /* an ephemeral record; there is no answer */
		POSTGRESQL_WATCH, /* there is no answer */
	} purpose;
	guint64 number; /* StoreMessage.request */
	/* number of the connection on whose readings the request is based: how many STORE_UP were
	 * taken. It is not executed on another connection, but answered with UNSURE. */
	guint connection;
	char *key;      /* except COMMIT */
	gboolean watch; /* LIST: report CHANGED */
	guint n_writes;
	StoreWrite writes[STORE_MAX_WRITES]; /* the request owns the strings */
} PostgresqlRequest;

void postgresql_request_free(PostgresqlRequest *self);

/* @request: (transfer full) */
void postgresql_session_send(PostgresqlSession *self, PostgresqlRequest *request);

/* Returns: (transfer full) (nullable): the next message. @out_heard_at_us: (out): monotonic time of
 * the database's last answer; 0 if never */
StoreMessage *postgresql_session_take(PostgresqlSession *self, gint64 *out_heard_at_us);

/* Returns: (transfer full) (nullable): why there is no connection. */
char *postgresql_session_why_down(PostgresqlSession *self);
