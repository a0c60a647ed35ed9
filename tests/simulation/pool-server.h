/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/generator.h"
#include "server/relay-source.h"
#include "tests/simulation/pool-network.h"

/*
 * Servers that pools and relays connect to: they issue real IDs, by core/generator.h and a lease of
 * the simulation, and answer in Thrift's bytes. A server may also be a relay: then its IDs are
 * those of server/relay-source.c. Each has one fault at a time.
 */
typedef enum {
	SERVER_IS_WELL,
	SERVER_DIES,     /* connections end, new ones are refused */
	SERVER_VANISHES, /* without a word; new connections get no answer */
	SERVER_HANGS,    /* accepts, and never answers */
	SERVER_CLOSES,   /* each connection, instead of an answer */
	SERVER_RESTARTS, /* as another worker ID, and is well */
	SERVER_DRAINS,
	SERVER_IS_UNFIT,          /* without a worker ID */
	SERVER_LACKS_RESERVATION, /* refuses IDs */
	SERVER_IS_LATE,
	SERVER_IS_SLOW,        /* a few bytes at a time */
	SERVER_LIMITS_BATCHES, /* refuses the count */
	SERVER_LACKS_RUNS,     /* knows no get_id_runs */
	SERVER_IS_LEGACY,      /* knows the calls of 2010 only */
	/* from here on it lies */
	SERVER_REPEATS,        /* the IDs of its last answer on the connection */
	SERVER_GOES_BACK,      /* IDs below those of its last answer */
	SERVER_GIVES_MORE,     /* IDs than it was asked for */
	SERVER_GIVES_FEWER,    /* likewise */
	SERVER_CONFUSES_CALLS, /* the sequence ID is another call's */
	SERVER_ANSWERS_TWICE,  /* the second answer is to no call */
	SERVER_TALKS_NONSENSE, /* bytes that are no answer */
	SERVER_LISTS_NONSENSE, /* thousands of addresses where nothing is */
	SERVER_CONTRADICTS,    /* says another worker ID than its IDs have */
	SERVER_N_FAULTS,
} ServerFault;

typedef struct {
	WorldMachine machine; /* not of a relay, which runs on its host */
	guint index;          /* its address, of pool-network.h */
	ServerFault fault;
	gint64 well_since_us; /* since when it gives IDs, in some way; WORLD_NEVER_US: it does not
			       */
	guint n_requests, n_draws;
	/* a fault that begins with the request of this number, from 1; 0: none */
	guint fault_at;
	ServerFault fault_then;
	guint max_age_ms; /* how old its IDs may be when it gives them */
	/* private */
	guint life; /* counts its processes */
	guint worker_id;
	Clock clock;
	Generator *generator;
	Lease *lease;              /* the generator's */
	guint max_count, n_listed; /* of the fault */
	/* of a relay */
	NetworkHost *host;
	Options options;
	RelaySource *relay;
	guint n_upstream; /* its servers are those before this number */
	SourceSeat *seat;
	GPtrArray *waiting; /* of calls */
	gint64 max_wait_us;
} SimServer;

/* Servers of the world begin and end. @n: their addresses are 0 to @n - 1 */
void servers_init(void);
void servers_clear(void);
guint servers_count(void);
SimServer *servers_get(guint index);

/* Makes the next server, which is well. @distance_us: one way to it, beside the pool's own */
SimServer *server_new(gint64 distance_us);

/* Likewise a relay of the first @n_upstream servers. */
SimServer *server_new_relay(guint n_upstream, guint max_age_ms);

/* A fault begins; SERVER_IS_WELL ends the one that it has. */
void server_set_fault(SimServer *self, ServerFault fault);

/* Since when it can give IDs: of a relay, since one of its servers can, too. WORLD_NEVER_US: it
 * cannot. */
gint64 server_servable_since_us(const SimServer *self);

/* Whether one has listed thousands of addresses where nothing is. Who discovers servers tries them,
 * four at a time, and may find none that is well for minutes. */
gboolean servers_have_misled(void);

/* Whether IDs of this answer must never reach a taker: it was no right answer. */
gboolean servers_have_poisoned(gint64 id);
