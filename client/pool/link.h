/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/socket.h>

#include "client/call.h"
#include "common/address.h"
#include "common/tls/client.h"

/*
 * A connection of a pool to one server, with one call under way at most. It never waits: who owns
 * it waits for pool_link_events() of its descriptor, by poll(2), and then advances it. For one
 * thread, under fork_guard_lock().
 */

typedef enum {
	POOL_LINK_CONNECTING, /* the handshake of TLS included */
	POOL_LINK_IDLE,
	POOL_LINK_ASKING,
} PoolLinkState;

typedef enum {
	POOL_LINK_NOTHING, /* it goes on */
	POOL_LINK_READY,   /* it has just become connected */
	POOL_LINK_ANSWERED,
	POOL_LINK_REFUSED, /* the server has answered with an error; the connection stands */
	POOL_LINK_FAILED,  /* the connection is of no use any more */
} PoolLinkEvent;

/* Members are for reading. */
typedef struct {
	int fd;              /* -1: not any more, in the child of a fork */
	TlsStream *tls;      /* NULL: plain */
	gboolean is_shaking; /* CONNECTING: connected, and in the handshake of TLS */
	PoolLinkState state;
	gint64 since_us; /* when it got into this state */
	ClientCall call; /* ASKING: what */
	gint32 seqid;
	GByteArray *out; /* from out_sent on it is yet to be sent */
	gsize out_sent;
	GByteArray *in;
} PoolLink;

typedef struct {
	struct sockaddr_storage bytes;
	socklen_t length;
	/* with TLS: whom the server's certificate is to be of; "": plain */
	char tls_host[ADDRESS_MAX_HOST_BYTES + 1];
} PoolLinkAddress;

/* Begins to connect. @tls: (nullable): as tls_client_connect() has it; borrowed; needed for an
 * address with TLS. Returns: (transfer full): %NULL with UNREACHABLE set */
PoolLink *pool_link_new(const PoolLinkAddress *address, TlsClient *tls, gint64 now_us,
			GError **error);
void pool_link_free(PoolLink *self);

/* What is in @call stays until it is answered. The link is idle. */
void pool_link_ask(PoolLink *self, const ClientCall *call, gint64 now_us);

/* What to wait for: events of poll(2). */
short pool_link_events(const PoolLink *self);

/**
 * pool_link_advance:
 * @reply: (inout): as client_call_read() has it
 *
 * Sends and receives what it can. After ANSWERED and REFUSED it is idle; an error is set with
 * REFUSED and FAILED.
 */
PoolLinkEvent pool_link_advance(PoolLink *self, gint64 now_us, ClientReply *reply, GError **error);
