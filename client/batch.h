/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/call.h"

/* Decides which call to use to request IDs from a server, and how many IDs to request at once. A
 * server might not support get_id_runs or get_ids, or might refuse a count. The next call then
 * steps down: from runs to IDs to a single ID, or to a smaller count. The functions are pure. Each
 * server has its own limits, which only one thread uses. */

/* Members are private. */
typedef struct {
	gboolean lacks_runs;
	gboolean lacks_ids;
	guint max_count;     /* largest count that the server may accept */
	guint refused_count; /* smallest count that was refused */
} BatchLimits;

/* The limits of a server that has not refused anything yet. */
#define BATCH_LIMITS_INIT ((BatchLimits){FALSE, FALSE, G_MAXUINT, G_MAXUINT})

/* The best request that a server supports. */
typedef struct {
	/* the wanted result, or a substitute that the server supports: IDS or ID */
	ClientResult result;
	guint max_count; /* largest count to request */
	/* smallest count that is known to be refused. It can exceed max_count by more than one,
	 * because a server need not report its limit. */
	guint refused_count;
} BatchOffer;

/* @wanted: RUNS, IDS or UUIDS; there is no substitute for UUIDS */
BatchOffer batch_limits_offer(const BatchLimits *self, ClientResult wanted);

/* Returns: a call for @count IDs. @result: RUNS, IDS or ID; @count is ignored for ID. For UUIDS,
 * the caller sets the method */
ClientCall batch_call(ClientResult result, const char *agent, guint count);

/* Steps down after a refusal. Returns: %FALSE if there is no other call and no smaller count to
 * try */
gboolean batch_limits_step_down(BatchLimits *self, const ClientCall *call, const ClientReply *reply,
				const GError *refusal);

/* Appends the IDs in the reply to a call from batch_call(), as runs. Does nothing if the reply
 * contains runs, because client_call_read() has already stored them in the caller's array.
 * @runs: (element-type SnowflakeClientIdRun) */
void batch_append_runs(const ClientCall *call, const ClientReply *reply, GArray *runs);
