/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

#include "core/clock.h"
#include "core/layout.h"

/* The right to issue IDs: a worker ID, the ticks that are reserved for it, and the cursor of the
 * last ID issued. Any thread can draw from it through a generator. Only one thread, the keeper,
 * extends and retires it. All atomics are sequentially consistent. */
typedef struct {
	guint datacenter_id;
	guint worker_id;
	guint64 fixed_bits;           /* datacenter ID and worker ID, at their positions in an ID */
	gint64 first_tick;            /* first reserved tick; 1 or more */
	gint64 max_tick;              /* the layout's last tick */
	_Atomic gint64 end_tick;      /* last reserved tick, at most max_tick; never decreases */
	_Atomic guint64 final_cursor; /* the cursor before lease_retire() was called */
	/* cursor of the last ID issued; if there is none, the last cursor before the first tick;
	 * CURSOR_CLOSED after lease_retire(). It has its own cache line, because every draw writes
	 * it. */
	_Alignas(64) _Atomic guint64 cursor;
} Lease;

/* Returns: (transfer full): a lease from which no ID was issued yet
 * @datacenter_id: 0 to 2^datacenter_bits - 1, see layout_check_worker()
 * @worker_id: 0 to 2^worker_bits - 1
 * @first_tick: the first reserved tick. Values below 1 count as 1: tick 0 is never used, because
 * clients interpret an ID of 0 as a failure
 * @end_tick: the last reserved tick. Values above layout_max_tick() count as layout_max_tick(),
 * values below 0 as 0. A lease that ends before @first_tick cannot issue IDs yet
 * @layout: used only during the call */
Lease *lease_new(const Layout *layout, guint datacenter_id, guint worker_id, gint64 first_tick,
		 gint64 end_tick);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Lease, g_aligned_free)

/* Raises the end to @end_tick, or to the layout's last tick if that is lower. Never lowers the end.
 * Call it only after the write of the reservation has been confirmed. */
void lease_extend(Lease *self, gint64 end_tick);

/* Closes the lease: after this function has returned, the lease issues no more IDs. A second call
 * changes nothing, and returns the same tick.
 * Returns: the tick of the last ID issued, or first_tick - 1 if there was none */
gint64 lease_retire(Lease *self, const Layout *layout);

/* Returns the cursor of the last ID issued. Can be called from any thread. The cursor is below
 * first_tick << sequence_bits if no ID was issued, and briefly while a lease is being retired. */
guint64 lease_last_cursor(const Lease *self);

/* Issues IDs from the published lease. One draw, of one ID or a batch, is one compare-and-swap on
 * the lease's cursor:
 *
 *   next = max(cursor + 1, first cursor of the current tick, first cursor of the lease)
 *   cursor = next + count - 1
 *
 * The last of the IDs is compared with the lease's end and the clock. Uniqueness depends on the
 * lease alone; the clock decides how close to real time an ID is. A refused draw changes nothing.
 *
 * Any thread can draw. Only the keeper's thread publishes leases. */
typedef struct {
	/* never change */
	Layout layout;
	const Clock *clock;
	guint max_batch; /* min(policy, (max-ahead in ticks + 1) * 2^sequence_bits) */
	/* private */
	gint64 max_tick;
	gint64 max_ahead_ticks;
	guint64 sequence_start_range;
	_Atomic(Lease *) lease;
	Lease *none; /* represents "no lease": a lease that was retired before any draw */
	/* all leases so far, including the one above; only the publishing thread uses the array */
	GPtrArray *leases;
} Generator;

#define GENERATOR_SEQUENCE_CONTINUES 0

typedef struct {
	/* How far IDs may be ahead of the clock, 0 to 60000, rounded down to ticks. 0 makes the
	 * generator behave like the original service. */
	gint64 max_ahead_ms;
	/* The first sequence of a tick that begins because the clock reached it. With N, 1 to
	 * 2^sequence_bits: a random number in [0, N). With GENERATOR_SEQUENCE_CONTINUES: the
	 * sequence after that of the last ID, or 0 after the highest sequence. If too few sequences
	 * would remain for a draw, the tick begins at a lower sequence, so that no draw is refused
	 * for this reason. Sequences below the first one are not used. */
	guint sequence_start_range;
	/* The largest batch, 1 or more. */
	guint max_batch;
} GeneratorPolicy;

typedef enum {
	DRAW_OK,
	DRAW_WAIT, /* no sequence is left until the clock advances: see wait_ns */
	/* there is no lease, the lease has ended, or it begins after now + max-ahead */
	DRAW_UNRESERVED,
	/* the clock is behind the last ID by more than max-ahead: see behind_ms */
	DRAW_CLOCK_BACK,
	DRAW_CLOCK_OUTSIDE, /* the clock is before the epoch or past the end of the layout */
} DrawStatus;

/* Details of a refused draw. A field is 0 for statuses that its comment does not name. */
typedef struct {
	/* Set for DRAW_WAIT, and for DRAW_UNRESERVED if the lease begins later: the time until the
	 * clock allows the draw, if no other thread draws. 0 if the draw needs another lease. */
	gint64 wait_ns;
	/* Set for DRAW_CLOCK_BACK: the start of the last ID's tick minus the clock. */
	gint64 behind_ms;
} DrawRefusal;

/* Returns: (transfer full): a generator without a lease
 * @layout: copied
 * @clock: borrowed; must outlive the generator */
Generator *generator_new(const Layout *layout, const Clock *clock, const GeneratorPolicy *policy);
void generator_free(Generator *self);

/* Never blocks and never sleeps. A refusal was correct at one instant during the call, even if
 * other threads drew at the same time. If there are several reasons, the status is the first of
 * CLOCK_OUTSIDE, UNRESERVED because no lease has begun, CLOCK_BACK, UNRESERVED because the lease
 * ends, and WAIT.
 * @count: 1 to max_batch
 * @out_run: (out): the IDs; untouched unless DRAW_OK
 * @out_refusal: (out): untouched if DRAW_OK */
DrawStatus generator_draw(Generator *self, guint count, IdRun *out_run, DrawRefusal *out_refusal);

/* Estimates the largest draw whose IDs all have the same tick. Can be called from any thread. The
 * caller must still check the ticks of such a draw: another thread may draw first, the clock may
 * advance, and a tick need not start at sequence 0.
 * @most: 1 or more
 * Returns: 1 to @most */
guint generator_room_in_tick(const Generator *self, guint most);

/* Returns how long it takes until the tick of the last ID in the published lease begins; 0 if the
 * tick has begun, or if there is no ID. Can be called from any thread. */
gint64 generator_ahead_ns(const Generator *self);

/* Returns the published lease, or NULL. The lease lives as long as the generator. */
const Lease *generator_lease(const Generator *self);

/* Publishes a lease. Earlier leases are freed only by generator_free(), because other threads may
 * still read them; they are few and small. To keep IDs increasing, the caller retires the old
 * lease first, and begins the new one after its last tick.
 * @lease: (transfer full) (nullable): the lease for draws from now on; NULL if none */
void generator_publish(Generator *self, Lease *lease);
