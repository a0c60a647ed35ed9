/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "worker/keeper.h"

/*
 * The keeper's next action, its state and its pauses, as pure functions of the facts that it knows.
 *
 * Times in us are monotonic, ticks are by the disciplined clock.
 */
typedef struct {
	gint64 now_us;
	gint64 now_tick;
	gint64 tick_us;   /* length of a tick */
	gboolean outside; /* now_tick is outside the layout */

	gboolean stopping; /* keeper_stop() was called */
	gboolean stopped;  /* and the keeper has stopped */
	gboolean ended;    /* by a fatal error: nothing more is tried */

	RegistryOperation under_way;
	gint64 busy_since_us; /* with the operation under way */
	gboolean cancelled;   /* it was asked to end */

	/* The last attempt. */
	guint failures;         /* FAILED in a row */
	gint64 retry_at_us;     /* no other attempt before this */
	gboolean waiting;       /* a claim was answered with WAIT ... */
	gint64 wait_until_tick; /* ... until this tick; G_MAXINT64: unknown */
	gboolean retry_now;     /* the registry reports that the next attempt is due now */

	/* The lease. */
	gboolean has_lease;
	gboolean had_lease;   /* one was lost or given up */
	gboolean ahead;       /* the clock stepped back, so the lease must be given up */
	gboolean wanted;      /* extend it: IDs were drawn since the last write, or it is extended
				 when idle too */
	gint64 ids_from_tick; /* the first tick at which the clock allows an ID: max-ahead before
				 the later of the lease's first tick and the last ID's tick */
	gint64 end_tick;
	gboolean out_of_reach; /* the clock is too far ahead of the registry's to extend */
	gint64 next_end_tick;  /* the end that an extension would have now */
	gint64 written_at_us;  /* the last write of the reservation */
	gint64 length_us;      /* of the reservation at that write */
} KeeperPlanFacts;

#define KEEPER_PLAN_HANGS_US G_USEC_PER_SEC /* an operation that lasts as long hangs */

typedef enum {
	KEEPER_PLAN_NOTHING,
	KEEPER_PLAN_BEGIN,  /* an operation of the registry */
	KEEPER_PLAN_CANCEL, /* ask the one under way to end */
	KEEPER_PLAN_STOP,   /* no operation is under way, and nothing is held: end */
} KeeperPlanAction;

typedef struct {
	KeeperPlanAction action;
	RegistryOperation operation; /* BEGIN: which */
	gint64 until_us; /* NOTHING: if no event comes, plan again then; or G_MAXINT64 */
} KeeperPlan;

KeeperPlan keeper_plan_next(const KeeperPlanFacts *facts);

/* The state that these facts amount to. */
KeeperState keeper_plan_state(const KeeperPlanFacts *facts);

#define KEEPER_PLAN_SOON  0          /* an attempt is under way, or about to begin */
#define KEEPER_PLAN_NEVER G_MAXINT64 /* not from this keeper, or the time is unknown */

/* Whether the keeper may go from @state to @next. */
gboolean keeper_plan_may_follow(KeeperState state, KeeperState next);

/* Returns when IDs that are refused now can be drawn: monotonic time, or one of the above. */
gint64 keeper_plan_ids_at_us(const KeeperPlanFacts *facts);

/**
 * keeper_plan_backoff_us:
 * @failures: in a row, 1 or more
 * @jitter: in [0, 1), at random
 *
 * Returns: the pause before the next attempt: 50 ms after one failure, then up to twice as long
 * each time, 1 s at most
 */
gint64 keeper_plan_backoff_us(guint failures, gdouble jitter);

/**
 * keeper_plan_list_pause_us:
 * @n_workers: in the last list; each of them requests lists, too; 0: there was no list
 * @n_reads: that the last list took; 0: there was no list
 * @jitter: in [0, 1), at random
 *
 * Returns: the pause before a list that nobody has requested: a quarter of a second for each read,
 * or a millisecond for each read of each worker if that is longer, but 150 s at least. So a server
 * reads four times a second at most, and a fleet 1,000 times. The jitter adds up to as much again,
 * so that servers which start, or reach their registry, together do not list together
 */
gint64 keeper_plan_list_pause_us(guint n_workers, guint n_reads, gdouble jitter);

/* Returns the age at which a list is replaced that monitoring requests from every server again and
 * again: a millisecond for each read of each worker, but 10 s at least. So a fleet reads 1,000
 * times a second at most. */
gint64 keeper_plan_list_age_us(guint n_workers, guint n_reads);
