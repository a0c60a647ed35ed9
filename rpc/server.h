/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/allow-list.h"
#include "common/tls/context.h"
#include "rpc/connection-limits.h"
#include "rpc/counters.h"
#include "rpc/listener.h"
#include "rpc/loop.h"

/* The Thrift server: listens, accepts in the thread of the default main context, and adds each
 * connection to the loop with the fewest connections. Only that thread may call these functions,
 * unless their comment says otherwise. */
typedef struct _RpcServer RpcServer;

typedef struct {
	RpcService service;
	RpcLimits limits;
	gint64 handshake_timeout_ms; /* time limit of TLS handshakes */
	guint n_loops;
	ConnectionLimitsConfig connections; /* a client beyond them is accepted, then closed */
	/* Called from any thread when an event loop has failed; see rpc_server_check(). */
	LoopFailed failed;
	gpointer user_data;
} RpcServerConfig;

/* Returns: (transfer full): a server, or %NULL with a GIOError set. @counters: borrowed */
RpcServer *rpc_server_new(const RpcServerConfig *config, CounterSet *counters, GError **error);
void rpc_server_free(RpcServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RpcServer, rpc_server_free)

/* Returns: (transfer none) (element-type Listener): the addresses, which the caller adds before the
 * start with the functions in listener.h. Each is logged when the server accepts connections there.
 * An address with TLS requires rpc_server_set_tls() before the start. */
GPtrArray *rpc_server_listeners(RpcServer *self);

/* Returns: (transfer full): the first address on which the server listens, with the actual port;
 * a local socket only if there is no other address. */
char *rpc_server_address(const RpcServer *self);

/* Sets the TLS settings of later handshakes. @context: a reference is kept */
void rpc_server_set_tls(RpcServer *self, TlsContext *context);

/* Sets which clients may connect from now on, and the limit per address, see
 * ConnectionLimitsConfig. Open connections stay. @allow: (nullable): a reference is kept; %NULL for
 * all clients */
void rpc_server_set_access(RpcServer *self, AllowList *allow, guint max_per_address);

/* Starts the loops, and accepts connections. After a failure, no thread is running, and the server
 * cannot be started again. */
gboolean rpc_server_start(RpcServer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Thread-safe. Makes the loops retry parked calls. */
void rpc_server_wake(RpcServer *self);

typedef struct {
	guint n_connections, max_connections;
	guint n_parked; /* number of connections with a parked call */
} RpcServerStatus;

/* Thread-safe. Returns the current status. */
RpcServerStatus rpc_server_status(const RpcServer *self);

/* Returns whether every loop has made a round since the last call to this function, or since the
 * start. For a watchdog, which must call it at intervals that leave the loops enough time. */
gboolean rpc_server_responds(RpcServer *self);

/* Returns %FALSE with a GIOError set if an event loop has failed and closed its connections. */
gboolean rpc_server_check(RpcServer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Stops accepting, answers the calls that have arrived, closes every connection and ends the loops:
 * see loop_drain(). If another process keeps a listening socket open, the last accepted client gets
 * a short time for its first call, within @timeout_ms. Blocks. */
void rpc_server_stop(RpcServer *self, gint64 timeout_ms);
