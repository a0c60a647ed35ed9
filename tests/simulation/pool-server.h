/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/generator.h"
#include "server/relay-source.h"
#include "tests/simulation/pool-network.h"

/*
 * Servers that pools and relays connect to. They issue real IDs, with core/generator.h and a lease
 * of the simulation, and reply in Thrift's binary protocol. A server can also be a relay, whose IDs
 * come from server/relay-source.c. Each server has one fault at a time.
 */
typedef enum {
	SERVER_IS_HEALTHY,
	SERVER_DIES,     /* connections end, new ones are refused */
	SERVER_VANISHES, /* no reply on any connection; new ones are not accepted */
	SERVER_HANGS,    /* accepts connections, and never replies */
	SERVER_CLOSES,   /* closes the connection instead of a reply */
	SERVER_RESTARTS, /* gets another worker ID, and is healthy */
	SERVER_DRAINS,
	SERVER_IS_UNFIT,          /* has no worker ID */
	SERVER_LACKS_RESERVATION, /* refuses all draws */
	SERVER_IS_LATE,
	SERVER_IS_SLOW,        /* sends a few bytes at a time */
	SERVER_LIMITS_BATCHES, /* refuses large counts */
	SERVER_LACKS_RUNS,     /* does not support get_id_runs */
	SERVER_IS_LEGACY,      /* supports only get_id */
	/* wrong replies */
	SERVER_REPEATS,          /* the IDs of the last reply to the pool */
	SERVER_GOES_BACK,        /* IDs below those of the last reply */
	SERVER_GIVES_MORE,       /* one ID more than requested */
	SERVER_GIVES_FEWER,      /* one ID less than requested */
	SERVER_CONFUSES_CALLS,   /* the sequence ID of another call */
	SERVER_REPLIES_TWICE,    /* each reply twice */
	SERVER_SENDS_GARBAGE,    /* random bytes */
	SERVER_LISTS_NO_SERVERS, /* get_workers: addresses without a server, sometimes thousands */
	SERVER_CONTRADICTS,      /* get_worker: another worker ID than in its IDs */
	SERVER_N_FAULTS,
} ServerFault;

typedef struct {
	WorldMachine machine; /* for notes; the code of a relay runs on its host */
	guint index;          /* number of its address in pool-network.h */
	ServerFault fault;
	gint64 healthy_since_us; /* it can serve since this time; WORLD_NEVER_US if it cannot */
	/* until this time, pools may exclude it, because it has sent wrong IDs */
	gint64 excluded_until_us;
	guint n_connects; /* number of connections that pools have begun */
	/* number of requests; of these, get_worker; of these, get_workers */
	guint n_requests, n_draws, n_probes, n_lists;
	gboolean is_twin; /* all servers with this number are one process */
	/* fault_then begins with request number fault_at, from 1 on; 0 if never */
	guint fault_at;
	ServerFault fault_then;
	guint max_age_ms; /* maximum age of the IDs in a reply */
	/* private */
	guint n_starts; /* number of starts */
	guint worker_id;
	Clock clock;
	Generator *generator;
	Lease *lease;              /* owned by the generator */
	guint max_count, n_listed; /* parameters of the fault */
	GHashTable *sent; /* maps a NetworkHost to the SnowflakeClientIdRun of the last reply */
	/* only for a relay */
	NetworkHost *host;
	Options options;
	RelaySource *relay;
	guint n_upstream; /* its upstream servers are 0 to n_upstream - 1 */
	BatchSlot *batch_slot;
	GPtrArray *waiting; /* (element-type Call) */
	gint64 max_wait_us;
} SimServer;

void sim_server_init(void);
void sim_server_clear(void);
guint sim_server_count(void);
SimServer *sim_server_get(guint index);

/* Makes a healthy server at the next address. @distance_us: added to the latency of the pool's host
 */
SimServer *sim_server_new(gint64 distance_us);

/* Makes a relay of the first @n_upstream servers at the next address. */
SimServer *sim_server_new_relay(guint n_upstream, guint max_age_ms);

/* Begins a fault; SERVER_IS_HEALTHY ends it. */
void sim_server_set_fault(SimServer *self, ServerFault fault);

/* Returns: since when a server can serve, and, for a relay, one of its upstream servers too;
 * WORLD_NEVER_US if it cannot */
gint64 sim_server_servable_since_us(const SimServer *self);

/* Returns whether a server has listed thousands of addresses without a server. A pool that
 * discovers servers tries four of them at a time, and can need minutes to find a healthy server. */
gboolean sim_server_has_misled(void);

/* Returns whether a wrong reply contained this ID, which must never reach a taker. */
gboolean sim_server_has_poisoned(gint64 id);

/* Returns whether a server has sent the ID in more than one reply. The first of them may be lost.
 */
gboolean sim_server_has_repeated(gint64 id);
