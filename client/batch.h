/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/call.h"

/*
 * Decides which call requests IDs from a server, and how many at once. A server can lack
 * get_id_runs or get_ids, or refuse a count. Then the next call steps down: from runs to IDs to one
 * ID, or to a smaller count. The functions are pure. Each server has its own limits, which only one
 * thread uses.
 */

/* Members are private. */
typedef struct {
	gboolean lacks_runs;
	gboolean lacks_ids;
	guint max_count;     /* largest count that the server may accept */
	guint refused_count; /* smallest count that was refused */
} BatchLimits;

/* The limits of a server about which nothing is known. */
#define BATCH_LIMITS_INIT ((BatchLimits){FALSE, FALSE, G_MAXUINT, G_MAXUINT})

/* The best request for a server. */
typedef struct {
	/* the wanted result, or a substitute that the server supports: IDS or ID */
	ClientResult result;
	guint max_count; /* largest count to request */
	/* smallest count that the server refuses. It can be larger than max_count by more than one,
	 * because a server need not name its limit. */
	guint refused_count;
} BatchOffer;

/* @wanted: RUNS, IDS, or UUIDS, which have no substitute */
BatchOffer batch_limits_offer(const BatchLimits *self, ClientResult wanted);

/* Returns: a call for @count IDs. @result: RUNS, IDS or ID; @count is ignored for ID. For UUIDS,
 * the caller sets the method */
ClientCall batch_call(ClientResult result, const char *agent, guint count);

/* Steps down after a refusal. Returns: %FALSE if no other call and no smaller count can help */
gboolean batch_limits_step_down(BatchLimits *self, const ClientCall *call, const ClientReply *reply,
				const GError *refusal);

/* Appends the IDs of a reply to a call of batch_call(), as runs. Does nothing if the reply has
 * runs, which are in the array that the caller passed to client_call_read().
 * @runs: (element-type SnowflakeClientIdRun) */
void batch_append_runs(const ClientCall *call, const ClientReply *reply, GArray *runs);
