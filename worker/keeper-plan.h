/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "worker/keeper-state.h"
#include "worker/registry.h"

/*
 * What the keeper does next, as pure functions of what it knows.
 *
 * Times in us are monotonic, ticks are by the disciplined clock.
 */
typedef struct {
	gint64 now_us;
	gint64 now_tick;
	gint64 tick_us;   /* how long a tick is */
	gboolean outside; /* now_tick is outside the layout */

	gboolean stopping; /* keeper_stop() was called */
	gboolean stopped;  /* and what it asks for is done */
	gboolean ended;    /* by a fatal error: nothing more is tried */

	RegistryOperation under_way; /* NONE: nothing is */
	gint64 busy_since_us;        /* with that */
	gboolean cancelled;          /* it was asked to come to its end */

	/* The last attempt. */
	guint failures;         /* FAILED in a row */
	gint64 retry_at_us;     /* no other attempt before this */
	gboolean waiting;       /* a claim was answered with WAIT ... */
	gint64 wait_until_tick; /* ... until this tick; G_MAXINT64: nobody knows */
	gboolean retry_now;     /* the registry says that the next attempt is due now */

	/* The lease. */
	gboolean has_lease;
	gboolean had_lease;   /* one was lost or given up */
	gboolean ahead;       /* the clock stepped back, and it is to be given up for that */
	gboolean wanted;      /* extend it: IDs were asked for since the last write, or it
				 is kept up when idle too */
	gint64 ids_from_tick; /* the first tick at which the clock allows an ID: max-ahead before
				 the later of the lease's first tick and the last ID's tick */
	gint64 end_tick;
	gboolean out_of_reach; /* the clock is too far ahead of the registry's to extend */
	gint64 next_end_tick;  /* what an extension now would reserve up to */
	gint64 written_at_us;  /* the reservation, last */
	gint64 length_us;      /* of the reservation, then */
} KeeperPlanFacts;

#define KEEPER_PLAN_HANGS_US G_USEC_PER_SEC /* an operation that lasts as long hangs */

typedef enum {
	KEEPER_PLAN_NOTHING,
	KEEPER_PLAN_BEGIN,  /* an operation of the registry */
	KEEPER_PLAN_CANCEL, /* ask the one under way to come to its end */
	KEEPER_PLAN_STOP,   /* nothing is under way or held any more: end */
} KeeperPlanAction;

typedef struct {
	KeeperPlanAction action;
	RegistryOperation operation; /* BEGIN: which */
	gint64 until_us; /* NOTHING: if nothing happens, look again then; or G_MAXINT64 */
} KeeperPlan;

KeeperPlan keeper_plan_next(const KeeperPlanFacts *facts);

/* The state that these facts amount to. */
KeeperState keeper_plan_state(const KeeperPlanFacts *facts);

#define KEEPER_PLAN_SOON  0          /* an attempt is under way, or about to begin */
#define KEEPER_PLAN_NEVER G_MAXINT64 /* not by this keeper, or nobody knows when */

/* When IDs that are refused now may be had: monotonic time, or one of the above. */
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
 * @n_workers: in the list before, each of which lists as well; 0: there was none
 * @n_reads: that it took; 0: there was none
 * @jitter: in [0, 1), at random
 *
 * Returns: the pause before a list that nobody has asked for: a quarter of a second for each read,
 * or a millisecond for each read of each worker if that is longer, so that a server reads four
 * times a second at most, and all of a fleet 1,000 times; 150 s at least. By the jitter, up to as
 * much again, those who have started, or found their registry, together do not list together
 */
gint64 keeper_plan_list_pause_us(guint n_workers, guint n_reads, gdouble jitter);

/* How old a list may be that is looked at again and again, by something that watches each server:
 * 10 s at least, and a millisecond for each read of each worker, so that all of a fleet together
 * reads 1,000 times a second at most. */
gint64 keeper_plan_list_age_us(guint n_workers, guint n_reads);
