/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/allow-list.h"
#include "common/tls/context.h"
#include "rpc/connection-limits.h"
#include "rpc/counters.h"
#include "rpc/listener.h"
#include "rpc/loop.h"

/*
 * The Thrift server: listens, accepts in the thread of the default main context, and adds each
 * connection to the loop with the fewest. For that thread only, unless a function says otherwise.
 */
typedef struct _RpcServer RpcServer;

typedef struct {
	RpcService service;
	RpcLimits limits;
	gint64 handshake_timeout_ms; /* of TLS */
	guint n_loops;
	ConnectionLimitsConfig
		connections; /* beyond these limits, clients are accepted and closed */
	/* Any thread: an event loop has failed, see rpc_server_check(). */
	LoopFailed failed;
	gpointer user_data;
} RpcServerConfig;

/* @counters: borrowed. (transfer full), or %NULL with a GIOError set. */
RpcServer *rpc_server_new(const RpcServerConfig *config, CounterSet *counters, GError **error);
void rpc_server_free(RpcServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RpcServer, rpc_server_free)

/* Before the start; see listener_open() and listener_open_local(). Each address is logged once the
 * server accepts there. An address of TLS needs rpc_server_set_tls() before the start. */
gboolean rpc_server_listen(RpcServer *self, const char *host, guint16 port, gboolean is_tls,
			   GError **error) G_GNUC_WARN_UNUSED_RESULT;

gboolean rpc_server_listen_local(RpcServer *self, const char *path, const SocketFileAccess *access,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a socket that listens already; see listener_adopt(). */
void rpc_server_adopt(RpcServer *self, int fd);

/* (transfer full): the first address on which it listens, with the port that was chosen; a local
 * socket only if there is no other address. */
char *rpc_server_address(const RpcServer *self);

/* For handshakes that begin from now on. @context: a reference is kept */
void rpc_server_set_tls(RpcServer *self, TlsContext *context);

/* Who may connect from now on; open connections stay. @allow: (nullable): every client; a reference
 * is kept */
void rpc_server_set_allow(RpcServer *self, AllowList *allow);

/* See ConnectionLimitsConfig; open connections stay. */
void rpc_server_set_max_per_address(RpcServer *self, guint max_per_address);

/* Starts the loops and accepts. After a failure nothing runs, and it cannot be started again. */
gboolean rpc_server_start(RpcServer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Any thread: has parked calls tried again. */
void rpc_server_wake(RpcServer *self);

typedef struct {
	guint n_connections, max_connections;
	guint n_parked; /* connections with a parked call */
} RpcServerStatus;

/* Any thread. */
RpcServerStatus rpc_server_status(const RpcServer *self);

/* Whether every loop has made a round since the last call of this, or since the start. For a
 * watchdog, which leaves the loops time between two calls. */
gboolean rpc_server_responds(RpcServer *self);

/* %FALSE with a GIOError set: an event loop has ended, and its connections with it. */
gboolean rpc_server_check(RpcServer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Stops accepting, answers the calls that have arrived, closes every connection and ends the loops:
 * see loop_drain(). On a socket that another process keeps, later clients are not refused, so the
 * last client accepted there gets a moment for its first call, within @timeout_ms. Blocks. */
void rpc_server_stop(RpcServer *self, gint64 timeout_ms);
