/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/batch.h"
#include "client/connection.h"
#include "client/pool/endpoints.h"

/* A server to which a pool is connected: whether it is fit, its round-trip time, and its supported
 * calls. There is at most one call at a time. Only one thread may use it, under
 * fork_guard_lock(). */

typedef struct _PoolBatchRequest PoolBatchRequest; /* opaque here */

typedef enum {
	POOL_SERVER_UNKNOWN, /* it has not reported its state yet */
	/* serves, or is assumed to serve because it does not support get_worker() */
	POOL_SERVER_SERVES,
	POOL_SERVER_DRAINING, /* it is about to stop; used only if no other server serves */
	/* refuses calls until its clock catches up; used only if no other server serves */
	POOL_SERVER_WAITING,
	POOL_SERVER_UNFIT, /* it has no worker ID */
} PoolServerFitness;

typedef enum {
	/* no event: the call continues, or is replaced by an older call that the server supports */
	POOL_SERVER_NOTHING,
	POOL_SERVER_PROBED,
	POOL_SERVER_DRAWN,
	POOL_SERVER_LISTED,
	/* the server has refused a draw; it can be used again after refused_until_us */
	POOL_SERVER_REFUSED,
	POOL_SERVER_FAILED, /* the connection is unusable */
} PoolServerEvent;

/* Code outside this module may only read the members. */
typedef struct {
	PoolEndpoint *endpoint; /* borrowed */
	ClientConnection *connection;
	gint64 since_us; /* time at which the connection's state last changed */
	ClientCall call; /* valid while CALLING: the current call */
	gint32 seqid;
	GByteArray *request;
	PoolServerFitness fitness;
	gint64 probed_at_us;   /* time of the last probe */
	gint64 answered_at_us; /* time of its answer */
	/* when it began to report no state or to refuse draws; POOL_NEVER_US if it does
	 * neither */
	gint64 useless_since_us;
	gint64 round_trip_us;
	/* the server's last report; NULL if there is none, or if it does not support get_worker()
	 */
	SnowflakeClientWorker *worker;
	gint64 worker_asked_at_us;   /* time of the probe for this report */
	gint64 worker_round_trip_us; /* round trip of this probe */
	gint64 refused_until_us;
	BatchLimits limits;
	/* batch request for which the server draws; NULL for the buffer */
	PoolBatchRequest *batch_request;
} PoolServer;

/* The data of an event. Its buffers are reused. */
typedef struct {
	gint64 asked_at_us; /* start of the call */
	GArray *runs;       /* (element-type SnowflakeClientIdRun): DRAWN */
	/* (element-type SnowflakeClientWorker): LISTED; NULL if the server cannot list them */
	GPtrArray *workers;
	gint64 *ids; /* IDs from the server, with room for CLIENT_CALL_MAX_COUNT */
} PoolEventData;

/* Begins to connect. @tls: (nullable): see client_connection_begin(). Returns: (transfer full): a
 * server, or %NULL with an error set */
PoolServer *pool_server_new(PoolEndpoint *endpoint, TlsClient *tls, gint64 now_us, GError **error);
void pool_server_free(PoolServer *self);

gboolean pool_server_is_idle(const PoolServer *self);

/* Returns: the number of IDs that the server is currently drawing, for a batch request or for the
 * buffer */
guint pool_server_drawing(const PoolServer *self);

/* Begin a call to an idle server: a probe, a draw, or a request for the list of servers. A draw
 * requests @count IDs, fewer than the refused count of the offer for RUNS. The IDs are for
 * @batch_request or, if it is %NULL, for the buffer. */
void pool_server_probe(PoolServer *self, gint64 now_us);
void pool_server_draw(PoolServer *self, const char *agent, guint count,
		      PoolBatchRequest *batch_request, gint64 now_us);
void pool_server_list(PoolServer *self, gint64 now_us);

/* Maximum number of servers that are read from a list, so that a list cannot exhaust the pool's
 * memory. It equals the number of worker IDs in the layout "twitter". */
#define POOL_SERVER_MAX_LISTED 1024

/* Returns: the rank of the server for draws; lower is better; POOL_SERVER_USELESS if it must not be
 * used for draws */
#define POOL_SERVER_USELESS G_MAXINT
gint pool_server_rank(const PoolServer *self, gint64 now_us);

/* Returns: when the server will have made no progress for POOL_SERVER_GIVE_WAY_MS, because it
 * reports no state, or because it refuses draws and is idle; POOL_NEVER_US if it is making
 * progress */
#define POOL_SERVER_GIVE_WAY_MS 500
gint64 pool_server_gives_way_us(const PoolServer *self);

/* Returns: how long to wait for the server before another server is used: @least_us, or more if its
 * round-trip time is long */
gint64 pool_server_patience_us(const PoolServer *self, gint64 least_us);
gboolean pool_server_seems_to_hang(const PoolServer *self, gint64 now_us);

/* Returns: when the server's rank will change without an event, or when the server will time out */
gint64 pool_server_next_us(const PoolServer *self, gint64 now_us);

/* Sends and receives as much as possible without waiting. @data: (inout): the received data.
 * Returns: the event; with REFUSED and FAILED, an error is set. A timeout is a failure. */
PoolServerEvent pool_server_advance(PoolServer *self, gint64 now_us, PoolEventData *data,
				    GError **error);
