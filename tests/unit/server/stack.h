/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/generator.h"
#include "rpc/stream.h"
#include "server/codecs.h"
#include "server/issuer-source.h"

/*
 * The server from bytes to bytes, without sockets and threads: a stream over the real codecs,
 * service and generator, with a clock that tests set.
 */
typedef struct {
	Clock clock; /* the first member: the generator uses it as its clock */
	gint64 now_ns;
	SystemClock keeper_clock;
	Generator *generator;
	IssuerSource source;
	UuidGenerator ulids;
	Keeper *keeper; /* never started, so it has no lease */
	CounterSet *counters;
	AgentCounters *agents;
	AuditLog *audit; /* without sinks */
	ServiceConfig config;
	RpcService service;
	StreamShared shared;
	gsize room; /* room for the replies of a pass */
	Stream stream;
	RpcAllowance allowance; /* allowance of a pass */
	RpcPass pass;           /* the last one */
	Lease *lease;           /* the published lease, or NULL; owned by the generator */
	GByteArray *in;         /* not consumed yet */
	gsize consumed;         /* all consumed bytes */
	const char *reason;     /* after STREAM_CLOSE: why */
} Stack;

#define STACK_TURN_US 10

/* Advance of the clock of turns at each reading, for all stacks; 0 unless set: no turn ends. */
extern gint64 stack_us_per_look;

/* Creates a server with Twitter's layout, datacenter 1, worker 2, frames of up to 1 KiB, depth 64.
 */
Stack *stack_new(gboolean fast, gint64 max_ahead_ms);
void stack_free(Stack *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Stack, stack_free)

/* Runs a pass: feeds bytes as a connection does, and appends the replies to @out. */
StreamStatus stack_feed(Stack *self, const void *bytes, gsize length, GByteArray *out);

/* Replaces the connection by a new one of the same loop. */
void stack_reconnect(Stack *self);

/* Stores bytes that arrive while nothing is read: the next stack_feed() feeds them before its own.
 */
void stack_hold(Stack *self, const void *bytes, gsize length);

/* Replaces the lease by one of the same worker for these ticks; @end_tick 0: none. */
void stack_publish(Stack *self, gint64 first_tick, gint64 end_tick);

void stack_set_ms(Stack *self, gint64 since_epoch_ms);
