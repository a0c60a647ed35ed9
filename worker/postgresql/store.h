/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/postgresql.h"
#include "worker/store.h"

/*
 * A store in PostgreSQL: the tables of schema.h. It keeps a session open, and connects again after
 * a loss. Each change of the connection is logged.
 *
 * The guarantees of worker/store.h hold for these reasons:
 *
 * - S1 All commits lock the table, so they are executed one after the other, and each checks all
 *   its conditions and writes in one transaction. synchronous_commit is never off, and a database
 *   with fsync off is refused. A database that has lost commits, for example in a failover, has a
 *   different history, which STORE_UP reports, and which each commit checks.
 * - S2 The database is a primary, and each read is a statement of its own, in READ COMMITTED. So it
 *   sees each transaction whose commit was answered.
 * - S3 The version is a column, which each write increments.
 * - S4 A request is sent once. It is UNSURE if no answer arrives. After a lost connection, the
 *   database may still execute it.
 *
 * Two primaries that both accept writes are two stores. This cannot be detected.
 */

typedef struct {
	const PostgresqlTarget *target;
	const char *schema;
	gint64 session_timeout_ms;
} PostgresqlStoreConfig;

/* Returns: (transfer full): a store. @config: copied */
Store *postgresql_store_new(const PostgresqlStoreConfig *config);
