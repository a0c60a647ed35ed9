/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/replies.h"

#include <string.h>

#include "common/thrift/byte-writer.h"

#define MAX_COUNT 8

ClientCall replies_call(guint number, guint count)
{
	static const ClientCall CALLS[REPLIES_N_CALLS] = {
		{"get_id", CLIENT_RESULT_ID, "agent", 0},
		{"get_timestamp", CLIENT_RESULT_NUMBER, NULL, 0},
		{"get_ids", CLIENT_RESULT_IDS, "agent", 1},
		{"get_id_runs", CLIENT_RESULT_RUNS, "agent", 1},
		{"get_worker", CLIENT_RESULT_WORKER, NULL, 0},
		{"get_workers", CLIENT_RESULT_WORKERS, NULL, 0},
		{"get_uuids", CLIENT_RESULT_UUIDS, "agent", 1},
		{"get_counters", CLIENT_RESULT_COUNTERS, NULL, 0},
	};
	ClientCall call = CALLS[number % REPLIES_N_CALLS];

	if (call.count > 0)
		call.count = 1 + count % MAX_COUNT;
	return call;
}

ClientReply replies_new(const ClientCall *call)
{
	return (ClientReply){
		.ids = g_new(gint64, call->count),
		.runs = g_array_new(FALSE, FALSE, sizeof(SnowflakeClientIdRun)),
		.uuids = g_malloc(call->count * SNOWFLAKE_CLIENT_UUID_BYTES),
	};
}

void replies_clear(ClientReply *reply)
{
	g_free(reply->ids);
	g_array_unref(reply->runs);
	g_free(reply->uuids);
	snowflake_client_worker_free(reply->worker);
	g_clear_pointer(&reply->workers, g_ptr_array_unref);
	g_clear_pointer(&reply->counters, g_ptr_array_unref);
}

guint8 *replies_message(const ClientCall *call, gint32 seqid, guint type, const guint8 *bytes,
			gsize size, gsize *out_length)
{
	g_autoptr(GByteArray) message = g_byte_array_new();

	if (type != REPLIES_RAW) {
		byte_writer_be32(message, STRICT_VERSION | type);
		byte_writer_text(message, call->method);
		byte_writer_be32(message, (guint32)seqid);
	}
	g_byte_array_append(message, bytes, (guint)size);
	*out_length = message->len;
	/* an exact copy, so that AddressSanitizer detects reads past the end */
	return g_memdup2(message->data, message->len);
}

static void check_printable(const char *text)
{
	for (; *text != '\0'; text++)
		g_assert_true(g_ascii_isprint(*text));
}

static void check_worker(const SnowflakeClientWorker *worker)
{
	check_printable(worker->address);
	check_printable(worker->nonce);
	check_printable(worker->state);
	check_printable(worker->kind);
	check_printable(worker->program);
	check_printable(worker->server);
	check_printable(worker->registry_id);
}

static void check_ids(const gint64 *ids, guint count)
{
	gint64 last = 0;

	for (guint i = 0; i < count; i++) {
		g_assert_cmpint(ids[i], >, last);
		last = ids[i];
	}
}

static void check_runs(const GArray *runs, guint count)
{
	gint64 last = 0;
	guint sum = 0;

	for (guint i = 0; i < runs->len; i++) {
		const SnowflakeClientIdRun *run = &g_array_index(runs, SnowflakeClientIdRun, i);

		g_assert_cmpint(run->first, >, last);
		g_assert_cmpuint(run->count, >, 0);
		last = run->first + (run->count - 1);
		sum += run->count;
	}
	g_assert_cmpuint(sum, ==, count);
}

static void check_uuids(const ClientReply *reply, guint count)
{
	for (guint i = 1; i < count; i++)
		g_assert_cmpint(
			memcmp(reply->uuids[i - 1], reply->uuids[i], SNOWFLAKE_CLIENT_UUID_BYTES),
			<, 0);
}

void replies_check(const ClientCall *call, const ClientReply *reply)
{
	switch (call->result) {
	case CLIENT_RESULT_ID:
		g_assert_cmpint(reply->number, >, 0);
		return;
	case CLIENT_RESULT_NUMBER:
		return;
	case CLIENT_RESULT_IDS:
		check_ids(reply->ids, call->count);
		return;
	case CLIENT_RESULT_RUNS:
		check_runs(reply->runs, call->count);
		return;
	case CLIENT_RESULT_WORKER:
		check_worker(reply->worker);
		return;
	case CLIENT_RESULT_WORKERS:
		g_assert_cmpuint(reply->workers->len, <=, CLIENT_CALL_MAX_WORKERS);
		for (guint i = 0; i < reply->workers->len; i++)
			check_worker(reply->workers->pdata[i]);
		return;
	case CLIENT_RESULT_UUIDS:
		check_uuids(reply, call->count);
		return;
	case CLIENT_RESULT_COUNTERS:
		g_assert_cmpuint(reply->counters->len, <=, CLIENT_CALL_MAX_COUNTERS);
		for (guint i = 0; i < reply->counters->len; i++)
			check_printable(
				((const SnowflakeClientCounter *)reply->counters->pdata[i])->name);
		return;
	}
	g_assert_not_reached();
}
