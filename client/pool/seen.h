/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The IDs in the last replies from all servers of a pool. An ID that is received again proves that
 * the servers' IDs are not unique. IDs in older replies are forgotten. For one thread.
 */

#define POOL_SEEN_REPLIES 256   /* largest number of replies */
#define POOL_SEEN_RUNS    16384 /* largest number of runs, unless the last reply alone has more */

typedef struct {
	gint64 first; /* smallest ID */
	gint64 last;  /* greatest ID */
	GArray *runs;
	char *server;
} PoolSeenReply;

/* Members are private. */
typedef struct {
	PoolSeenReply replies[POOL_SEEN_REPLIES]; /* a ring */
	guint oldest, count;
	guint n_runs;
} PoolSeen;

void pool_seen_clear(PoolSeen *self);

/**
 * pool_seen_find:
 * @runs: (element-type SnowflakeClientIdRun): one or more, increasing
 * @out_id: (out): an ID of @runs that was received before; untouched if there is none
 *
 * Returns: (nullable): the server that sent this ID, valid until the next pool_seen_add()
 */
const char *pool_seen_find(const PoolSeen *self, const GArray *runs, gint64 *out_id);

/* Remembers a reply. Copies @runs, as above, and @server. */
void pool_seen_add(PoolSeen *self, const char *server, const GArray *runs);
