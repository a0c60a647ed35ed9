/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/scanner.h"
#include "rpc/counters.h"

/*
 * The boundary between the event loops and the service: the limits, what a pass carries, and how
 * calls are answered. A pass is an argument from the loop to the service and back; no function
 * keeps a pointer to one.
 */

/* Time limits are 1 or more unless their comment allows 0. */
typedef struct {
	gsize max_frame_bytes;   /* of a message, framed or not */
	guint max_depth;         /* of nested structs and containers */
	gsize max_pending_bytes; /* of replies that a client does not take: then it is not read */
	gint64 max_wait_ms;      /* how long a call may wait for IDs; 0: it does not wait */
	guint turn_ids;          /* that a connection may draw before those that wait after it */
	gboolean batches_apart;  /* batches and single IDs come from different places: neither
				    waits for the other */
	gint64 frame_timeout_ms; /* from the first byte of a message to its last */
	gint64 write_timeout_ms; /* while the client takes none of its replies */
	gint64 idle_timeout_ms;  /* between messages; 0: no limit */
} RpcLimits;

/* How many costly calls a pass can answer. The next one is deferred. */
typedef enum { RPC_COSTLY_ALL, RPC_COSTLY_ONE, RPC_COSTLY_NONE } RpcCostly;

/* The loop's rules for the calls of one pass. */
typedef struct {
	gboolean others_wait;     /* for IDs: a call for IDs waits after them ... */
	guint quota;              /* ... but may draw this number of IDs first */
	gboolean single_may_pass; /* ... and a call for one ID need not wait for them */
	gboolean batch_may_pass;  /* ... and a call for a batch need not wait for them */
	gboolean last_chance;     /* the time limit of the first call is over: answer it now */
	gboolean closing;         /* no call may wait any more */
	RpcCostly costly;
} RpcAllowance;

typedef enum {
	RPC_WAIT_NONE,   /* no call waits */
	RPC_WAIT_SINGLE, /* for one ID */
	RPC_WAIT_BATCH,  /* for several IDs */
	RPC_WAIT_ASIDE,  /* for something other than IDs: no call waits after this one */
	RPC_WAIT_TURN,   /* for the turn of a costly call: it is deferred */
} RpcWaitFor;

typedef struct {
	RpcWaitFor what_for;
	gint64 wait_ns; /* until another try makes sense; 0: until something changes. Not of TURN */
} RpcWait;

/*
 * One pass of a connection: one activation by its loop, which answers the calls that are there.
 * Everything is 0 at first.
 */
typedef struct {
	/* from the loop */
	RpcAllowance allowance;
	gint64 turn_us; /* time for calls from the first answer on, before it is others' turn */
	/* from the connection */
	const guint8 *bytes; /* received and not consumed before this pass */
	gsize length;
	gsize room;      /* no call is answered after this number of bytes in @out; 1 or more */
	GByteArray *out; /* replies are appended */
	gboolean framed;
	gsize max_message_bytes;
	/* results */
	gsize consumed;      /* bytes of finished messages; the others are handed in again */
	guint n_answered;    /* calls, with a result or an exception */
	guint64 n_drawn;     /* IDs */
	gboolean was_costly; /* a costly call was answered */
	RpcWait wait;        /* of the next call */
	const char *bad;     /* why the connection ends; NULL: it goes on */
	/* private to stream.c */
	gint64 turn_ends_us; /* 0: the clock was not read yet */
	guint n_quick;       /* usual calls answered since it was read */
} RpcPass;

/* Whether the next call may wait. Calls after the first have not waited for long. */
static inline gboolean rpc_pass_may_wait(const RpcPass *self)
{
	return !self->allowance.closing && (!self->allowance.last_chance || self->n_answered > 0);
}

/* Whether the next call is deferred if it is costly. */
static inline gboolean rpc_pass_defers(const RpcPass *self)
{
	return self->allowance.costly == RPC_COSTLY_NONE ||
	       (self->allowance.costly == RPC_COSTLY_ONE && self->was_costly);
}

/* How many more IDs may be drawn while others wait for them. */
static inline guint rpc_pass_ids_left(const RpcPass *self)
{
	return self->allowance.quota - (guint)MIN(self->allowance.quota, self->n_drawn);
}

/* A complete message that was scanned. */
typedef struct {
	const guint8 *bytes; /* without the length of its frame */
	MessageHeader header;
	gsize taken;     /* of the connection's bytes, with its frame; 0: only a frame would tell */
	const char *bad; /* what is wrong with its arguments; NULL: nothing */
} Message;

/* A call that waits, decoded, in one block of memory that g_free() frees. */
typedef struct _ParkedCall ParkedCall;

typedef enum {
	RPC_ANSWERED, /* one call or more; RpcPass.consumed and n_answered have moved */
	RPC_WAITS,    /* RpcPass.wait tells for what; calls before it can have been answered */
	RPC_UNUSUAL,  /* nothing was done: answer_message() answers this call */
} RpcOutcome;

/* What is served. Each loop has a handler of its own. */
typedef struct {
	/* (transfer full). @counters: the loop's, outlive the handler */
	gpointer (*new_handler)(gpointer user_data, Counters *counters);
	void (*free_handler)(gpointer handler);
	/* Answers the calls at the front, if their bytes are those that most clients send.
	 * @out_parked: (out) (transfer full): set if the outcome is RPC_WAITS, in all three. */
	RpcOutcome (*answer_usual)(gpointer handler, RpcPass *pass, ParkedCall **out_parked);
	/* Answers the message at the front. */
	RpcOutcome (*answer_message)(gpointer handler, const Message *message, RpcPass *pass,
				     ParkedCall **out_parked);
	/* Tries again the call at the front, which has waited. @parked: consumed */
	RpcOutcome (*answer_parked)(gpointer handler, ParkedCall *parked, RpcPass *pass,
				    ParkedCall **out_parked);
	gpointer user_data;
} RpcService;
