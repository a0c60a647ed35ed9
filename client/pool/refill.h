/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/config.h"
#include "client/pool/hand.h"
#include "client/pool/peers.h"
#include "client/pool/watch.h"

/*
 * The thread that fetches: it keeps the hand filled by how fast it is emptied, throws away what is
 * too old, and sees to the servers. fleet.h knows those, and which to ask; this is about when,
 * and for how much.
 */
typedef struct _PoolRefill PoolRefill;

/**
 * pool_refill_new:
 * @watch: (nullable): who else than takers is told what comes
 *
 * What it is given outlives it.
 *
 * Returns: (transfer full): a thread that runs, or %NULL with UNSUPPORTED set
 */
PoolRefill *pool_refill_new(const PoolConfig *config, PoolHand *hand, PoolWatch *watch,
			    GError **error);

/* Ends the thread, if it is one of this process. */
void pool_refill_free(PoolRefill *self);

/* Any thread: takers have found nothing, or there is something in @watch. Wakes it, with a system
 * call, unless that was done. */
void pool_refill_call(PoolRefill *self);

/* Any thread. */
void pool_refill_get_statistics(const PoolRefill *self, SnowflakePoolStatistics *out_statistics);

/**
 * pool_refill_run_pass:
 * @out_fds: (out): the descriptors to poll until the next pass; has room for POOL_PEERS_MAX
 * @out_count: (out): the number of descriptors
 *
 * Runs one pass of the thread, without waiting. For the thread itself, or for a program that
 * replaces the functions of thread.h and runs the passes, such as a simulation in virtual time.
 *
 * Returns: when the next pass is due, by pool_clock_us(), unless pool_refill_call() or an event of
 * @out_fds comes first
 */
gint64 pool_refill_run_pass(PoolRefill *self, struct pollfd *out_fds, guint *out_count);
