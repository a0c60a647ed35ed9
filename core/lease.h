/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

#include "core/layout.h"

/*
 * The right to issue IDs: a worker ID, the ticks that are reserved for it, and
 * the cursor of the last ID issued. Any thread may draw from it, through the
 * generator; extending and retiring is for one thread, its keeper.
 *
 * All atomics are sequentially consistent.
 */

typedef struct {
	guint datacenter_id;
	guint worker_id;
	guint64 fixed_bits;      /* datacenter and worker, in their places in an ID */
	gint64 first_tick;       /* the first tick reserved; 1 or more */
	gint64 max_tick;         /* the layout's last tick */
	_Atomic gint64 end_tick; /* the last tick reserved, at most max_tick; only ever grows */
	_Atomic guint64 final_cursor; /* of a retired lease: its cursor before it was closed */
	/* Of the last ID issued, or the one before the first tick; or CURSOR_CLOSED. On a cache
	 * line of its own: it is written for every ID. */
	_Alignas(64) _Atomic guint64 cursor;
} Lease;

/**
 * lease_new:
 * @datacenter_id: 0 to 2^datacenter_bits - 1 of the layout: layout_check_worker()
 * @worker_id: 0 to 2^worker_bits - 1, likewise
 * @first_tick: the first tick that is reserved. Tick 0 is never issued (so that
 *   no ID is 0, which clients take for a failure): less than 1 counts as 1
 * @end_tick: the last tick that is reserved, more than layout_max_tick() counts
 *   as that and below 0 as 0; less than @first_tick is a lease that cannot issue
 *   anything yet
 *
 * @layout is only read here.
 *
 * Returns: (transfer full): a lease of which nothing was issued yet
 */
Lease *lease_new(const Layout *layout, guint datacenter_id, guint worker_id, gint64 first_tick,
		 gint64 end_tick);
void lease_free(Lease *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Lease, lease_free)

/* Raises the end, to the layout's last tick at most; an @end_tick below the present end changes
 * nothing. Only after the write that reserved it is confirmed. */
void lease_extend(Lease *self, gint64 end_tick);

/**
 * lease_retire:
 *
 * Closes the lease for good: when this returns, no ID of it will ever be issued again. Calling
 * it again changes nothing and returns the same.
 *
 * Returns: the tick of the last ID issued, or first_tick - 1 if there was none
 */
gint64 lease_retire(Lease *self, const Layout *layout);

/* Any thread: the cursor of the last ID issued, below first_tick << sequence_bits if there was none
 * (and for the instant in which a lease is being retired). */
guint64 lease_last_cursor(const Lease *self);
