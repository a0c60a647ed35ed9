/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/thrift/scanner.h"
#include "rpc/counters.h"

/* The boundary between the event loops and the service: the limits, the data of a pass, and the
 * functions that answer calls. The loop passes an RpcPass to the service, which stores the results
 * in it; no function keeps a pointer to an RpcPass.
 */

/* Time limits are 1 or more unless their comment allows 0. */
typedef struct {
	gsize max_frame_bytes; /* maximum size of a message, framed or not */
	guint max_depth;       /* maximum nesting of structs and containers */
	/* while more bytes of replies than this are unsent, the client's calls are not read */
	gsize max_pending_bytes;
	gint64 max_wait_ms; /* maximum wait of a call for IDs; 0 for no wait */
	guint turn_ids;     /* number of IDs that a connection may draw while others wait */
	/* batches and single IDs come from different buffers, so they do not wait for each other */
	gboolean batches_apart;
	gint64 frame_timeout_ms; /* maximum time from the first byte of a message to its last */
	/* maximum time during which the client accepts no bytes of its replies */
	gint64 write_timeout_ms;
	gint64 idle_timeout_ms; /* maximum time between messages; 0 for no limit */
} RpcLimits;

/* The number of costly calls that a pass can answer. Further costly calls are deferred. */
typedef enum { RPC_COSTLY_ALL, RPC_COSTLY_ONE, RPC_COSTLY_NONE } RpcCostly;

/* The loop's rules for the calls of one pass. */
typedef struct {
	gboolean others_wait; /* others wait for IDs, so a call for IDs must wait after them ... */
	guint quota;          /* ... but it may draw this many IDs first */
	gboolean single_may_pass; /* ... and a call for one ID need not wait for them */
	gboolean batch_may_pass;  /* ... and a call for a batch need not wait for them */
	gboolean last_chance;     /* the time limit of the first call has expired: answer it now */
	gboolean closing;         /* no call may wait any more */
	RpcCostly costly;
} RpcAllowance;

typedef enum {
	RPC_WAIT_NONE,   /* the next call does not wait */
	RPC_WAIT_SINGLE, /* for one ID */
	RPC_WAIT_BATCH,  /* for several IDs */
	RPC_WAIT_ASIDE,  /* for an event other than IDs; calls after this one can run */
	RPC_WAIT_TURN,   /* a costly call is deferred until its turn */
} RpcWaitFor;

typedef struct {
	RpcWaitFor what_for;
	/* how long until a retry can succeed; 0 to wait for an event. Unused for TURN */
	gint64 wait_ns;
} RpcWait;

/* One pass of a connection: its loop runs it once, to answer the calls that have arrived.
 * Initialise it with zeros. */
typedef struct {
	/* from the loop */
	RpcAllowance allowance;
	gint64 turn_us; /* length of the turn, measured from the first answer */
	/* from the connection */
	const guint8 *bytes; /* bytes received and not consumed before this pass */
	gsize length;
	gsize room;      /* calls are answered until @out contains this many bytes; 1 or more */
	GByteArray *out; /* replies are appended */
	gboolean framed;
	gsize max_message_bytes;
	/* results */
	/* number of bytes of completed messages; the caller passes the other bytes again */
	gsize consumed;
	guint n_answered;    /* number of calls answered with a result or an exception */
	guint64 n_drawn;     /* number of IDs drawn */
	gboolean was_costly; /* a costly call was answered */
	RpcWait wait;        /* the next call waits for this */
	const char *bad;     /* why the connection must be closed; NULL if it stays open */
	/* private to stream.c */
	gint64 turn_ends_us; /* end of the turn; 0 if the clock has not been read yet */
	guint n_quick;       /* number of usual calls answered since the clock was read */
} RpcPass;

/* Returns whether the next call may wait. The last chance applies only to the first call, because
 * later calls have not been waiting for long. */
static inline gboolean rpc_pass_may_wait(const RpcPass *self)
{
	return !self->allowance.closing && (!self->allowance.last_chance || self->n_answered > 0);
}

/* Returns whether the next call is deferred if it is costly. */
static inline gboolean rpc_pass_defers(const RpcPass *self)
{
	return self->allowance.costly == RPC_COSTLY_NONE ||
	       (self->allowance.costly == RPC_COSTLY_ONE && self->was_costly);
}

/* Returns how many more IDs may be drawn while others wait for IDs. */
static inline guint rpc_pass_ids_left(const RpcPass *self)
{
	return self->allowance.quota - (guint)MIN(self->allowance.quota, self->n_drawn);
}

/* A complete message that has been scanned. */
typedef struct {
	const guint8 *bytes; /* the message, without its frame length */
	MessageHeader header;
	/* number of bytes to consume, including the frame length; 0 if unknown, because the message
	 * is not framed */
	gsize taken;
	const char *bad; /* what is wrong with the message; NULL if it is valid */
} Message;

/* A decoded call that waits. It is a single block of memory, which must be freed with g_free(). */
typedef struct _ParkedCall ParkedCall;

typedef enum {
	/* one or more calls were answered; RpcPass.consumed and n_answered are updated */
	RPC_ANSWERED,
	RPC_WAITS,   /* a call waits for RpcPass.wait; calls before it may have been answered */
	RPC_UNUSUAL, /* nothing was done: use answer_message() for this call */
} RpcOutcome;

/* The functions that answer calls. Each loop has its own handler. */
typedef struct {
	/* Returns: (transfer full): a handler. @counters: counters of the loop; must outlive the
	 * handler */
	gpointer (*new_handler)(gpointer user_data, Counters *counters);
	void (*free_handler)(gpointer handler);
	/* Answers the first calls in the bytes of @pass, if they have the form that most clients
	 * send. @out_parked: (out) (transfer full): set if the outcome is RPC_WAITS, as in
	 * the next two functions. */
	RpcOutcome (*answer_usual)(gpointer handler, RpcPass *pass, ParkedCall **out_parked);
	/* Answers @message, which must be the first one. */
	RpcOutcome (*answer_message)(gpointer handler, const Message *message, RpcPass *pass,
				     ParkedCall **out_parked);
	/* Retries the first call, which was parked. @parked: consumed */
	RpcOutcome (*answer_parked)(gpointer handler, ParkedCall *parked, RpcPass *pass,
				    ParkedCall **out_parked);
	gpointer user_data;
} RpcService;
