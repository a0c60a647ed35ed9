/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "server/counters.h"
#include "server/rpc/dispatcher.h"
#include "server/rpc/loop.h"

/*
 * The Thrift server: listens, accepts in the thread of the default main
 * context, and hands each connection to the loop that has the fewest.
 */
typedef struct _RpcServer RpcServer;

typedef struct {
	RpcService service;
	RpcLimits limits;
	guint n_loops;
	guint max_connections; /* beyond it: accept and close */
} RpcServerConfig;

/* @counters: borrowed. (transfer full), or %NULL with a GIOError set. */
RpcServer *rpc_server_new(const RpcServerConfig *config, CounterSet *counters, GError **error);
void rpc_server_free(RpcServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RpcServer, rpc_server_free)

/* Before the start; see listener_open(). Each address is logged once the server accepts there. */
gboolean rpc_server_listen(RpcServer *self, const char *host, guint16 port,
			   GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): the first address it listens on, with the port that was chosen. */
char *rpc_server_address(const RpcServer *self);

/* Starts the loops and accepts. */
gboolean rpc_server_start(RpcServer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Any thread: what calls wait for may be there. */
void rpc_server_wake(RpcServer *self);

/* Stops accepting, answers what has arrived, closes every connection, after @timeout_ms at the
 * latest, and ends the loops. */
void rpc_server_stop(RpcServer *self, gint64 timeout_ms);
