/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <libpq-fe.h>

/*
 * The tables of a registry in PostgreSQL, the rights that a server needs, and the checks of a
 * database before a server uses it.
 *
 * SCHEMA.record contains the records of worker/store.h. SCHEMA.session contains the sessions; their
 * ephemeral records count only until lapses_at, by the database's clock.
 */

/* Returns: (transfer full): the statements that create the schema and the tables, if they are
 * missing */
char *postgresql_schema_sql(const char *schema);
/* Returns: (transfer full): the statements that permit @role what a server needs, one a line */
char *postgresql_schema_grants(const char *schema, const char *role);

/* Returns: (transfer full): an SQL expression for the history of a database. It changes if the
 * database can have lost commits:
 *
 * - with the cluster, if a dump was restored elsewhere;
 * - with the timeline, if a standby was promoted, or a base backup was recovered;
 * - with the file of the table, if a dump was restored in place;
 * - with the database, if it was created as a copy of another. */
char *postgresql_schema_history(const char *schema);

/* The facts about a database. */
typedef struct {
	gboolean is_standby;
	char *history; /* (nullable): NULL for a standby */
	char *fault;   /* (nullable): why a server must not use this database, and the remedy */
} PostgresqlFacts;

/* Returns: (transfer full): a query for the facts, for one row */
char *postgresql_facts_sql(const char *schema);
/* Fills @out_facts from the row; the caller must clear it. */
void postgresql_facts_take(const char *schema, PGconn *connection, const PGresult *row,
			   PostgresqlFacts *out_facts);
void postgresql_facts_clear(PostgresqlFacts *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(PostgresqlFacts, postgresql_facts_clear)

/**
 * postgresql_schema_create:
 * @timeout_s: time limit for connecting
 *
 * Connects, and creates the schema if it is missing. Refuses objects of another role. Blocks.
 */
gboolean postgresql_schema_create(const char *conninfo, const char *schema, guint timeout_s,
				  GError **error);
