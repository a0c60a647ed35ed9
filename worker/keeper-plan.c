/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/keeper-plan.h"

#define MIN_BACKOFF_US (50 * G_TIME_SPAN_MILLISECOND)
#define MAX_BACKOFF_US G_USEC_PER_SEC

static const Plan WAIT_FOR_NEWS = {.action = PLAN_NOTHING, .until_us = G_MAXINT64};

static Plan wait_until(gint64 until_us)
{
	return (Plan){.action = PLAN_NOTHING, .until_us = until_us};
}

static Plan begin(RegistryOperation operation)
{
	return (Plan){.action = PLAN_BEGIN, .operation = operation};
}

/* The time to extend: when a quarter of the reservation has passed, so that three are in hand. One
 * that ran out while idle, or by a step of the clock, is late already. */
static gint64 extension_due_us(const PlanFacts *facts)
{
	if (facts->hurry)
		return facts->now_us;
	if (facts->failures > 0)
		return facts->retry_at_us;
	if (facts->now_tick > facts->end_tick)
		return facts->now_us;
	return facts->written_at_us + facts->length_us / 4;
}

/* The instant at which the clock will show @tick, if nobody sets it. */
static gint64 tick_at_us(const PlanFacts *facts, gint64 tick)
{
	if (tick == G_MAXINT64)
		return G_MAXINT64;
	return facts->now_us + (tick - facts->now_tick) * facts->tick_us;
}

static Plan begin_when_due(RegistryOperation operation, gint64 due_us, gint64 now_us)
{
	return now_us >= due_us ? begin(operation) : wait_until(due_us);
}

static Plan plan_claim(const PlanFacts *facts)
{
	if (facts->hurry)
		return begin(REGISTRY_CLAIM);
	if (facts->waiting && facts->now_tick < facts->wait_until_tick)
		return wait_until(tick_at_us(facts, facts->wait_until_tick));
	return begin_when_due(REGISTRY_CLAIM, facts->retry_at_us, facts->now_us);
}

static Plan plan_extension(const PlanFacts *facts)
{
	/* what failed is tried again even if nobody asks any more */
	gboolean wanted = facts->wanted || facts->failures > 0;

	/* no further than before: the clock was set back, and what is reserved will do */
	if (wanted && facts->next_end_tick > facts->end_tick)
		return begin_when_due(REGISTRY_EXTEND, extension_due_us(facts), facts->now_us);
	return WAIT_FOR_NEWS;
}

static Plan plan_while_busy(const PlanFacts *facts)
{
	/* a hand-back is what stopping would begin anyway */
	if (facts->stopping && !facts->cancelled && facts->under_way != REGISTRY_HAND_BACK)
		return (Plan){.action = PLAN_CANCEL};
	return WAIT_FOR_NEWS;
}

Plan keeper_plan_next(const PlanFacts *facts)
{
	Plan plan;

	if (facts->stopped)
		return WAIT_FOR_NEWS;
	if (facts->under_way != REGISTRY_NONE)
		return plan_while_busy(facts);
	if (facts->stopping)
		return facts->has_lease ? begin(REGISTRY_HAND_BACK) : (Plan){.action = PLAN_STOP};
	/* outside, there is nothing to reserve; an end that was cut to the layout's last tick would
	 * keep the worker ID for ever */
	if (facts->ended || facts->outside)
		return WAIT_FOR_NEWS;
	if (!facts->has_lease)
		return plan_claim(facts);
	if (facts->ahead)
		return begin(REGISTRY_HAND_BACK);
	plan = plan_extension(facts);
	if (plan.action == PLAN_NOTHING && !facts->begun)
		plan.until_us = MIN(plan.until_us, tick_at_us(facts, facts->first_tick));
	return plan;
}

/* The clock is so far ahead of the registry's that the time now may not be reserved. */
static gboolean is_out_of_reach(const PlanFacts *facts)
{
	return facts->next_end_tick < facts->now_tick;
}

static gboolean is_hanging(const PlanFacts *facts)
{
	return facts->under_way != REGISTRY_NONE &&
	       facts->now_us - facts->busy_since_us >= PLAN_HANGS_US;
}

WorkerState keeper_plan_state(const PlanFacts *facts)
{
	gboolean spent = facts->now_tick > facts->end_tick;

	if (facts->stopped)
		return WORKER_STOPPED;
	if (facts->outside)
		return WORKER_WAITING;
	if (!facts->has_lease) {
		if (facts->waiting)
			return WORKER_WAITING;
		return facts->had_lease ? WORKER_RECLAIMING : WORKER_STARTING;
	}
	if (spent && (facts->failures > 0 || is_hanging(facts) || is_out_of_reach(facts)))
		return WORKER_UNAVAILABLE;
	return facts->begun ? WORKER_SERVING : WORKER_WAITING;
}

gint64 keeper_plan_ids_at_us(const PlanFacts *facts)
{
	if (facts->stopped || facts->stopping || facts->ended || facts->outside)
		return PLAN_NEVER;
	if (facts->has_lease && facts->now_tick > facts->end_tick && is_out_of_reach(facts))
		return PLAN_NEVER;
	if (facts->under_way == REGISTRY_NONE && !facts->hurry) {
		if (!facts->has_lease && facts->waiting)
			return MAX(tick_at_us(facts, facts->wait_until_tick), facts->retry_at_us);
		if (facts->failures > 0)
			return facts->retry_at_us;
	}
	if (facts->has_lease && !facts->begun)
		return tick_at_us(facts, facts->first_tick);
	return PLAN_SOON;
}

gint64 keeper_plan_backoff_us(guint failures, gdouble jitter)
{
	gint64 longest_us = MIN_BACKOFF_US << MIN(failures - 1, 10);

	longest_us = MIN(longest_us, MAX_BACKOFF_US);
	return MIN_BACKOFF_US + (gint64)(jitter * (gdouble)(longest_us - MIN_BACKOFF_US));
}
