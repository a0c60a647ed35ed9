/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"

/* Writes the requests and reads the replies of the calls in snowflake.thrift. Does not use sockets.
 *
 * The client that Thrift generates is not used, because it accepts a reply without a result,
 * accepts a reply to another call, and spins on an incomplete reply. */

typedef enum {
	CLIENT_RESULT_ID,     /* an i64 above 0 */
	CLIENT_RESULT_NUMBER, /* an i64 */
	CLIENT_RESULT_IDS,    /* a list of i64: as many as requested, all above 0, increasing */
	/* a non-empty list of runs: as many IDs as requested, all above 0, increasing */
	CLIENT_RESULT_RUNS,
	CLIENT_RESULT_WORKER,   /* a struct Worker */
	CLIENT_RESULT_WORKERS,  /* a list of structs Worker */
	CLIENT_RESULT_UUIDS,    /* a list of 16-byte values: as many as requested, increasing */
	CLIENT_RESULT_COUNTERS, /* a map of names to i64 */
} ClientResult;

typedef struct {
	const char *method;
	ClientResult result;
	const char *agent; /* NULL if the call has no arguments */
	guint count;       /* number of IDs in a batch; 0 if the call has no count */
} ClientCall;

typedef struct {
	gint64 number; /* ID and NUMBER */
	gint64 *ids;   /* IDS: the caller's array, with room for count IDs */
	/* RUNS: the caller's array (element-type SnowflakeClientIdRun), which is cleared first; its
	 * content is undefined after a failure */
	GArray *runs;
	SnowflakeClientWorker *worker; /* WORKER: (transfer full), even after a failure */
	GPtrArray *workers;            /* WORKERS: (transfer full), even after a failure */
	/* maximum number of workers to read, set by the caller; 0 for no limit */
	guint max_workers;
	/* UUIDS: the caller's array, with room for count UUIDs */
	guint8 (*uuids)[SNOWFLAKE_CLIENT_UUID_BYTES];
	GPtrArray *counters;    /* COUNTERS: (transfer full), even after a failure */
	gint64 retry_after_ms;  /* with UNAVAILABLE; 0 if unknown */
	gboolean count_refused; /* with INVALID_ARGUMENT: the count was refused, not the agent */
	guint count_limit;      /* with count_refused: largest accepted count; 0 if unknown */
} ClientReply;

/* Largest number of workers in a list, more than the number of worker IDs in any layout in use. */
#define CLIENT_CALL_MAX_WORKERS  65536
/* Largest number of counters; no server has as many. */
#define CLIENT_CALL_MAX_COUNTERS 65536
/* Largest number of IDs in a call, so that the reply is well below its size limit. */
#define CLIENT_CALL_MAX_COUNT    1000
/* Largest number of IDs in a call for runs: the default of --max-batch. */
#define CLIENT_CALL_MAX_RUN_IDS  10000

/* Sets INVALID_ARGUMENT. Returns: %FALSE */
gboolean client_call_refuse_argument(GError **error, const char *what);

/* Returns: the largest number of bytes that a reply to the call can have */
guint client_call_max_reply_bytes(const ClientCall *call);

/* Appends the message, without a frame header. */
void client_call_write(const ClientCall *call, gint32 seqid, GByteArray *out);

/* Sets the result in @reply on success; retry_after_ms, count_refused and count_limit when a valid
 * reply contains them. Returns: %TRUE, or %FALSE with the server's error set, or PROTOCOL if the
 * bytes are not a reply to this call */
gboolean client_call_read(const ClientCall *call, gint32 seqid, const guint8 *bytes, gsize length,
			  ClientReply *reply, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Computes how to time the attempts of one call at several servers. */

/* Returns: how long to wait for one attempt before the next one begins: at most half of the call's
 * remaining time, @left_us, but at least 5 ms. @wanted_us: the value that the program has set; 0
 * for 8 round trips plus 50 ms, at most 250 ms. @round_trip_us: round-trip time of earlier calls to
 * this server; 0 if unknown, then the default is 250 ms */
gint64 client_call_patience_us(gint64 wanted_us, gint64 round_trip_us, gint64 left_us);

/* Returns: the mean time between the starts of two passes over all servers: 10 ms at first, then
 * twice @last_us, at most 250 ms. @last_us: the previous result; 0 if a server has answered
 * since */
gint64 client_call_pause_us(gint64 last_us);
