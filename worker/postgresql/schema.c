/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/postgresql/schema.h"

#include <gio/gio.h>
#include <stdlib.h>
#include <string.h>

/* The columns of a row of postgresql_facts_sql(). */
enum {
	IS_STANDBY,
	HISTORY,
	BACKEND_PID,
	IS_DURABLE,
	HAS_TABLES,
	ROLE,
	MISSING_GRANTS,
};

/* Returns: (transfer full): a message of libpq as one line without a full stop. */
static char *one_line(const char *message)
{
	char *text = g_strstrip(g_strdup(message));

	return g_strdelimit(text, "\n\t", ' ');
}

char *postgresql_schema_sql(const char *schema)
{
	static const char SQL[] =
		"CREATE SCHEMA IF NOT EXISTS @;\n"
		"CREATE SEQUENCE IF NOT EXISTS @.creation_order;\n"
		"CREATE TABLE IF NOT EXISTS @.session (\n"
		"  id text PRIMARY KEY,\n"
		"  lapses_at timestamptz NOT NULL\n"
		");\n"
		"CREATE TABLE IF NOT EXISTS @.record (\n"
		"  key text COLLATE \"C\" PRIMARY KEY,\n"
		"  parent text COLLATE \"C\" NOT NULL,\n"
		"  data text NOT NULL,\n"
		"  version int4 NOT NULL DEFAULT 0,\n"
		"  creation_order int8 NOT NULL UNIQUE,\n"
		"  created timestamptz NOT NULL DEFAULT clock_timestamp(),\n"
		"  modified timestamptz NOT NULL DEFAULT clock_timestamp(),\n"
		"  session text\n"
		");\n"
		"CREATE INDEX IF NOT EXISTS record_parent ON @.record (parent);\n";
	g_auto(GStrv) parts = g_strsplit(SQL, "@", -1);

	return g_strjoinv(schema, parts);
}

char *postgresql_schema_grants(const char *schema, const char *role)
{
	return g_strdup_printf("GRANT USAGE ON SCHEMA %s TO %s;\n"
			       "GRANT USAGE ON SEQUENCE %s.creation_order TO %s;\n"
			       "GRANT SELECT, INSERT, UPDATE, DELETE ON %s.record, %s.session "
			       "TO %s;\n",
			       schema, role, schema, role, schema, schema, role);
}

char *postgresql_schema_history(const char *schema)
{
	/* not pg_control_checkpoint(), which has the new timeline only after a checkpoint */
	return g_strdup_printf("(SELECT system_identifier FROM pg_control_system())"
			       " || '/' || left(pg_walfile_name(pg_current_wal_lsn()), 8)"
			       " || '/' || (SELECT pg_relation_filenode(c.oid) FROM pg_class c"
			       " JOIN pg_namespace n ON n.oid = relnamespace"
			       " WHERE nspname = '%s' AND relname = 'record')"
			       " || '/' || (SELECT oid FROM pg_database"
			       " WHERE datname = current_database())",
			       schema);
}

char *postgresql_facts_sql(const char *schema)
{
	g_autofree char *history = postgresql_schema_history(schema);
	/* a schema that this role may not use must not be named in a regclass */
	g_autofree char *tables = g_strdup_printf(
		"(SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
		" WHERE nspname = '%s' AND relname IN ('record', 'session', 'creation_order'))",
		schema);

	return g_strdup_printf(
		"WITH class AS (SELECT c.oid, relname, relkind FROM pg_class c JOIN pg_namespace n"
		"  ON n.oid = relnamespace WHERE nspname = '%s'"
		"  AND relname IN ('record', 'session', 'creation_order')),\n"
		"wanted(wish, missing) AS (\n"
		"  SELECT 'USAGE ON SCHEMA %s', NOT has_schema_privilege(oid, 'USAGE')"
		"  FROM pg_namespace WHERE nspname = '%s'\n"
		"  UNION ALL SELECT 'USAGE ON SEQUENCE %s.' || relname,"
		"  CASE relkind WHEN 'S' THEN NOT has_sequence_privilege(oid, 'USAGE') END"
		"  FROM class\n"
		"  UNION ALL SELECT verb || ' ON %s.' || relname,"
		"  CASE relkind WHEN 'r' THEN NOT has_table_privilege(oid, verb) END FROM class,"
		"  unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS verb),\n"
		"grants AS (SELECT string_agg('GRANT ' || wish || ' TO ' || current_user, '; ')"
		"  AS missing FROM wanted WHERE missing)\n"
		"SELECT pg_is_in_recovery(),"
		" CASE WHEN NOT pg_is_in_recovery() AND %s = 3 AND missing IS NULL"
		" THEN %s END,"
		" pg_backend_pid(), current_setting('fsync'), %s = 3, current_user,"
		" missing FROM grants",
		schema, schema, schema, schema, schema, tables, history, tables);
}

static gboolean is_true(const PGresult *row, int column)
{
	return *PQgetvalue(row, 0, column) == 't';
}

void postgresql_facts_take(const char *schema, PGconn *connection, const PGresult *row,
			   PostgresqlFacts *out_facts)
{
	PostgresqlFacts facts = {.is_standby = is_true(row, IS_STANDBY)};

	if (!PQgetisnull(row, 0, HISTORY))
		facts.history = g_strdup(PQgetvalue(row, 0, HISTORY));
	/* a pooler makes up the process ID of the connection */
	if (atoi(PQgetvalue(row, 0, BACKEND_PID)) != PQbackendPID(connection))
		facts.fault = g_strdup("a connection pooler is in between, which does not forward "
				       "notifications; use the address of PostgreSQL itself in "
				       "--postgresql");
	else if (!is_true(row, HAS_TABLES))
		facts.fault = g_strdup_printf("it has no registry in the schema %s; check "
					      "--postgresql and --postgresql-schema, or, for a new "
					      "registry, run snowflakectl registry init",
					      schema);
	else if (!PQgetisnull(row, 0, MISSING_GRANTS))
		facts.fault = g_strdup_printf("the role %s lacks a right that servers need; run: "
					      "%s",
					      PQgetvalue(row, 0, ROLE),
					      PQgetvalue(row, 0, MISSING_GRANTS));
	else if (!g_str_equal(PQgetvalue(row, 0, IS_DURABLE), "on"))
		facts.fault = g_strdup("fsync is off, so a power failure can lose reservations; "
				       "set fsync = on");
	*out_facts = facts;
}

void postgresql_facts_clear(PostgresqlFacts *self)
{
	g_clear_pointer(&self->history, g_free);
	g_clear_pointer(&self->fault, g_free);
}

/* Executes @sql. Returns: (transfer full) (nullable): why it failed */
static char *find_failure(PGconn *connection, const char *sql)
{
	PGresult *result = PQexec(connection, sql);
	gboolean ok = PQresultStatus(result) == PGRES_COMMAND_OK;

	PQclear(result);
	return ok ? NULL : one_line(PQerrorMessage(connection));
}

/* An owner can add triggers, which would be executed with the rights of this role and of the
 * servers' role. Returns: (transfer full) (nullable): which object belongs to another role, or why
 * this is unknown */
static char *find_other_owner(PGconn *connection, const char *schema)
{
	g_autofree char *sql = g_strdup_printf(
		"SELECT object, pg_get_userbyid(owner), current_user FROM ("
		" SELECT 'schema %s' AS object, nspowner AS owner FROM pg_namespace"
		"  WHERE nspname = '%s'"
		" UNION ALL SELECT 'relation %s.' || relname, relowner FROM pg_class c"
		"  JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = '%s'"
		"  AND relname IN ('record', 'session', 'creation_order')) objects"
		" WHERE pg_get_userbyid(owner) <> current_user LIMIT 1",
		schema, schema, schema, schema);
	PGresult *result = PQexec(connection, sql);
	char *why = NULL;

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		why = one_line(PQerrorMessage(connection));
	else if (PQntuples(result) > 0)
		why = g_strdup_printf("the %s belongs to the role %s, not to %s; connect as its "
				      "owner, or give another schema (--postgresql-schema NAME)",
				      PQgetvalue(result, 0, 0), PQgetvalue(result, 0, 1),
				      PQgetvalue(result, 0, 2));
	PQclear(result);
	return why;
}

gboolean postgresql_schema_create(const char *conninfo, const char *schema, guint timeout_s,
				  GError **error)
{
	g_autofree char *limit = g_strdup_printf("%u", MAX(timeout_s, 2));
	const char *const keywords[] = {"connect_timeout", "dbname", NULL};
	const char *const values[] = {limit, conninfo, NULL};
	PGconn *connection = PQconnectdbParams(keywords, values, TRUE);
	g_autofree char *sql = postgresql_schema_sql(schema);
	g_autofree char *why = NULL;

	if (PQstatus(connection) != CONNECTION_OK)
		why = one_line(PQerrorMessage(connection));
	if (why == NULL)
		why = find_failure(connection, "SET client_min_messages = error;\n"
					       "SET search_path = pg_catalog;\n"
					       "BEGIN ISOLATION LEVEL READ COMMITTED");
	if (why == NULL)
		why = find_other_owner(connection, schema);
	if (why == NULL)
		why = find_failure(connection, sql);
	/* another role may have created an object in the meantime */
	if (why == NULL)
		why = find_other_owner(connection, schema);
	if (why == NULL)
		why = find_failure(connection, "COMMIT");
	if (why != NULL)
		g_set_error(error, G_IO_ERROR, G_IO_ERROR_FAILED,
			    "cannot create the schema %s in PostgreSQL: %s", schema, why);
	PQfinish(connection);
	return why == NULL;
}
