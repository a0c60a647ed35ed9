/* SPDX-License-Identifier: Apache-2.0 */
#include "client/batch.h"

BatchOffer batch_limits_offer(const BatchLimits *self, ClientResult wanted)
{
	BatchOffer offer = {.result = wanted};
	guint most = CLIENT_CALL_MAX_COUNT;

	if (offer.result == CLIENT_RESULT_RUNS && self->lacks_runs)
		offer.result = CLIENT_RESULT_IDS;
	if (offer.result == CLIENT_RESULT_IDS && self->lacks_ids)
		offer.result = CLIENT_RESULT_ID;
	if (offer.result == CLIENT_RESULT_RUNS)
		most = CLIENT_CALL_MAX_RUN_IDS;
	else if (offer.result == CLIENT_RESULT_ID)
		most = 1;
	offer.max_count = MIN(self->max_count, most);
	offer.refused_count = MIN(self->refused_count, most + 1);
	return offer;
}

ClientCall batch_call(ClientResult result, const char *agent, guint count)
{
	ClientCall call = {.method = "get_id", .result = result, .agent = agent};

	if (result != CLIENT_RESULT_ID) {
		call.method = result == CLIENT_RESULT_RUNS ? "get_id_runs" : "get_ids";
		call.count = count;
	}
	return call;
}

gboolean batch_limits_step_down(BatchLimits *self, const ClientCall *call, const ClientReply *reply,
				const GError *refusal)
{
	if (reply->count_refused && call->count > 1) {
		self->refused_count = reply->count_limit > 0 ? reply->count_limit + 1 : call->count;
		self->max_count =
			MIN(self->max_count,
			    reply->count_limit > 0 ? reply->count_limit : self->refused_count / 2);
		return TRUE;
	}
	if (!g_error_matches(refusal, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED))
		return FALSE;
	self->lacks_runs |= call->result == CLIENT_RESULT_RUNS;
	self->lacks_ids |= call->result == CLIENT_RESULT_IDS;
	return call->result == CLIENT_RESULT_RUNS || call->result == CLIENT_RESULT_IDS;
}

void batch_append_runs(const ClientCall *call, const ClientReply *reply, GArray *runs)
{
	const gint64 *ids = call->result == CLIENT_RESULT_ID ? &reply->number : reply->ids;
	guint count = call->result == CLIENT_RESULT_ID ? 1 : call->count;

	if (call->result == CLIENT_RESULT_RUNS)
		return;
	for (guint i = 0; i < count; i++) {
		SnowflakeClientIdRun *last =
			runs->len > 0 ? &g_array_index(runs, SnowflakeClientIdRun, runs->len - 1)
				      : NULL;
		const SnowflakeClientIdRun run = {.first = ids[i], .count = 1};

		if (last != NULL && last->first + last->count == ids[i])
			last->count++;
		else
			g_array_append_val(runs, run);
	}
}
