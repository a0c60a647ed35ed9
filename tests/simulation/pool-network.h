/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <poll.h>

#include "client/pool/refill.h"
#include "tests/simulation/world.h"

/*
 * The network in virtual time, and the hosts that run pools. The linker puts pool-network.c in the
 * place of the sockets below client/pool/link.c, of eventfd(2), of g_rand_new() and of the threads
 * (thread.h) and descriptors (fork.h) of the pool. So the product's code of pools and relays runs
 * unchanged, in one thread. Names are resolved in pool-names.c.
 */

#define NETWORK_COUNTED 16 /* servers whose connections are counted */

/* A machine with one pool. Members are for reading, unless they say otherwise. */
typedef struct {
	WorldMachine machine;
	gint64 distance_us; /* one way to the nearest server */
	PoolRefill *refill; /* the pool's; NULL: none has started */
	guint64 n_passes;
	guint64 n_calls;                    /* requests sent */
	void (*passed)(gpointer user_data); /* to be set: called after each pass */
	gpointer user_data;
	/* private */
	guint fd;
	gboolean is_called;
	gint64 due_us, armed_us;
	struct pollfd fds[POOL_PEERS_MAX];
	guint n_fds;
	gint64 second;                     /* of what is counted below */
	guint n_connects[NETWORK_COUNTED]; /* by server */
} NetworkHost;

/* A connection from a pool to a server, as both ends see it. */
typedef struct {
	NetworkHost *host;
	guint server;
	GByteArray *request;  /* for the server: what has arrived */
	guint life;           /* for the server: its process that has accepted */
	gint64 last_first;    /* for the server: the first ID of its last answer; 0: none */
	gboolean is_accepted; /* by the server */
	gboolean is_ended;    /* by the server, or refused */
	gboolean is_closed;   /* by the pool */
	/* private */
	int fd;
	gboolean is_connected, is_blocked, is_seen_ended;
	int error;
	GByteArray *reply;
	gint64 to_server_us, to_client_us;
} NetworkConnection;

typedef enum { NETWORK_ACCEPTS, NETWORK_REFUSES, NETWORK_IS_SILENT } NetworkAnswer;

/* What answers at an address. */
typedef struct {
	NetworkAnswer (*connect)(gpointer user_data, NetworkConnection *connection);
	/* connection->request has grown */
	void (*receive)(gpointer user_data, NetworkConnection *connection);
	gpointer user_data;
	gint64 distance_us;
} NetworkListener;

void network_init(void);
void network_clear(void);

/* Puts @listener at address number @server: they are numbered from 0. */
void network_listen(guint server, const NetworkListener *listener);
struct sockaddr_in network_address(guint server);

NetworkHost *network_host_new(const char *name, gint64 distance_us);

/* The code of @host runs from here on; pools that begin are its own. */
void network_enter(NetworkHost *host);

/* Bytes of the server arrive at the pool @after_us and the way later. */
void network_send(NetworkConnection *connection, const guint8 *bytes, guint length,
		  gint64 after_us);

/* The server ends a connection: all of @server, or one. */
void network_end(NetworkConnection *connection);
void network_end_all(guint server);
guint network_count_connections(guint server);

/* The most connections begun within one 10 ms, by all hosts, since it was last asked. */
guint network_take_worst_connects(void);
