/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/clock-discipline.h"

#include <stdlib.h>

#include "core/clock.h"

#define NOISE_NS CLOCK_NS_PER_MS /* two readings of the same clock may differ by this much */

ClockVerdict clock_discipline_judge(ClockDiscipline *self, const ClockReading *reading)
{
	gint64 step_ns = reading->measured_ns - reading->offset_ns;
	gboolean same_jump = self->held_since_us != 0 &&
			     ABS(reading->measured_ns - self->held_offset_ns) < NOISE_NS;
	gint64 held_us = same_jump ? reading->now_us - self->held_since_us : 0;
	gboolean is_believed;

	if (reading->clock.known)
		is_believed = ABS(registry_clock_ahead_ns(&reading->clock, reading->measured_ns)) <=
			      reading->max_skew_ns;
	else
		is_believed =
			step_ns <= reading->max_skew_ns || held_us >= CLOCK_DISCIPLINE_HOLD_US;

	if (ABS(step_ns) >= NOISE_NS && !is_believed) {
		if (same_jump)
			return CLOCK_HELD;
		*self = (ClockDiscipline){reading->now_us, reading->measured_ns};
		return CLOCK_JUMPED;
	}
	*self = (ClockDiscipline){0};
	if (ABS(step_ns) < NOISE_NS)
		return CLOCK_AGREES;
	return step_ns < 0 ? CLOCK_STEPPED_BACK : CLOCK_STEPPED_FORWARD;
}
