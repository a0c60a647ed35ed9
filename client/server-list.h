/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/batch.h"
#include "client/call.h"
#include "client/connection.h"
#include "common/address.h"
#include "common/tls/client.h"

/*
 * The servers of a client, in order of preference, and the calls to them.
 *
 * An attempt is a call at one address of a server. If an attempt fails, or does not succeed soon,
 * the next one begins: at the next address of the server, then at the other servers. A slow attempt
 * continues in the meantime, and the first reply ends the call. A pass over all servers is followed
 * by a pause and another pass, until the time limit of the call ends. client/call.h defines these
 * times.
 *
 * The connection that received the last reply is kept, and the next call uses it first. The other
 * servers follow in the order in which they failed: first those that have not failed since they
 * last answered.
 *
 * For one thread at a time. In the child of a fork, the connection belongs to the parent, so a call
 * begins with a new one.
 */
typedef struct _ServerList ServerList;

/* Returns: (transfer full): a list. @addresses: (element-type Address) (transfer full): one or
 * more */
ServerList *server_list_new(GPtrArray *addresses);
void server_list_free(ServerList *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ServerList, server_list_free)

/* @tls: (nullable): a reference is kept; %NULL for the system's settings, which are read when they
 * are needed */
void server_list_share_tls(ServerList *self, TlsClient *tls);

/* Puts the servers into random order, and closes the connection. */
void server_list_shuffle(ServerList *self);

/* Returns: the server that answered the last call. The next call begins with this server, unless
 * another one is known to be better */
const Address *server_list_get_current(const ServerList *self);

/* Returns: the known batch limits of the current server */
BatchLimits *server_list_get_limits(ServerList *self);

/* Closes the connection to the current server, which has violated the contract, and prefers the
 * other servers from now on. */
void server_list_avoid_current(ServerList *self);

typedef struct {
	ClientLimit limit;
	/* time after which an attempt is slow; if 0, the rule in client/call.h applies */
	gint64 patience_us;
	gboolean retries; /* makes more than one pass if necessary */
} ServerListTerms;

/**
 * server_list_call:
 * @reply: (inout): as for client_call_read(). After a failure, retry_after_ms is the shortest time
 * from any server, and the results of partly read replies remain
 *
 * Makes a call. The call can be repeated, because repeating it only skips IDs. If a server refuses
 * the call in the same way as all servers would (INVALID_ARGUMENT, UNSUPPORTED), the call fails.
 *
 * A failed call sets the most specific error of all servers, in this order: INVALID_ARGUMENT or
 * UNSUPPORTED, then UNAVAILABLE, CLOCK, TIMEOUT, PROTOCOL, UNREACHABLE. The message contains the
 * last error of each server.
 */
gboolean server_list_call(ServerList *self, const ClientCall *call, const ServerListTerms *terms,
			  ClientReply *reply, GError **error) G_GNUC_WARN_UNUSED_RESULT;
