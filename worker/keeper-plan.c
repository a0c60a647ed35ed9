/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper-plan.h"

#define MIN_BACKOFF_US (50 * G_TIME_SPAN_MILLISECOND)
#define MAX_BACKOFF_US G_USEC_PER_SEC

#define MIN_LIST_PAUSE_US (150 * G_USEC_PER_SEC)
#define MIN_LIST_AGE_US   (10 * G_USEC_PER_SEC)
/* The maximum number of reads per second for lists for which no call is waiting, by one server and
 * by all servers. */
#define READS_OF_ONE      4
#define READS_OF_ALL      1000

static const KeeperPlan WAIT_FOR_EVENT = {.action = KEEPER_PLAN_NOTHING, .until_us = G_MAXINT64};

static KeeperPlan begin(RegistryOperation operation)
{
	return (KeeperPlan){.action = KEEPER_PLAN_BEGIN, .operation = operation};
}

/* Returns the instant at which the clock will show @tick, unless the clock is set. */
static gint64 tick_at_us(const KeeperPlanFacts *facts, gint64 tick)
{
	if (tick == G_MAXINT64)
		return G_MAXINT64;
	return facts->now_us + (tick - facts->now_tick) * facts->tick_us;
}

/* Returns when to extend: after a quarter of the reservation, so that three quarters remain. If the
 * reservation has ended, the extension is due now. */
static gint64 extension_due_us(const KeeperPlanFacts *facts)
{
	/* shorter than the reservation if the clock is ahead of the registry's, or was set
	 * forward */
	gint64 lasts_us = tick_at_us(facts, facts->end_tick) - facts->written_at_us;

	if (facts->retry_now)
		return facts->now_us;
	if (facts->failures > 0)
		return facts->retry_at_us;
	if (facts->now_tick > facts->end_tick)
		return facts->now_us;
	return facts->written_at_us + MIN(facts->length_us, lasts_us) / 4;
}

/* Returns whether the lease begins in the future, or the clock was set back to before the last
 * ID. */
static gboolean is_before_ids(const KeeperPlanFacts *facts)
{
	return facts->now_tick < facts->ids_from_tick;
}

static KeeperPlan begin_when_due(RegistryOperation operation, gint64 due_us, gint64 now_us)
{
	return now_us >= due_us ? begin(operation)
				: (KeeperPlan){.action = KEEPER_PLAN_NOTHING, .until_us = due_us};
}

static KeeperPlan plan_next(const KeeperPlanFacts *facts)
{
	/* retry a failed extension even if no more IDs are drawn */
	gboolean wanted = facts->extension_wanted || facts->failures > 0;
	KeeperPlan plan = WAIT_FOR_EVENT;

	if (facts->has_stopped)
		return plan;
	if (facts->under_way != REGISTRY_NONE) {
		/* do not cancel a release, because a stop would begin one anyway */
		if (facts->is_stopping && !facts->cancelled && facts->under_way != REGISTRY_RELEASE)
			return (KeeperPlan){.action = KEEPER_PLAN_CANCEL};
		return plan;
	}
	if (facts->is_stopping && !facts->has_lease)
		return (KeeperPlan){.action = KEEPER_PLAN_STOP};
	if (facts->is_stopping)
		return begin(REGISTRY_RELEASE);
	/* outside the layout's range, no tick can be reserved, and a reservation up to the layout's
	 * last tick would block the worker ID for ever */
	if (facts->gave_up || facts->clock_outside_layout)
		return plan;
	if (!facts->has_lease) {
		if (facts->retry_now)
			return begin(REGISTRY_CLAIM);
		if (facts->waiting && facts->now_tick < facts->wait_until_tick) {
			plan.until_us = tick_at_us(facts, facts->wait_until_tick);
			return plan;
		}
		return begin_when_due(REGISTRY_CLAIM, facts->retry_at_us, facts->now_us);
	}
	if (facts->last_id_ahead_of_clock)
		return begin(REGISTRY_RELEASE);
	/* if the end would not be later, the clock was set back, and the current reservation
	 * suffices */
	if (wanted && !facts->clock_too_far_ahead && facts->next_end_tick > facts->end_tick)
		plan = begin_when_due(REGISTRY_EXTEND, extension_due_us(facts), facts->now_us);
	if (plan.action == KEEPER_PLAN_NOTHING && is_before_ids(facts))
		plan.until_us = MIN(plan.until_us, tick_at_us(facts, facts->ids_from_tick));
	return plan;
}

KeeperPlan keeper_plan_next(const KeeperPlanFacts *facts)
{
	gboolean fails = facts->failures > 0 || facts->clock_too_far_ahead;
	KeeperPlan plan = plan_next(facts);

	/* the state becomes UNAVAILABLE at the end of the lease, if the lease is not extended
	 * before */
	if (plan.action == KEEPER_PLAN_NOTHING && facts->has_lease &&
	    !facts->clock_outside_layout && fails && facts->now_tick <= facts->end_tick)
		plan.until_us = MIN(plan.until_us, tick_at_us(facts, facts->end_tick + 1));
	return plan;
}

KeeperState keeper_plan_state(const KeeperPlanFacts *facts)
{
	gboolean is_spent = facts->now_tick > facts->end_tick;
	gboolean is_hanging = facts->under_way != REGISTRY_NONE &&
			      facts->now_us - facts->busy_since_us >= KEEPER_PLAN_HANGS_US;

	if (facts->has_stopped)
		return KEEPER_STOPPED;
	if (facts->clock_outside_layout)
		return KEEPER_WAITING;
	if (!facts->has_lease) {
		if (facts->waiting)
			return KEEPER_WAITING;
		return facts->had_lease ? KEEPER_RECLAIMING : KEEPER_STARTING;
	}
	if (facts->last_id_ahead_of_clock)
		return KEEPER_RECLAIMING;
	if (is_spent && (facts->failures > 0 || facts->clock_too_far_ahead || is_hanging))
		return KEEPER_UNAVAILABLE;
	return is_before_ids(facts) ? KEEPER_WAITING : KEEPER_SERVING;
}

gboolean keeper_plan_may_follow(KeeperState state, KeeperState next)
{
	/* a waiting claim is being retried */
	if (next == KEEPER_STARTING)
		return state == KEEPER_WAITING;
	return state != KEEPER_STOPPED;
}

gint64 keeper_plan_ids_at_us(const KeeperPlanFacts *facts)
{
	if (facts->has_stopped || facts->is_stopping || facts->gave_up ||
	    facts->clock_outside_layout)
		return KEEPER_PLAN_NEVER;
	if (facts->has_lease && facts->now_tick > facts->end_tick && facts->clock_too_far_ahead)
		return KEEPER_PLAN_NEVER;
	if (facts->under_way == REGISTRY_NONE && !facts->retry_now) {
		if (!facts->has_lease && facts->waiting)
			return MAX(tick_at_us(facts, facts->wait_until_tick), facts->retry_at_us);
		if (facts->failures > 0)
			return facts->retry_at_us;
	}
	if (facts->has_lease && is_before_ids(facts))
		return tick_at_us(facts, facts->ids_from_tick);
	return KEEPER_PLAN_SOON;
}

gint64 keeper_plan_backoff_us(guint failures, gdouble jitter)
{
	gint64 longest_us = MIN_BACKOFF_US << MIN(failures - 1, 10);

	longest_us = MIN(longest_us, MAX_BACKOFF_US);
	return MIN_BACKOFF_US + (gint64)(jitter * (gdouble)(longest_us - MIN_BACKOFF_US));
}

gint64 keeper_plan_list_age_us(guint n_workers, guint n_reads)
{
	return MAX(MIN_LIST_AGE_US, (gint64)n_workers * n_reads * (G_USEC_PER_SEC / READS_OF_ALL));
}

gint64 keeper_plan_list_pause_us(guint n_workers, guint n_reads, gdouble jitter)
{
	gint64 each_us = MAX(G_USEC_PER_SEC / READS_OF_ONE,
			     (gint64)n_workers * (G_USEC_PER_SEC / READS_OF_ALL));
	gint64 shortest_us = MAX(MIN_LIST_PAUSE_US, n_reads * each_us);

	return shortest_us + (gint64)((gdouble)shortest_us * jitter);
}
