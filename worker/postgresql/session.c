/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/postgresql/session.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/thread.h"
#include "core/clock.h"
#include "worker/postgresql/schema.h"

/*
 * Each statement string is one implicit transaction. A commit, and each deletion of records, locks
 * the table against all other writers first, so these transactions are executed one after the
 * other. The isolation level is READ COMMITTED, so the statement after LOCK sees all that the
 * earlier ones have committed. It checks every condition, and writes only if all of them hold.
 */

#define RECONNECT_MS    1000 /* minimum pause after a failed attempt to connect */
#define MAX_PATIENCE_MS 10000

/* outcomes in the SQL of a commit */
#define SQL_OK       0
#define SQL_ABSENT   1
#define SQL_CONFLICT 2

/* The database's error contains this text if a commit did not write all records as requested. */
#define SUPPRESSED "row-level security or a trigger has prevented a write"

struct _PostgresqlSession {
	/* These do not change. */
	char *conninfo, *schema, *sql_history;
	gint64 timeout_ms;
	int wake_fd; /* an eventfd(2), written when there is a request, or when the session ends */

	pthread_mutex_t mutex;
	pthread_cond_t changed;
	/* protected by the mutex */
	GQueue requests; /* (element-type PostgresqlRequest) */
	GQueue messages; /* (element-type StoreMessage) */
	char *why_down;  /* (nullable) */
	gint64 heard_at_us;
	gboolean ending, ended, left;
	void (*wake)(gpointer user_data);
	gpointer user_data;

	/* used by the thread only */
	PGconn *connection; /* (nullable) */
	gboolean is_up;
	guint n_connections; /* number of STORE_UP */
	char *backend;       /* (nullable): SQL condition for the process of the last connection */
	char *history;       /* (nullable): history of the connected database */
	char *id;            /* ID of the session, a UUID; NULL if there is none */
	gint64 renew_at_us;
	GHashTable *watched_lists; /* prefixes that list() watches */
	char *watched;             /* (nullable): argument of watch() */
};

/* Messages */

void postgresql_request_free(PostgresqlRequest *self)
{
	for (guint i = 0; i < self->n_writes; i++) {
		g_free((char *)self->writes[i].key);
		g_free((char *)self->writes[i].data);
	}
	g_free(self->key);
	g_free(self);
}

static void session_destroy(PostgresqlSession *self)
{
	g_queue_clear_full(&self->requests, (GDestroyNotify)postgresql_request_free);
	g_queue_clear_full(&self->messages, (GDestroyNotify)store_message_free);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
	g_hash_table_unref(self->watched_lists);
	close(self->wake_fd);
	g_free(self->watched);
	g_free(self->id);
	g_free(self->backend);
	g_free(self->history);
	g_free(self->why_down);
	g_free(self->sql_history);
	g_free(self->schema);
	g_free(self->conninfo);
	g_free(self);
}

static gboolean is_ending(PostgresqlSession *self)
{
	gboolean ending;

	pthread_mutex_lock(&self->mutex);
	ending = self->ending;
	pthread_mutex_unlock(&self->mutex);
	return ending;
}

/* @message: (transfer full) */
static void post_message(PostgresqlSession *self, StoreMessage *message)
{
	pthread_mutex_lock(&self->mutex);
	g_queue_push_tail(&self->messages, message);
	if (!self->ending)
		self->wake(self->user_data);
	pthread_mutex_unlock(&self->mutex);
}

static StoreMessage *message_new(StoreEvent event, const char *key)
{
	StoreMessage *message = g_new0(StoreMessage, 1);

	message->event = event;
	message->key = g_strdup(key);
	return message;
}

static StoreMessage *answer_new(const PostgresqlRequest *request, StoreOutcome outcome,
				const char *reason)
{
	StoreMessage *answer = message_new(STORE_ANSWER, NULL);

	answer->request = request->number;
	answer->outcome = outcome;
	answer->reason = reason;
	answer->records = g_ptr_array_new_with_free_func((GDestroyNotify)store_record_free);
	return answer;
}

static void answer_unsure(PostgresqlSession *self, const PostgresqlRequest *request)
{
	if (request->number != 0)
		post_message(self, answer_new(request, STORE_UNSURE, "no connection"));
}

static PostgresqlRequest *pop_request(PostgresqlSession *self)
{
	PostgresqlRequest *request;

	pthread_mutex_lock(&self->mutex);
	request = g_queue_pop_head(&self->requests);
	pthread_mutex_unlock(&self->mutex);
	return request;
}

/* @why: (transfer full) (nullable) */
static void set_why_down(PostgresqlSession *self, char *why)
{
	pthread_mutex_lock(&self->mutex);
	g_free(self->why_down);
	self->why_down = why;
	pthread_mutex_unlock(&self->mutex);
}

/* Waiting */

/* Waits until the connection is ready for @events, or until @until_us. Returns %FALSE at that time.
 * @for_requests: also returns when there is a request; otherwise only if the session ends */
static gboolean wait_for(PostgresqlSession *self, short events, gint64 until_us)
{
	struct pollfd ready[] = {
		{.fd = self->wake_fd, .events = POLLIN},
		{.fd = self->connection != NULL ? PQsocket(self->connection) : -1,
		 .events = events},
	};
	gint64 wait_us = until_us - g_get_monotonic_time();
	eventfd_t count;

	if (wait_us <= 0)
		return FALSE;
	if (poll(ready, G_N_ELEMENTS(ready), (int)(wait_us / 1000 + 1)) > 0 &&
	    ready[0].revents != 0)
		eventfd_read(self->wake_fd, &count);
	return TRUE;
}

/* Returns the time limit for an answer of the database. */
static gint64 patience_ms(const PostgresqlSession *self)
{
	return MIN(self->timeout_ms * 2 / 3, MAX_PATIENCE_MS);
}

static void note_error(PostgresqlSession *self, const char *text)
{
	char *why = g_strstrip(g_strdup(text));

	set_why_down(self, g_strdelimit(why, "\n\t", ' '));
}

/* Executes statements, and waits for their results. Returns: (nullable): the last result, which is
 * an error if a statement failed; NULL if the connection is lost, or no answer arrived in time */
static PGresult *run_sql(PostgresqlSession *self, const char *sql)
{
	gint64 until_us = g_get_monotonic_time() + patience_ms(self) * G_TIME_SPAN_MILLISECOND;
	PGresult *last = NULL, *next;
	gboolean ok = PQsendQuery(self->connection, sql);
	int unsent = 1;

	while (ok) {
		if (unsent > 0)
			unsent = PQflush(self->connection);
		ok = unsent >= 0 && PQconsumeInput(self->connection);
		if (ok && PQisBusy(self->connection)) {
			if (wait_for(self, (short)(POLLIN | (unsent > 0 ? POLLOUT : 0)), until_us))
				continue;
			note_error(self, "no answer in time");
			PQclear(last);
			return NULL;
		}
		if (!ok)
			break;
		next = PQgetResult(self->connection);
		if (next == NULL)
			break;
		PQclear(last);
		last = next;
	}
	if (ok && PQstatus(self->connection) == CONNECTION_OK && last != NULL) {
		pthread_mutex_lock(&self->mutex);
		self->heard_at_us = g_get_monotonic_time();
		pthread_mutex_unlock(&self->mutex);
		return last;
	}
	note_error(self, last != NULL && *PQresultErrorMessage(last) != '\0'
				 ? PQresultErrorMessage(last)
				 : PQerrorMessage(self->connection));
	PQclear(last);
	return NULL;
}

/* Like run_sql(), for statements that do not fail. Returns: (nullable) */
static PGresult *run_own_sql(PostgresqlSession *self, const char *sql)
{
	PGresult *result = run_sql(self, sql);
	ExecStatusType status = result != NULL ? PQresultStatus(result) : PGRES_FATAL_ERROR;

	if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
		return result;
	if (result != NULL)
		note_error(self, PQresultErrorMessage(result));
	PQclear(result);
	return NULL;
}

static gboolean do_sql(PostgresqlSession *self, const char *sql)
{
	PGresult *result = run_own_sql(self, sql);

	PQclear(result);
	return result != NULL;
}

/* SQL. "@" stands for the schema, "%s" for arguments as with printf(). */

static char *sql_new(const PostgresqlSession *self, const char *format, ...) G_GNUC_PRINTF(2, 3);

static char *sql_new(const PostgresqlSession *self, const char *format, ...)
{
	g_auto(GStrv) parts = g_strsplit(format, "@", -1);
	g_autofree char *expanded = g_strjoinv(self->schema, parts);
	va_list arguments;
	char *sql;

	va_start(arguments, format);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	sql = g_strdup_vprintf(expanded, arguments);
#pragma GCC diagnostic pop
	va_end(arguments);
	return sql;
}

/* Returns: (transfer full): @text as a literal, or NULL without quotes. @text: (nullable) */
static char *quote(const PostgresqlSession *self, const char *text)
{
	char *literal, *copy;

	if (text == NULL)
		return g_strdup("NULL");
	literal = PQescapeLiteral(self->connection, text, strlen(text));
	copy = g_strdup(literal != NULL ? literal : "NULL");
	PQfreemem(literal);
	return copy;
}

/* The columns of a record, in the order of take_record(). The session is alive by the database's
 * clock, although its row may still exist. */
#define RECORD_COLUMNS                                                                             \
	"key, data, version, creation_order,"                                                      \
	" floor(extract(epoch FROM created) * 1000)::int8 AS created_ms,"                          \
	" floor(extract(epoch FROM modified) * 1000)::int8 AS modified_ms, session"
#define IS_ALIVE "lapses_at > clock_timestamp()"
#define LIVE_RECORDS                                                                               \
	"(SELECT r.* FROM @.record r WHERE session IS NULL"                                        \
	" OR EXISTS (SELECT FROM @.session s WHERE s.id = r.session AND s." IS_ALIVE "))"
/* Sessions, and deletions of their records, may be lost without harm in a crash of the database. So
 * they do not wait for a synchronous standby, which can be missing. */
#define ASYNCHRONOUS "SET LOCAL synchronous_commit = off;\n"
#define LOCK         "LOCK TABLE @.record IN SHARE ROW EXCLUSIVE MODE;\n"

static gint64 number_in(const PGresult *result, int row, int column)
{
	return g_ascii_strtoll(PQgetvalue(result, row, column), NULL, 10);
}

static StoreRecord *take_record(const PostgresqlSession *self, const PGresult *result, int row,
				int column)
{
	StoreRecord *record = g_new0(StoreRecord, 1);

	record->key = g_strdup(PQgetvalue(result, row, column));
	if (!PQgetisnull(result, row, column + 1))
		record->data = g_strdup(PQgetvalue(result, row, column + 1));
	record->length = record->data != NULL ? strlen(record->data) : 0;
	record->version = (gint32)number_in(result, row, column + 2);
	record->order = number_in(result, row, column + 3);
	record->created_ms = number_in(result, row, column + 4);
	record->modified_ms = number_in(result, row, column + 5);
	record->is_own = g_str_equal(PQgetvalue(result, row, column + 6), self->id);
	return record;
}

/* Requests */

/* Returns the outcome of a statement that has failed and was rolled back; sets the reason. Returns
 * UNSURE without an error if the connection must be replaced. */
static StoreOutcome judge_error(const PGresult *result, StoreMessage *answer)
{
	const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	g_autofree char *reason = g_strdup_printf("SQLSTATE %s: %s", state != NULL ? state : "?",
						  text != NULL ? text : "?");

	if (text != NULL && strstr(text, SUPPRESSED) != NULL) {
		answer->reason = SUPPRESSED;
		return STORE_REFUSED;
	}
	/* few different texts, because they contain no keys */
	answer->reason = g_intern_string(reason);
	if (state == NULL || g_str_has_prefix(state, "08") || g_str_has_prefix(state, "57P") ||
	    g_str_equal(state, "3F000") || g_str_equal(state, "42P01") ||
	    g_str_equal(state, "25006"))
		return STORE_UNSURE;
	if (g_str_equal(state, "42501"))
		return STORE_DENIED;
	/* a serialization failure, a deadlock, no resources, a lock or time limit, a shutdown */
	if (g_str_has_prefix(state, "40") || g_str_has_prefix(state, "53") ||
	    g_str_has_prefix(state, "55") || g_str_has_prefix(state, "57") ||
	    g_str_has_prefix(state, "58")) {
		answer->error = 1;
		return STORE_UNSURE;
	}
	return STORE_REFUSED;
}

/* Executes a request. Returns: (nullable): a result without an error. Otherwise, the answer says
 * why. */
static PGresult *run_request(PostgresqlSession *self, const char *sql, StoreMessage *answer)
{
	PGresult *result;

	answer->sent_ns = clock_boottime_ns();
	result = run_sql(self, sql);
	answer->received_ns = clock_boottime_ns();
	if (result != NULL && PQresultStatus(result) == PGRES_TUPLES_OK)
		return result;
	answer->outcome = STORE_UNSURE;
	answer->reason = "no answer arrived";
	if (result != NULL)
		answer->outcome = judge_error(result, answer);
	PQclear(result);
	return NULL;
}

static void read_records(PostgresqlSession *self, const PostgresqlRequest *request,
			 StoreMessage *answer)
{
	gboolean is_list = request->purpose == POSTGRESQL_LIST;
	g_autofree char *key = quote(self, request->key);
	g_autofree char *sql = sql_new(
		self, "SELECT " RECORD_COLUMNS " FROM " LIVE_RECORDS " r WHERE key = %s%s%s", key,
		is_list ? " OR parent = " : "", is_list ? key : "");
	gboolean is_absent = TRUE;
	PGresult *result;

	/* before the query, so that no change after it is missed */
	if (is_list && request->watch)
		g_hash_table_add(self->watched_lists, g_strdup(request->key));
	result = run_request(self, sql, answer);
	if (result == NULL)
		return;
	for (int row = 0; row < PQntuples(result); row++) {
		gboolean is_key = g_str_equal(PQgetvalue(result, row, 0), request->key);

		is_absent = is_absent && !is_key;
		if (is_key != is_list)
			g_ptr_array_add(answer->records, take_record(self, result, row, 0));
	}
	PQclear(result);
	if (is_absent) {
		answer->outcome = STORE_ABSENT;
		answer->reason = "no such record";
		g_ptr_array_set_size(answer->records, 0);
	}
}

/* Returns: (transfer full): the writes as rows of VALUES */
static char *commit_values(const PostgresqlSession *self, const PostgresqlRequest *request)
{
	GString *values = g_string_new(NULL);

	for (guint i = 0; i < request->n_writes; i++) {
		const StoreWrite *write = &request->writes[i];
		const char *slash = strrchr(write->key, '/');
		g_autofree char *above = g_strndup(write->key, (gsize)(slash - write->key));
		g_autofree char *key = quote(self, write->key);
		g_autofree char *parent = quote(self, above);
		g_autofree char *data = quote(self, write->data);
		g_autofree char *owner = quote(self, write->is_ephemeral ? self->id : NULL);

		g_string_append_printf(values, "%s(%u, %s, %s, %d, %s::text, %s::text)",
				       i > 0 ? ", " : "", i, key, parent, write->version, data,
				       owner);
	}
	return g_string_free(values, FALSE);
}

/* Commits. Fails if the records are not written as requested. Also checks that the history is that
 * of this connection, in case the table was replaced since, and that the session is alive. If not,
 * the connection is replaced. */
static void commit_writes(PostgresqlSession *self, const PostgresqlRequest *request,
			  StoreMessage *answer)
{
	enum { IS_SAME, IS_SESSION_ALIVE, FAILED, OUTCOME, RECORD };
	g_autofree char *values = commit_values(self, request);
	g_autofree char *history = quote(self, self->history);
	g_autofree char *sql = sql_new(
		self,
		LOCK
		"WITH given(i, key, parent, version, data, session) AS (VALUES %s),\n"
		"live AS (SELECT * FROM " LIVE_RECORDS " r),\n"
		"judged AS (SELECT i, CASE"
		"  WHEN g.version = -1 AND r.key IS NOT NULL THEN 2"
		"  WHEN g.version = -1 AND g.parent <> ''"
		"    AND NOT EXISTS (SELECT FROM live WHERE live.key = g.parent) THEN 1"
		"  WHEN g.version <> -1 AND r.key IS NULL THEN 1"
		"  WHEN g.version >= 0 AND g.version <> r.version THEN 2"
		"  ELSE 0 END AS outcome FROM given g LEFT JOIN live r ON r.key = g.key),\n"
		"failed AS (SELECT * FROM judged WHERE outcome <> 0 ORDER BY i LIMIT 1),\n"
		"verdict AS (SELECT %s = %s AS same, EXISTS (SELECT FROM @.session"
		"  WHERE id = '%s' AND " IS_ALIVE ") AS alive),\n"
		"allowed AS (SELECT FROM verdict"
		"  WHERE same AND alive AND NOT EXISTS (SELECT FROM failed)),\n"
		"updated AS (UPDATE @.record r SET data = g.data, version = r.version + 1,"
		"  modified = clock_timestamp() FROM given g WHERE r.key = g.key"
		"  AND g.version <> -1 AND g.data IS NOT NULL AND EXISTS (SELECT FROM allowed)"
		"  RETURNING r.*, i, g.data AS wish),\n"
		"numbered AS (SELECT g.*, nextval('@.creation_order') AS n FROM given g"
		"  WHERE g.version = -1 AND g.data IS NOT NULL AND EXISTS (SELECT FROM allowed)"
		"  ORDER BY i),\n"
		"inserted AS (INSERT INTO @.record (key, parent, data, creation_order, session)"
		"  SELECT CASE WHEN session IS NULL THEN key"
		"    ELSE key || lpad(n::text, greatest(10, length(n::text)), '0') END,"
		"    parent, data, n, session FROM numbered"
		"  RETURNING record.*, pg_notify('@', '+' || key)),\n"
		"written AS (SELECT i, u.key, u.version, creation_order, created, modified,"
		"  u.session, u.data = wish AS exact FROM updated u"
		"  UNION ALL SELECT i, r.key, r.version, creation_order, created, modified,"
		"  r.session, r.data = g.data FROM inserted r JOIN numbered g"
		"  ON n = creation_order),\n"
		"last AS (SELECT NULL AS data, * FROM written ORDER BY i DESC LIMIT 1)\n"
		/* the cast fails, which undoes everything */
		"SELECT same, alive, i, outcome, last.*,"
		" CASE WHEN (SELECT count(*) FROM written WHERE exact) <> (SELECT count(*)"
		"   FROM given WHERE data IS NOT NULL AND EXISTS (SELECT FROM allowed))"
		"  THEN (same || '" SUPPRESSED "')::int END FROM verdict"
		" LEFT JOIN failed ON true LEFT JOIN"
		" (SELECT " RECORD_COLUMNS " FROM last) last ON true",
		values, self->sql_history, history, self->id);
	PGresult *result = run_request(self, sql, answer);

	if (result == NULL)
		return;
	if (*PQgetvalue(result, 0, IS_SAME) != 't' ||
	    *PQgetvalue(result, 0, IS_SESSION_ALIVE) != 't') {
		answer->outcome = STORE_UNSURE; /* although it has not taken place */
		answer->reason = "the session or the table was replaced";
	} else if (!PQgetisnull(result, 0, FAILED)) {
		answer->failed = (guint)number_in(result, 0, FAILED);
		answer->outcome =
			number_in(result, 0, OUTCOME) == SQL_ABSENT ? STORE_ABSENT : STORE_CONFLICT;
		answer->reason =
			answer->outcome == STORE_ABSENT ? "no such record" : "another version";
	} else if (!PQgetisnull(result, 0, RECORD)) {
		g_ptr_array_add(answer->records, take_record(self, result, 0, RECORD));
	}
	PQclear(result);
}

/* Deletes the records that match @which, and notifies the others. Returns %FALSE if the connection
 * is lost; otherwise the deletion can have failed, for example because of a lock. */
static gboolean delete_records(PostgresqlSession *self, const char *which)
{
	g_autofree char *sql =
		sql_new(self,
			ASYNCHRONOUS LOCK
			"DELETE FROM @.record r WHERE %s RETURNING pg_notify('@', '-' || key)",
			which);
	PGresult *result = run_sql(self, sql);

	PQclear(result);
	return result != NULL;
}

/* Executes a request that was taken from the queue. Returns %FALSE if the connection must be
 * replaced. */
static gboolean execute_request(PostgresqlSession *self, const PostgresqlRequest *request)
{
	StoreMessage *answer;
	gboolean ok = TRUE;

	if (request->connection != self->n_connections) {
		answer_unsure(self, request);
		return TRUE;
	}
	if (request->purpose == POSTGRESQL_ERASE) {
		g_autofree char *key = quote(self, request->key);
		g_autofree char *which = g_strdup_printf("session IS NOT NULL AND key = %s", key);

		return delete_records(self, which);
	}
	if (request->purpose == POSTGRESQL_WATCH) {
		g_free(self->watched);
		self->watched = g_strdup(request->key);
		self->renew_at_us = 0; /* the renewal checks that it exists */
		return TRUE;
	}
	answer = answer_new(request, STORE_OK, NULL);
	if (request->purpose == POSTGRESQL_COMMIT)
		commit_writes(self, request, answer);
	else
		read_records(self, request, answer);
	ok = answer->outcome != STORE_UNSURE || answer->error != 0;
	post_message(self, answer);
	return ok;
}

/* The session */

static gint64 next_renewal_us(const PostgresqlSession *self)
{
	return g_get_monotonic_time() + self->timeout_ms * G_TIME_SPAN_MILLISECOND / 3;
}

/* Deletes the records of sessions that have lapsed, and then these sessions. */
static gboolean purge_sessions(PostgresqlSession *self)
{
	g_autofree char *lapsed =
		sql_new(self, "session IN (SELECT id FROM @.session WHERE NOT " IS_ALIVE ")");
	g_autofree char *sql = sql_new(
		self, ASYNCHRONOUS "DELETE FROM @.session s WHERE NOT " IS_ALIVE
				   " AND NOT EXISTS (SELECT FROM @.record WHERE session = s.id)");

	return delete_records(self, lapsed) && do_sql(self, sql);
}

/* Renews the session. Sets *out_is_alive to whether the session was still alive. Returns %FALSE if
 * the connection must be replaced. */
static gboolean renew_session(PostgresqlSession *self, gboolean *out_is_alive)
{
	g_autofree char *watched = quote(self, self->watched);
	g_autofree char *sql = sql_new(
		self,
		ASYNCHRONOUS "UPDATE @.session SET lapses_at = clock_timestamp()"
			     " + interval '%" G_GINT64_FORMAT " ms' WHERE id = '%s' AND " IS_ALIVE
			     " RETURNING EXISTS (SELECT FROM @.session WHERE NOT " IS_ALIVE "),"
			     " EXISTS (SELECT FROM @.record WHERE key = %s)",
		self->timeout_ms, self->id, watched);
	PGresult *result = run_own_sql(self, sql);
	gboolean ok = result != NULL;

	if (!ok)
		return FALSE;
	self->renew_at_us = next_renewal_us(self);
	*out_is_alive = PQntuples(result) == 1;
	if (*out_is_alive && self->watched != NULL && *PQgetvalue(result, 0, 1) != 't') {
		post_message(self, message_new(STORE_GONE, self->watched));
		g_clear_pointer(&self->watched, g_free);
	}
	if (*out_is_alive && *PQgetvalue(result, 0, 0) == 't')
		ok = purge_sessions(self);
	PQclear(result);
	return ok;
}

static void post_expired(PostgresqlSession *self)
{
	StoreMessage *message = message_new(STORE_SESSION_EXPIRED, NULL);

	message->session = g_strdup(self->id);
	post_message(self, message);
}

/* Continues the session, or begins a new one. */
static gboolean open_session(PostgresqlSession *self)
{
	g_autofree char *sql = NULL;
	gboolean is_alive = FALSE;

	if (self->id != NULL && !renew_session(self, &is_alive))
		return FALSE;
	if (is_alive)
		return TRUE;
	if (self->id != NULL)
		post_expired(self);
	g_clear_pointer(&self->watched, g_free);
	g_free(self->id);
	self->id = g_uuid_string_random();
	sql = sql_new(self,
		      ASYNCHRONOUS
		      "INSERT INTO @.session VALUES ('%s', clock_timestamp() + interval"
		      " '%" G_GINT64_FORMAT " ms')",
		      self->id, self->timeout_ms);
	self->renew_at_us = next_renewal_us(self);
	return do_sql(self, sql) && purge_sessions(self);
}

/* Handles the notifications that have arrived: "+KEY" or "-KEY". */
static void take_notifications(PostgresqlSession *self)
{
	PGnotify *notify;

	while ((notify = PQnotifies(self->connection)) != NULL) {
		const char *key = *notify->extra != '\0' ? notify->extra + 1 : "";
		const char *slash = strrchr(key, '/');
		g_autofree char *parent = g_strndup(key, slash != NULL ? (gsize)(slash - key) : 0);

		if (g_hash_table_remove(self->watched_lists, parent))
			post_message(self, message_new(STORE_CHANGED, parent));
		if (*notify->extra == '-' && g_strcmp0(key, self->watched) == 0) {
			post_message(self, message_new(STORE_GONE, key));
			g_clear_pointer(&self->watched, g_free);
		}
		PQfreemem(notify);
	}
}

/* Connections */

static void ignore_notice(void *data G_GNUC_UNUSED, const PGresult *result G_GNUC_UNUSED)
{
}

#define START "(extract(epoch FROM backend_start) * 1000000)::int8"

/* Ends the process of the last connection, which can still wait, for example for a synchronous
 * standby. Otherwise such processes could use up all connections. */
static gboolean end_last_backend(PostgresqlSession *self)
{
	g_autofree char *sql =
		g_strdup_printf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE %s;\n"
				"SELECT 'pid = ' || pid || ' AND " START " = ' || " START
				" FROM pg_stat_activity WHERE pid = pg_backend_pid()",
				self->backend != NULL ? self->backend : "false");
	PGresult *result = run_sql(self, sql);
	gboolean ok = result != NULL;

	if (ok && PQntuples(result) == 1) { /* this role may see the view */
		g_free(self->backend);
		self->backend = g_strdup(PQgetvalue(result, 0, 0));
	}
	PQclear(result);
	return ok;
}

/* Opens a connection, with the settings on which the statements rely. */
static gboolean open_connection(PostgresqlSession *self)
{
	g_autofree char *limit =
		g_strdup_printf("%" G_GINT64_FORMAT, MAX(2, patience_ms(self) / 1000));
	/* the user's string overrides the parameters before it */
	const char *const keywords[] = {"fallback_application_name", "connect_timeout", "dbname",
					"client_encoding", NULL};
	const char *const values[] = {"snowflake", limit, self->conninfo, "UTF8", NULL};
	g_autofree char *settings = NULL;

	self->connection = PQconnectdbParams(keywords, values, TRUE);
	if (PQstatus(self->connection) != CONNECTION_OK) {
		note_error(self, PQerrorMessage(self->connection));
		return FALSE;
	}
	PQsetNoticeReceiver(self->connection, ignore_notice, NULL);
	PQsetnonblocking(self->connection, TRUE);
	/* a commit must be durable when it is answered, whatever the role's defaults are */
	settings = sql_new(self,
			   "SET standard_conforming_strings = on;\n"
			   "SET search_path = pg_catalog;\n"
			   "SET default_transaction_isolation = 'read committed';\n"
			   "SET default_transaction_read_only = off;\n"
			   "SET lock_timeout = %" G_GINT64_FORMAT ";\n"
			   "SET statement_timeout = %" G_GINT64_FORMAT ";\n"
			   "SELECT set_config('synchronous_commit',"
			   " replace(current_setting('synchronous_commit'), 'off', 'on'), false)",
			   patience_ms(self) / 3, patience_ms(self) / 2);
	return do_sql(self, settings) && end_last_backend(self);
}

/* Checks the database. Posts AUTH_FAILED if it must not be used. */
static gboolean check_database(PostgresqlSession *self)
{
	g_autofree char *sql = postgresql_facts_sql(self->schema);
	PGresult *result = run_own_sql(self, sql);
	g_auto(PostgresqlFacts) facts = {0};
	StoreMessage *message;

	if (result == NULL)
		return FALSE;
	postgresql_facts_take(self->schema, self->connection, result, &facts);
	PQclear(result);
	if (facts.is_standby) {
		note_error(self, "it is a standby, which cannot be written; use the primary, or "
				 "several hosts with target_session_attrs=read-write");
		return FALSE;
	}
	if (facts.fault != NULL) {
		note_error(self, facts.fault);
		message = message_new(STORE_AUTH_FAILED, NULL);
		message->text = g_steal_pointer(&facts.fault);
		post_message(self, message);
		return FALSE;
	}
	g_free(self->history);
	self->history = g_steal_pointer(&facts.history);
	return TRUE;
}

static gboolean connect_database(PostgresqlSession *self)
{
	g_autofree char *listen = sql_new(self, "LISTEN @");
	StoreMessage *message;

	if (!open_connection(self) || !check_database(self) || !do_sql(self, listen) ||
	    !open_session(self))
		return FALSE;
	set_why_down(self, NULL);
	self->is_up = TRUE;
	self->n_connections++;
	message = message_new(STORE_UP, NULL);
	message->history = g_strdup(self->history);
	message->session = g_strdup(self->id);
	post_message(self, message);
	return TRUE;
}

/* Cancels a statement for which nobody waits any more, because no next connection ends it. */
static void cancel_statement(PostgresqlSession *self)
{
	PGcancel *cancel = PQgetCancel(self->connection);
	char why[256];

	if (cancel != NULL)
		PQcancel(cancel, why, sizeof(why));
	PQfreeCancel(cancel);
}

static void disconnect(PostgresqlSession *self)
{
	PostgresqlRequest *request;

	if (is_ending(self) && PQtransactionStatus(self->connection) == PQTRANS_ACTIVE)
		cancel_statement(self);
	PQfinish(self->connection);
	self->connection = NULL;
	g_hash_table_remove_all(self->watched_lists);
	if (self->is_up)
		post_message(self, message_new(STORE_DOWN, NULL));
	self->is_up = FALSE;
	while ((request = pop_request(self)) != NULL) {
		answer_unsure(self, request);
		postgresql_request_free(request);
	}
}

/* Executes requests and renews the session, until the connection is lost or the session ends. */
static void serve(PostgresqlSession *self)
{
	gboolean ok = TRUE;

	while (ok && !is_ending(self)) {
		PostgresqlRequest *request = pop_request(self);

		take_notifications(self);
		if (request != NULL) {
			ok = execute_request(self, request);
			postgresql_request_free(request);
		} else if (g_get_monotonic_time() >= self->renew_at_us) {
			gboolean is_alive = FALSE;

			ok = renew_session(self, &is_alive) && is_alive;
		} else {
			wait_for(self, POLLIN, self->renew_at_us);
			ok = PQconsumeInput(self->connection) &&
			     PQstatus(self->connection) == CONNECTION_OK;
			if (!ok)
				note_error(self, PQerrorMessage(self->connection));
		}
	}
}

static void end_session(PostgresqlSession *self)
{
	g_autofree char *own = g_strdup_printf("session = '%s'", self->id);
	g_autofree char *sql =
		sql_new(self, ASYNCHRONOUS "DELETE FROM @.session WHERE id = '%s'", self->id);

	if (delete_records(self, own))
		do_sql(self, sql);
}

static void *session_thread(void *data)
{
	PostgresqlSession *self = data;
	gboolean left;

	while (!is_ending(self)) {
		gint64 next_us;

		if (connect_database(self))
			serve(self);
		if (is_ending(self) && self->is_up && PQstatus(self->connection) == CONNECTION_OK)
			end_session(self);
		next_us = self->is_up
				  ? 0
				  : g_get_monotonic_time() + RECONNECT_MS * G_TIME_SPAN_MILLISECOND;
		disconnect(self);
		while (!is_ending(self) && wait_for(self, 0, next_us))
			;
	}
	pthread_mutex_lock(&self->mutex);
	self->ended = TRUE;
	left = self->left;
	pthread_cond_signal(&self->changed);
	pthread_mutex_unlock(&self->mutex);
	if (left)
		session_destroy(self);
	return NULL;
}

/* The owner's thread */

PostgresqlSession *postgresql_session_new(const PostgresqlSessionConfig *config)
{
	PostgresqlSession *self = g_new0(PostgresqlSession, 1);
	int code;

	self->conninfo = g_strdup(config->conninfo);
	self->schema = g_strdup(config->schema);
	self->sql_history = postgresql_schema_history(config->schema);
	self->timeout_ms = config->timeout_ms;
	self->wake = config->wake;
	self->user_data = config->user_data;
	self->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	self->watched_lists = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	g_queue_init(&self->requests);
	g_queue_init(&self->messages);
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->changed, NULL);
	code = self->wake_fd >= 0 ? thread_start_detached("postgresql", session_thread, self)
				  : errno;
	if (code != 0) {
		self->ended = TRUE;
		set_why_down(self, g_strdup_printf("cannot start: %s", g_strerror(code)));
	}
	return self;
}

static void wake_thread(PostgresqlSession *self)
{
	eventfd_write(self->wake_fd, 1);
}

void postgresql_session_close(PostgresqlSession *self, gint64 timeout_ms)
{
	gint64 until_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;
	gboolean ended;

	pthread_mutex_lock(&self->mutex);
	self->ending = TRUE;
	wake_thread(self);
	while (!self->ended && g_get_monotonic_time() < until_us)
		clock_wait_until(&self->changed, &self->mutex, until_us);
	ended = self->ended;
	self->left = !ended;
	pthread_mutex_unlock(&self->mutex);
	if (ended)
		session_destroy(self);
}

void postgresql_session_send(PostgresqlSession *self, PostgresqlRequest *request)
{
	pthread_mutex_lock(&self->mutex);
	g_queue_push_tail(&self->requests, request);
	pthread_mutex_unlock(&self->mutex);
	wake_thread(self);
}

StoreMessage *postgresql_session_take(PostgresqlSession *self, gint64 *out_heard_at_us)
{
	StoreMessage *message;

	pthread_mutex_lock(&self->mutex);
	message = g_queue_pop_head(&self->messages);
	*out_heard_at_us = self->heard_at_us;
	pthread_mutex_unlock(&self->mutex);
	return message;
}

char *postgresql_session_why_down(PostgresqlSession *self)
{
	char *why;

	pthread_mutex_lock(&self->mutex);
	why = g_strdup(self->why_down);
	pthread_mutex_unlock(&self->mutex);
	return why;
}
