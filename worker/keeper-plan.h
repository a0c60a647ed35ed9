/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "worker/keeper.h"

/* Pure functions that compute the keeper's next action, its state and its pauses from the facts
 * that it knows.
 *
 * Times in us are monotonic. Ticks are those of the disciplined clock. */
typedef struct {
	gint64 now_us;
	gint64 now_tick;
	gint64 tick_us;                /* length of a tick */
	gboolean clock_outside_layout; /* now_tick is outside the layout's range */

	gboolean is_stopping; /* keeper_stop() was called */
	gboolean has_stopped; /* the keeper has stopped */
	gboolean gave_up;     /* a fatal error has ended all attempts to claim */

	RegistryOperation under_way;
	gint64 busy_since_us; /* start of the current operation */
	gboolean cancelled;   /* the operation was told to end */

	/* The last attempt. */
	guint failures;         /* consecutive FAILED results */
	gint64 retry_at_us;     /* no attempt is made before this time */
	gboolean waiting;       /* a claim has ended with WAIT ... */
	gint64 wait_until_tick; /* ... and waits until this tick; G_MAXINT64 if unknown */
	gboolean retry_now;     /* the registry reports that the next attempt is due now */

	/* The lease. */
	gboolean has_lease;
	gboolean had_lease;              /* an earlier lease was lost or given up */
	gboolean last_id_ahead_of_clock; /* the clock stepped back, so the lease must be given up */
	/* the lease must be extended: IDs were drawn since the last write, or the registry requires
	 * extensions even when idle */
	gboolean extension_wanted;
	/* the first tick of the clock at which IDs can be issued: the lease's first tick or the
	 * last ID's tick, whichever is later, minus max-ahead */
	gint64 ids_from_tick;
	gint64 end_tick;
	/* no extension is possible, because the clock is too far ahead of the registry's */
	gboolean clock_too_far_ahead;
	gint64 next_end_tick; /* the end that the lease would get if it were extended now */
	gint64 written_at_us; /* time of the last write of the reservation */
	gint64 length_us;     /* length of the reservation at its last write */
} KeeperPlanFacts;

/* an operation that takes this long counts as hanging */
#define KEEPER_PLAN_HANGS_US G_USEC_PER_SEC

typedef enum {
	KEEPER_PLAN_NOTHING,
	KEEPER_PLAN_BEGIN,  /* begin an operation of the registry */
	KEEPER_PLAN_CANCEL, /* tell the current operation to end */
	KEEPER_PLAN_STOP,   /* for a stop: no operation is in progress, and nothing is held */
} KeeperPlanAction;

typedef struct {
	KeeperPlanAction action;
	RegistryOperation operation; /* BEGIN: the operation */
	/* with NOTHING: when to plan again, unless there is an event earlier; or G_MAXINT64 */
	gint64 until_us;
} KeeperPlan;

KeeperPlan keeper_plan_next(const KeeperPlanFacts *facts);

/* Returns the state that results from the facts. */
KeeperState keeper_plan_state(const KeeperPlanFacts *facts);

#define KEEPER_PLAN_SOON  0          /* an attempt is in progress, or will begin at once */
#define KEEPER_PLAN_NEVER G_MAXINT64 /* no lease is expected, or the time is unknown */

/* Returns whether the keeper may change from @state to @next. */
gboolean keeper_plan_may_follow(KeeperState state, KeeperState next);

/* Returns when IDs can be drawn, if they are refused now: a monotonic time, or one of the values
 * above. */
gint64 keeper_plan_ids_at_us(const KeeperPlanFacts *facts);

/* @failures: consecutive failures, 1 or more
 * @jitter: in [0, 1), at random
 * Returns: the pause before the next attempt: 50 ms after one failure, then up to twice the
 * previous pause, at most 1 s */
gint64 keeper_plan_backoff_us(guint failures, gdouble jitter);

/* @n_workers: number of workers in the last list, all of which request lists; 0 if there was no
 * list
 * @n_reads: number of reads for the last list; 0 if there was no list
 * @jitter: in [0, 1), at random
 * Returns: the pause before an unrequested list: a quarter of a second per read, or a millisecond
 * per read and worker, whichever is longer; at least 150 s. So a server makes at most 4 reads per
 * second, and a fleet at most 1,000. The jitter at most doubles the pause, so that servers that
 * start or reach their registry simultaneously do not list simultaneously
 */
gint64 keeper_plan_list_pause_us(guint n_workers, guint n_reads, gdouble jitter);

/* Monitoring regularly requests a list from every server. Returns the age at which such a list is
 * replaced: a millisecond per read and worker, but at least 10 s. So a fleet makes at most
 * 1,000 reads per second. */
gint64 keeper_plan_list_age_us(guint n_workers, guint n_reads);
