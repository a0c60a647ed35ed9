/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"

/*
 * Writes the requests and reads the replies of the calls in snowflake.thrift. No sockets.
 *
 * The generated client is not used: it accepts a reply without a result, and a reply to another
 * call, and it spins on an incomplete reply.
 */

typedef enum {
	CLIENT_RESULT_ID,       /* an i64 above 0 */
	CLIENT_RESULT_NUMBER,   /* an i64 */
	CLIENT_RESULT_IDS,      /* a list of i64, as many as requested, above 0 and increasing */
	CLIENT_RESULT_RUNS,     /* a list of runs, not empty, above 0, increasing: as many IDs as
				 * requested */
	CLIENT_RESULT_WORKER,   /* a struct Worker */
	CLIENT_RESULT_WORKERS,  /* a list of structs Worker */
	CLIENT_RESULT_UUIDS,    /* a list of 16 bytes each, as many as requested, increasing */
	CLIENT_RESULT_COUNTERS, /* a map of names to i64 */
} ClientResult;

typedef struct {
	const char *method;
	ClientResult result;
	const char *agent; /* NULL if the call has no arguments */
	guint count;       /* for a batch: number of IDs; otherwise 0, without such an argument */
} ClientCall;

typedef struct {
	gint64 number; /* ID and NUMBER */
	gint64 *ids;   /* IDS: an array of the caller with room for count */
	/* RUNS: the caller's array (element-type SnowflakeClientIdRun), which is cleared first;
	 * undefined after a failure */
	GArray *runs;
	SnowflakeClientWorker *worker; /* WORKER: (transfer full), even after a failure */
	GPtrArray *workers;            /* WORKERS: (transfer full), even after a failure */
	guint max_workers; /* set by the caller: the rest of a longer list is skipped; 0 if none */
	guint8 (*uuids)[SNOWFLAKE_CLIENT_UUID_BYTES]; /* UUIDS: the caller's, room for count */
	GPtrArray *counters;    /* COUNTERS: (transfer full), even after a failure */
	gint64 retry_after_ms;  /* with UNAVAILABLE; 0 if unknown */
	gboolean count_refused; /* with INVALID_ARGUMENT: the count was refused, not the agent */
	guint count_limit; /* with count_refused: the largest count that is allowed; 0 if unknown */
} ClientReply;

/* Largest number of workers in a list, more than the number of worker IDs in any layout in use. */
#define CLIENT_CALL_MAX_WORKERS  65536
/* Largest number of counters, more than any server has. */
#define CLIENT_CALL_MAX_COUNTERS 65536
/* Largest number of IDs in a call, so that the reply is well below its limit. */
#define CLIENT_CALL_MAX_COUNT    1000
/* Largest number of IDs in a call for runs: the default of a server's --max-batch. */
#define CLIENT_CALL_MAX_RUN_IDS  10000

/* Sets INVALID_ARGUMENT. Returns: %FALSE */
gboolean client_call_refuse_argument(GError **error, const char *what);

/* Checks that a frame of @length bytes can be a reply of at most @max_bytes. Returns: %FALSE with
 * PROTOCOL set */
gboolean client_call_check_frame(guint32 length, guint max_bytes, GError **error);

/* Returns: the largest number of bytes that a reply to the call can have */
guint client_call_max_reply_bytes(const ClientCall *call);

/* Appends the message, without the header of a frame. */
void client_call_write(const ClientCall *call, gint32 seqid, GByteArray *out);

/**
 * client_call_read:
 * @reply: (inout): the result is set on success; retry_after_ms, count_refused and count_limit are
 *   set when a valid reply contains them, and are unchanged otherwise
 *
 * Returns: %TRUE, or %FALSE with the server's error set, or PROTOCOL if the bytes are not a reply
 *   to this call
 */
gboolean client_call_read(const ClientCall *call, gint32 seqid, const guint8 *bytes, gsize length,
			  ClientReply *reply, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/*
 * Computes the timing of the attempts of a call at several servers.
 */

/**
 * client_call_patience_us:
 * @wanted_us: the value that the program has set; 0 for 8 round trips plus 50 ms, at most 250 ms
 * @round_trip_us: of earlier calls to this server; 0 if unknown, so the default is 250 ms @left_us:
 * the call's remaining time
 *
 * Returns: how long to wait for one attempt before the next one begins: at most half of the
 * remaining time, but at least 5 ms
 */
gint64 client_call_patience_us(gint64 wanted_us, gint64 round_trip_us, gint64 left_us);

/* Returns: the mean time between the starts of two passes over all servers: at first 10 ms, then
 * twice @last_us, at most 250 ms. @last_us: the previous pause; 0 if a server has answered since */
gint64 client_call_pause_us(gint64 last_us);
