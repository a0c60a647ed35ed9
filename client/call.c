/* SPDX-License-Identifier: Apache-2.0 */
#include "client/call.h"

#include <string.h>

#include "common/thrift/byte-writer.h"
#include "common/thrift/reader.h"
#include "core/text.h"

#define MAX_REPLY_BYTES      65536
/* size limit of replies that grow with the fleet or with the number of agents */
#define MAX_LONG_REPLY_BYTES 16777215
#define RUN_BYTES            19 /* bytes of a run: its two fields and its end */

#define PATIENCE_ROUND_TRIPS 8
#define LEAST_PATIENCE_US    50000
#define LONGEST_PATIENCE_US  250000
#define LEAST_HALF_US        5000
#define SHORTEST_PAUSE_US    10000
#define LONGEST_PAUSE_US     250000

#define DECLARED_BY(result) (1u << (result))
#define BATCHES                                                                                    \
	(DECLARED_BY(CLIENT_RESULT_IDS) | DECLARED_BY(CLIENT_RESULT_RUNS) |                        \
	 DECLARED_BY(CLIENT_RESULT_UUIDS))

/* The exceptions in the IDL. Legacy calls return only the exception's name, at the start of the
 * message of a TApplicationException; other calls return it in a field of the result. */
static const struct {
	const char *name;
	guint results; /* DECLARED_BY() lists the calls that declare it ... */
	gint16 field;  /* ... as this field */
	SnowflakeClientError code;
} exceptions[] = {
	{"InvalidSystemClock", BATCHES, 1, SNOWFLAKE_CLIENT_ERROR_CLOCK},
	{"InvalidUserAgentError", BATCHES, 2, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT},
	{"WorkerIdUnavailable", BATCHES, 3, SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE},
	{"InvalidCount", BATCHES, 4, SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT},
	{"RegistryUnavailable", DECLARED_BY(CLIENT_RESULT_WORKERS), 1,
	 SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE},
	{"UnsupportedLayout", DECLARED_BY(CLIENT_RESULT_UUIDS), 5,
	 SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED},
};
enum { FIELD_INVALID_COUNT = 4 };

G_DEFINE_QUARK(snowflake_client_error_quark, snowflake_client_error)

gboolean client_call_refuse_argument(GError **error, const char *what)
{
	return text_set_error(error, SNOWFLAKE_CLIENT_ERROR,
			      SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT, "%s", what);
}

guint client_call_max_reply_bytes(const ClientCall *call)
{
	switch (call->result) {
	case CLIENT_RESULT_WORKERS:
	case CLIENT_RESULT_COUNTERS:
		return MAX_LONG_REPLY_BYTES;
	case CLIENT_RESULT_RUNS: /* some layouts need a run for each ID */
		return (guint)MIN(MAX_REPLY_BYTES + (guint64)call->count * RUN_BYTES,
				  MAX_LONG_REPLY_BYTES);
	case CLIENT_RESULT_ID:
	case CLIENT_RESULT_NUMBER:
	case CLIENT_RESULT_IDS:
	case CLIENT_RESULT_WORKER:
	case CLIENT_RESULT_UUIDS:
	default:
		return MAX_REPLY_BYTES;
	}
}

void client_call_write(const ClientCall *call, gint32 seqid, GByteArray *out)
{
	byte_writer_be32(out, STRICT_VERSION | MESSAGE_CALL);
	byte_writer_text(out, call->method);
	byte_writer_be32(out, (guint32)seqid);
	if (call->agent != NULL) {
		byte_writer_field(out, BINARY_STRING, 1);
		byte_writer_text(out, call->agent);
	}
	if (call->count > 0) {
		byte_writer_field(out, BINARY_I32, 2);
		byte_writer_be32(out, call->count);
	}
	byte_writer_u8(out, BINARY_STOP);
}

static gboolean malformed(GError **error, const char *what)
{
	return text_set_error(error, SNOWFLAKE_CLIENT_ERROR, SNOWFLAKE_CLIENT_ERROR_PROTOCOL,
			      "not a reply from a Snowflake server: %s", what);
}

static void replace_text(char **field, char *text)
{
	g_free(*field);
	*field = text;
}

/* Reads the common fields of TApplicationException and the exceptions of the IDL: 1, a message, and
 * 2, a number (the type, or retry_after_ms). */
static char *read_exception(ThriftReader *reader, gint64 *out_number)
{
	g_autofree char *message = NULL;
	BinaryType type;
	gint16 id;

	*out_number = 0;
	while ((type = thrift_reader_field(reader, &id)) != BINARY_STOP) {
		if (id == 1 && type == BINARY_STRING)
			replace_text(&message, thrift_reader_text(reader));
		else if (id == 2 && type == BINARY_I32)
			*out_number = thrift_reader_i32(reader);
		else if (id == 2 && type == BINARY_I64)
			*out_number = thrift_reader_i64(reader);
		else
			thrift_reader_skip(reader, type);
	}
	if (message == NULL || *message == '\0')
		return g_strdup("no message");
	return g_steal_pointer(&message);
}

static gboolean read_application_exception(ThriftReader *reader, const ClientCall *call,
					   GError **error)
{
	SnowflakeClientError code = SNOWFLAKE_CLIENT_ERROR_PROTOCOL;
	gint64 type;
	g_autofree char *message = read_exception(reader, &type);

	if (reader->bad || reader->left > 0)
		return malformed(error, "an invalid exception");
	if (type == APPLICATION_UNKNOWN_METHOD)
		return text_set_error(error, SNOWFLAKE_CLIENT_ERROR,
				      SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED,
				      "the server does not support the call %s", call->method);
	for (gsize i = 0; i < G_N_ELEMENTS(exceptions); i++) {
		gsize length = strlen(exceptions[i].name);

		if (strncmp(message, exceptions[i].name, length) == 0 &&
		    (message[length] == ':' || message[length] == '\0'))
			code = exceptions[i].code;
	}
	return text_set_error(error, SNOWFLAKE_CLIENT_ERROR, code, "%s", message);
}

/* Returns: the limit at the end of the message of an InvalidCount, which refuse_count() in
 * server/service.c writes; 0 if there is no limit below @count */
static guint read_count_limit(const char *message, guint count)
{
	static const char before[] = " is out of range, 1 to ";
	const char *at = strstr(message, before);
	guint64 limit;

	if (at == NULL || count < 2 ||
	    !g_ascii_string_to_unsigned(at + strlen(before), 10, 1, count - 1, &limit, NULL))
		return 0;
	return (guint)limit;
}

/* Reads an exception in the result, and stores its other fields in @refusal. Returns: %NULL,
 * without reading anything, if the call declares no exception with this field number */
static GError *read_declared_exception(ThriftReader *reader, const ClientCall *call, gint16 field,
				       ClientReply *refusal)
{
	for (gsize i = 0; i < G_N_ELEMENTS(exceptions); i++) {
		if ((exceptions[i].results & DECLARED_BY(call->result)) == 0 ||
		    exceptions[i].field != field)
			continue;

		gint64 retry_after_ms;
		g_autofree char *message = read_exception(reader, &retry_after_ms);

		if (exceptions[i].code == SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE)
			refusal->retry_after_ms = MAX(retry_after_ms, 0);
		refusal->count_refused = call->count > 0 && field == FIELD_INVALID_COUNT;
		if (refusal->count_refused)
			refusal->count_limit = read_count_limit(message, call->count);
		return g_error_new(SNOWFLAKE_CLIENT_ERROR, exceptions[i].code, "%s: %s",
				   exceptions[i].name, message);
	}
	return NULL;
}

static void read_ids(ThriftReader *reader, guint count, gint64 *out_ids)
{
	gsize size = thrift_reader_list(reader, BINARY_I64);
	gint64 last = 0;

	if (size != count)
		reader->bad = TRUE;
	for (gsize i = 0; i < size && !reader->bad; i++) {
		out_ids[i] = thrift_reader_i64(reader);
		if (out_ids[i] <= last)
			reader->bad = TRUE;
		last = out_ids[i];
	}
}

static void read_runs(ThriftReader *reader, guint count, GArray *out_runs)
{
	gsize size = thrift_reader_list(reader, BINARY_STRUCT);
	guint left = count;
	gint64 last = 0;

	g_array_set_size(out_runs, 0);
	for (gsize i = 0; i < size && !reader->bad; i++) {
		SnowflakeClientIdRun run = {0};
		BinaryType type;
		gint16 id;

		while ((type = thrift_reader_field(reader, &id)) != BINARY_STOP) {
			if (id == 1 && type == BINARY_I64)
				run.first = thrift_reader_i64(reader);
			/* a negative number counts as too large */
			else if (id == 2 && type == BINARY_I32)
				run.count = (guint)thrift_reader_i32(reader);
			else
				thrift_reader_skip(reader, type);
		}
		if (run.count == 0 || run.count > left || run.first <= last ||
		    run.first > G_MAXINT64 - (run.count - 1)) {
			reader->bad = TRUE;
			return;
		}
		left -= run.count;
		last = run.first + (run.count - 1);
		g_array_append_val(out_runs, run);
	}
	if (left > 0)
		reader->bad = TRUE;
}

static void read_uuids(ThriftReader *reader, guint count,
		       guint8 (*out_uuids)[SNOWFLAKE_CLIENT_UUID_BYTES])
{
	gsize size = thrift_reader_list(reader, BINARY_STRING);

	if (size != count)
		reader->bad = TRUE;
	for (gsize i = 0; i < size && !reader->bad; i++) {
		gsize length;
		const char *bytes = thrift_reader_bytes(reader, &length);

		if (length != SNOWFLAKE_CLIENT_UUID_BYTES ||
		    (i > 0 && memcmp(bytes, out_uuids[i - 1], length) <= 0)) {
			reader->bad = TRUE;
			return;
		}
		memcpy(out_uuids[i], bytes, length);
	}
}

/* The texts of a worker, and their fields in the IDL. */
static const struct {
	gint16 field;
	gsize offset;
} worker_texts[] = {
	{3, offsetof(SnowflakeClientWorker, address)},
	{4, offsetof(SnowflakeClientWorker, nonce)},
	{7, offsetof(SnowflakeClientWorker, state)},
	{9, offsetof(SnowflakeClientWorker, kind)},
	{10, offsetof(SnowflakeClientWorker, program)},
	{11, offsetof(SnowflakeClientWorker, server)},
	{12, offsetof(SnowflakeClientWorker, registry_id)},
};

static char **worker_text(SnowflakeClientWorker *worker, gsize i)
{
	return &G_STRUCT_MEMBER(char *, worker, worker_texts[i].offset);
}

SnowflakeClientWorker *snowflake_client_worker_copy(const SnowflakeClientWorker *worker)
{
	SnowflakeClientWorker *copy = g_memdup2(worker, sizeof(*worker));

	for (gsize i = 0; i < G_N_ELEMENTS(worker_texts); i++)
		*worker_text(copy, i) = g_strdup(*worker_text(copy, i));
	return copy;
}

void snowflake_client_worker_free(SnowflakeClientWorker *worker)
{
	if (worker == NULL)
		return;
	for (gsize i = 0; i < G_N_ELEMENTS(worker_texts); i++)
		g_free(*worker_text(worker, i));
	g_free(worker);
}

static SnowflakeClientWorker *read_worker(ThriftReader *reader)
{
	SnowflakeClientWorker *worker = g_new0(SnowflakeClientWorker, 1);
	BinaryType type;
	gint16 id;

	for (gsize i = 0; i < G_N_ELEMENTS(worker_texts); i++)
		*worker_text(worker, i) = g_strdup("");
	while ((type = thrift_reader_field(reader, &id)) != BINARY_STOP) {
		gsize text = 0;

		while (text < G_N_ELEMENTS(worker_texts) && worker_texts[text].field != id)
			text++;
		if (text < G_N_ELEMENTS(worker_texts) && type == BINARY_STRING)
			replace_text(worker_text(worker, text), thrift_reader_text(reader));
		else if (id == 1 && type == BINARY_I32)
			worker->datacenter_id = thrift_reader_i32(reader);
		else if (id == 2 && type == BINARY_I32)
			worker->worker_id = thrift_reader_i32(reader);
		else if (id == 5 && type == BINARY_I64)
			worker->claimed_at_ms = thrift_reader_i64(reader);
		else if (id == 6 && type == BINARY_I64)
			worker->reserved_until_ms = thrift_reader_i64(reader);
		else if (id == 8 && type == BINARY_I64)
			worker->as_of_ms = thrift_reader_i64(reader);
		else
			thrift_reader_skip(reader, type);
	}
	return worker;
}

static GPtrArray *read_workers(ThriftReader *reader, guint max_workers)
{
	GPtrArray *workers =
		g_ptr_array_new_with_free_func((GDestroyNotify)snowflake_client_worker_free);
	gsize size = thrift_reader_list(reader, BINARY_STRUCT);

	if (size > CLIENT_CALL_MAX_WORKERS)
		reader->bad = TRUE;
	for (gsize i = 0; i < size && !reader->bad; i++) {
		if (max_workers == 0 || i < max_workers)
			g_ptr_array_add(workers, read_worker(reader));
		else
			thrift_reader_skip(reader, BINARY_STRUCT);
	}
	return workers;
}

static void counter_free(SnowflakeClientCounter *counter)
{
	g_free(counter->name);
	g_free(counter);
}

static GPtrArray *read_counters(ThriftReader *reader)
{
	GPtrArray *counters = g_ptr_array_new_with_free_func((GDestroyNotify)counter_free);
	gsize size = thrift_reader_map(reader, BINARY_STRING, BINARY_I64);

	if (size > CLIENT_CALL_MAX_COUNTERS)
		reader->bad = TRUE;
	for (gsize i = 0; i < size && !reader->bad; i++) {
		SnowflakeClientCounter *counter = g_new(SnowflakeClientCounter, 1);

		counter->name = thrift_reader_text(reader);
		counter->value = thrift_reader_i64(reader);
		g_ptr_array_add(counters, counter);
	}
	return counters;
}

/* Returns: %FALSE, without reading anything, if a field of @type is not the result */
static gboolean read_result(ThriftReader *reader, const ClientCall *call, BinaryType type,
			    ClientReply *reply)
{
	static const BinaryType types[] = {
		[CLIENT_RESULT_ID] = BINARY_I64,       [CLIENT_RESULT_NUMBER] = BINARY_I64,
		[CLIENT_RESULT_IDS] = BINARY_LIST,     [CLIENT_RESULT_WORKER] = BINARY_STRUCT,
		[CLIENT_RESULT_WORKERS] = BINARY_LIST, [CLIENT_RESULT_UUIDS] = BINARY_LIST,
		[CLIENT_RESULT_COUNTERS] = BINARY_MAP, [CLIENT_RESULT_RUNS] = BINARY_LIST,
	};

	if (type != types[call->result])
		return FALSE;
	switch (call->result) {
	case CLIENT_RESULT_ID:
	case CLIENT_RESULT_NUMBER:
		reply->number = thrift_reader_i64(reader);
		break;
	case CLIENT_RESULT_IDS:
		read_ids(reader, call->count, reply->ids);
		break;
	case CLIENT_RESULT_RUNS:
		read_runs(reader, call->count, reply->runs);
		break;
	case CLIENT_RESULT_WORKER:
		g_clear_pointer(&reply->worker, snowflake_client_worker_free);
		reply->worker = read_worker(reader);
		break;
	case CLIENT_RESULT_WORKERS:
		g_clear_pointer(&reply->workers, g_ptr_array_unref);
		reply->workers = read_workers(reader, reply->max_workers);
		break;
	case CLIENT_RESULT_UUIDS:
		read_uuids(reader, call->count, reply->uuids);
		break;
	case CLIENT_RESULT_COUNTERS:
		g_clear_pointer(&reply->counters, g_ptr_array_unref);
		reply->counters = read_counters(reader);
		break;
	}
	if (call->result == CLIENT_RESULT_ID && reply->number <= 0)
		reader->bad = TRUE;
	return TRUE;
}

static gboolean read_reply(ThriftReader *reader, const ClientCall *call, ClientReply *reply,
			   GError **error)
{
	g_autoptr(GError) declared = NULL;
	ClientReply refusal = {0};
	gboolean has_result = FALSE;
	BinaryType type;
	gint16 id;

	while ((type = thrift_reader_field(reader, &id)) != BINARY_STOP) {
		if (id == 0 && read_result(reader, call, type, reply)) {
			has_result = TRUE;
		} else if (id > 0 && type == BINARY_STRUCT && declared == NULL) {
			declared = read_declared_exception(reader, call, id, &refusal);
			if (declared == NULL)
				thrift_reader_skip(reader, type);
		} else {
			thrift_reader_skip(reader, type);
		}
	}
	if (reader->bad || reader->left > 0)
		return malformed(error, "an invalid result");
	if (declared != NULL) {
		reply->retry_after_ms = refusal.retry_after_ms;
		reply->count_refused = refusal.count_refused;
		reply->count_limit = refusal.count_limit;
		g_propagate_error(error, g_steal_pointer(&declared));
		return FALSE;
	}
	if (!has_result)
		return malformed(error, "no result");
	return TRUE;
}

gboolean client_call_read(const ClientCall *call, gint32 seqid, const guint8 *bytes, gsize length,
			  ClientReply *reply, GError **error)
{
	ThriftReader reader = {bytes, length, FALSE};
	ThriftHeader header;

	thrift_reader_header(&reader, &header);
	if (reader.bad || !header.is_strict)
		return malformed(error, "not a message of Thrift's binary protocol");
	if (header.name_length != strlen(call->method) ||
	    memcmp(header.name, call->method, header.name_length) != 0 || header.seqid != seqid)
		return malformed(error, "the reply to another call");

	switch (header.type) {
	case MESSAGE_REPLY:
		return read_reply(&reader, call, reply, error);
	case MESSAGE_EXCEPTION:
		return read_application_exception(&reader, call, error);
	default:
		return malformed(error, "neither a reply nor an exception");
	}
}

gint64 client_call_patience_us(gint64 wanted_us, gint64 round_trip_us, gint64 left_us)
{
	gint64 patience_us = LONGEST_PATIENCE_US;

	if (wanted_us > 0)
		patience_us = wanted_us;
	else if (round_trip_us > 0)
		patience_us = MIN(PATIENCE_ROUND_TRIPS * round_trip_us + LEAST_PATIENCE_US,
				  LONGEST_PATIENCE_US);
	return MIN(patience_us, MAX(left_us / 2, LEAST_HALF_US));
}

gint64 client_call_pause_us(gint64 last_us)
{
	return CLAMP(2 * last_us, SHORTEST_PAUSE_US, LONGEST_PAUSE_US);
}
