/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/generator.h"
#include "rpc/stream.h"
#include "server/codecs.h"
#include "server/issuer-source.h"

/*
 * The server from bytes to bytes, without sockets and threads: a stream over
 * the real codecs, service and generator, with a clock that tests set.
 */
typedef struct {
	Clock clock; /* first: the generator's clock is this */
	gint64 now_ns;
	SystemClock keeper_clock;
	Generator *generator;
	IssuerSource source;
	UlidGenerator ulids;
	Keeper *keeper; /* never started: it holds no lease and promises none */
	CounterSet *counters;
	AgentCounters *agents;
	AuditLog *audit; /* without sinks */
	ServiceConfig config;
	RpcService service;
	StreamShared shared;
	gsize room; /* of every pass */
	Stream stream;
	RpcAllowance allowance; /* of every pass */
	RpcPass pass;           /* the last one */
	Lease *lease;           /* the published one, or NULL; the generator's */
	GByteArray *in;         /* not consumed yet */
	gsize consumed;         /* all that was */
	const char *reason;     /* after STREAM_CLOSE: why */
} Stack;

#define STACK_TURN_US 10

/* How far the clock of turns goes on each time somebody looks at it; 0 until set: no turn is ever
 * over. Of all stacks. */
extern gint64 stack_us_per_look;

/* Twitter's layout, datacenter 1, worker 2, frames of 1 KiB at most, depth 64. */
Stack *stack_new(gboolean fast, gint64 max_ahead_ms);
void stack_free(Stack *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Stack, stack_free)

/* A pass: hands in bytes as a connection would, and appends the replies to @out. */
StreamStatus stack_feed(Stack *self, const void *bytes, gsize length, GByteArray *out);

/* Another connection of the same loop, instead. */
void stack_reconnect(Stack *self);

/* Bytes that have arrived while nothing is read: the next stack_feed() hands them in before its
 * own. */
void stack_hold(Stack *self, const void *bytes, gsize length);

/* Another lease instead, from and to these ticks, of the same worker; @end_tick 0: none. */
void stack_publish(Stack *self, gint64 first_tick, gint64 end_tick);

void stack_set_ms(Stack *self, gint64 since_epoch_ms);
