/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/config.h"
#include "client/pool/hand.h"

/*
 * The thread that fetches: it keeps the hand filled by how fast it is emptied, throws away what is
 * too old, and sees to the servers. fleet.h knows those, and which to ask; this is about when,
 * and for how much.
 */
typedef struct _PoolRefill PoolRefill;

/* Returns: (transfer full): a thread that runs, or %NULL with UNSUPPORTED set. @config and @hand
 * outlive it. */
PoolRefill *pool_refill_new(const PoolConfig *config, PoolHand *hand, GError **error);

/* Ends the thread, if it is one of this process. */
void pool_refill_free(PoolRefill *self);

/* Any thread: takers have found nothing. Wakes it, with a system call, unless that was done. */
void pool_refill_call(PoolRefill *self);

/* Any thread. */
guint64 pool_refill_count(const PoolRefill *self);
guint64 pool_refill_switches(const PoolRefill *self);
