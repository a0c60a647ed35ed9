/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The database that contains a registry, as named by the options. Nothing here connects.
 */

#define POSTGRESQL_DEFAULT_SCHEMA "snowflake"

typedef struct {
	char *conninfo; /* as given: a connection string or URI, without a password */
	char *shown;    /* its main parts, for messages: "host=db port=5432 dbname=app" */
} PostgresqlTarget;

/* Returns: (transfer full) (nullable): the target; %NULL with a G_OPTION_ERROR set if libpq does
 * not accept @conninfo, or if it contains a password */
PostgresqlTarget *postgresql_target_parse(const char *conninfo, GError **error);
void postgresql_target_free(PostgresqlTarget *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PostgresqlTarget, postgresql_target_free)

/* Returns: (transfer full) (nullable): @text, the name of a schema; %NULL with a G_OPTION_ERROR set
 * if it would need quotes in SQL. */
char *postgresql_schema_parse(const char *text, GError **error);
