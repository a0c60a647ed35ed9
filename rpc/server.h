/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/allow-list.h"
#include "common/counters.h"
#include "common/tls/stream.h"
#include "rpc/loop.h"
#include "rpc/roster.h"
#include "rpc/socket-file.h"

/*
 * The Thrift server: listens, accepts in the thread of the default main
 * context, and hands each connection to the loop that has the fewest. That
 * thread's only, but for rpc_server_wake().
 */
typedef struct _RpcServer RpcServer;

typedef struct {
	RpcService service;
	RpcLimits limits;
	gint64 handshake_timeout_ms; /* of TLS */
	guint n_loops;
	RosterConfig roster; /* who is not admitted is accepted and closed */
	/* Any thread: an event loop cannot go on, see rpc_server_check(). */
	LoopFailed failed;
	gpointer user_data;
} RpcServerConfig;

/* @counters: borrowed. (transfer full), or %NULL with a GIOError set. */
RpcServer *rpc_server_new(const RpcServerConfig *config, CounterSet *counters, GError **error);
void rpc_server_free(RpcServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RpcServer, rpc_server_free)

/* Before the start; see listener_open(), and listener_open_local(). Each address is logged once the
 * server accepts there. One of TLS needs rpc_server_set_tls() before the start. */
gboolean rpc_server_listen(RpcServer *self, const char *host, guint16 port, gboolean is_tls,
			   GError **error) G_GNUC_WARN_UNUSED_RESULT;

gboolean rpc_server_listen_local(RpcServer *self, const char *path, const SocketFileAccess *access,
				 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Likewise, on a socket that listens already; see listener_adopt(). */
void rpc_server_adopt(RpcServer *self, int fd);

/* (transfer full): the first address it listens on, with the port that was chosen; a local socket
 * only if there is nothing else. */
char *rpc_server_address(const RpcServer *self);

/* With what newcomers shake hands from now on; whoever has begun goes on as he has.
 * @context: kept as long as it is needed */
void rpc_server_set_tls(RpcServer *self, TlsContext *context);

/* Who may connect from now on; whoever is connected stays. @allow: (nullable): everybody; kept as
 * long as it is needed */
void rpc_server_set_allow(RpcServer *self, AllowList *allow);

/* See RosterConfig; whoever is connected stays. */
void rpc_server_set_max_per_address(RpcServer *self, guint max_per_address);

/* Starts the loops and accepts. After a failure nothing runs, and it cannot be started again. */
gboolean rpc_server_start(RpcServer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Any thread: what calls wait for may be there. */
void rpc_server_wake(RpcServer *self);

/* How many connections there are, how many may be, and how many of them have a call that waits. Any
 * thread. */
guint rpc_server_n_connections(const RpcServer *self);
guint rpc_server_max_connections(const RpcServer *self);
guint rpc_server_n_parked(const RpcServer *self);

/* Whether every loop has gone round since this was asked last; asked for the first time after the
 * start, say. For a watchdog, which leaves them time between two questions. */
gboolean rpc_server_responds(RpcServer *self);

/* %FALSE with a GIOError set: an event loop has ended, and its connections with it. */
gboolean rpc_server_check(RpcServer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Stops accepting, answers what has arrived, closes every connection, and ends the loops: see
 * loop_drain(). On a socket that others keep, no client is refused that comes later, so whoever was
 * accepted last is given a moment for its first call, within @timeout_ms. Blocks until then. */
void rpc_server_stop(RpcServer *self, gint64 timeout_ms);
