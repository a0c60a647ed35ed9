/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/call.h"

/*
 * Which call requests IDs from a server, and how many at once. A server can lack get_id_runs or
 * get_ids, or refuse a count. Then the next call steps down: from runs to IDs to one ID, or to a
 * smaller count. Pure; for one server, by one thread.
 */

/* Members are private. */
typedef struct {
	gboolean lacks_runs;
	gboolean lacks_ids;
	guint max_count;     /* largest count that it may be worth to request */
	guint refused_count; /* smallest count that was refused */
} BatchLimits;

/* Nothing is known of the server. */
#define BATCH_LIMITS_INIT ((BatchLimits){FALSE, FALSE, G_MAXUINT, G_MAXUINT})

/* The best request for a server. */
typedef struct {
	ClientResult result; /* the wanted one, or what the server has instead: IDS or ID */
	guint max_count;     /* largest count to request */
	guint refused_count; /* smallest count that the server does not give at once. It can be
			      * larger than max_count by more than one, because a server need not
			      * name its limit. */
} BatchOffer;

/* @wanted: RUNS, IDS, or UUIDS, which have no substitute */
BatchOffer batch_limits_offer(const BatchLimits *self, ClientResult wanted);

/* Returns: a call for @count IDs. @result: RUNS, IDS or ID; @count means nothing for ID */
ClientCall batch_call(ClientResult result, const char *agent, guint count);

/* Steps down after a refusal. Returns: %FALSE if no other call and no smaller count can help */
gboolean batch_limits_step_down(BatchLimits *self, const ClientCall *call, const ClientReply *reply,
				const GError *refusal);

/* Appends the IDs of a reply to a call of batch_call(), as runs. Does nothing if the reply has
 * runs: those are in the array that the caller gave to client_call_read().
 * @runs: (element-type SnowflakeClientIdRun) */
void batch_append_runs(const ClientCall *call, const ClientReply *reply, GArray *runs);
