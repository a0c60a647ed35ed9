/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The IDs that a pool has received of late, from all of its servers. An ID that comes again is
 * proof that the servers' IDs are not unique. IDs of older replies are forgotten. For one thread.
 */

#define POOL_SEEN_REPLIES 256   /* at most */
#define POOL_SEEN_RUNS    16384 /* likewise, unless the last reply alone has more */

typedef struct {
	gint64 first; /* the least and the greatest ID */
	gint64 last;
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
 * Returns: (nullable): the server that has sent this ID
 */
const char *pool_seen_find(const PoolSeen *self, const GArray *runs, gint64 *out_id);

/* Remembers a reply. @runs: as above; @server: both are copied. */
void pool_seen_add(PoolSeen *self, const char *server, const GArray *runs);
