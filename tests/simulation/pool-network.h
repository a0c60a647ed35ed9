/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>

#include "client/pool/refill.h"
#include "tests/simulation/world.h"

/*
 * The network in virtual time, and the hosts that run pools. The linker replaces the sockets of
 * client/connection.c, eventfd(2), g_rand_new(), the threads (thread.h) of the pool, and how it
 * closes descriptors. So the product's code of pools and relays runs unchanged, in one thread.
 * pool-names.c resolves names.
 */

#define NETWORK_COUNTED 16 /* number of servers whose connections are counted */

/* A machine with one pool. */
typedef struct {
	WorldMachine machine;
	gint64 distance_us; /* latency to the nearest server, one way */
	PoolRefill *refill; /* NULL if no pool has started */
	guint64 n_passes;
	guint64 n_calls;                    /* requests sent */
	guint64 n_begun;                    /* connections begun */
	gint64 begun_us, longest_gap_us;    /* time of the last one; longest time between two */
	void (*passed)(gpointer user_data); /* called after each pass; set by the owner */
	gpointer user_data;
	/* private */
	guint fd;
	gboolean is_called;
	gint64 due_us, armed_us;
	struct pollfd fds[POOL_FLEET_MAX_SERVERS];
	guint n_fds;
	gint64 second;                     /* the second of n_connects */
	guint n_connects[NETWORK_COUNTED]; /* connections begun in it, by server */
} NetworkHost;

/* A connection from a pool to a server, as both ends see it. */
typedef struct {
	NetworkHost *host;
	guint server;
	GByteArray *request;  /* for the server: bytes received */
	guint n_starts;       /* for the server: number of the process that has accepted */
	gint64 last_first;    /* for the server: first ID of its last reply; 0 if none */
	guint refused_count;  /* for the server: smallest count that it has refused; 0 if none */
	gboolean is_accepted; /* by the server */
	gboolean is_ended;    /* closed by the server, or refused */
	gboolean is_closed;   /* by the pool */
	/* private */
	int fd;
	gboolean is_connected, is_blocked, is_seen_ended;
	int error;
	GByteArray *reply;
	gint64 to_server_us, to_client_us;
} NetworkConnection;

typedef enum { NETWORK_ACCEPTS, NETWORK_REFUSES, NETWORK_IS_SILENT } NetworkReaction;

/* A server at an address. */
typedef struct {
	NetworkReaction (*connect)(gpointer user_data, NetworkConnection *connection);
	/* connection->request has grown */
	void (*receive)(gpointer user_data, NetworkConnection *connection);
	gpointer user_data;
	gint64 distance_us;
} NetworkListener;

void pool_network_init(void);
void pool_network_clear(void);

/* Makes @listener answer at the address of @server, which is a number from 0 on. */
void pool_network_listen(guint server, const NetworkListener *listener);
struct sockaddr_in pool_network_address(guint server);

NetworkHost *pool_network_host_new(const char *name, gint64 distance_us);

/* Sets the host whose code runs from now on. Pools that start belong to it. */
void pool_network_enter(NetworkHost *host);

/* Sends bytes from the server to the pool, @after_us from now. */
void pool_network_send(NetworkConnection *connection, const guint8 *bytes, guint length,
		       gint64 after_us);

/* Ends one connection, or all of @server, from the server's side. */
void pool_network_end(NetworkConnection *connection);
void pool_network_end_all(guint server);
guint pool_network_count_connections(guint server);

/* Returns: the greatest number of connections begun within 10 ms, by all hosts, since the last call
 */
guint pool_network_take_worst_connects(void);
