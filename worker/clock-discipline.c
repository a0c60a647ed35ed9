/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/clock-discipline.h"

#include <stdlib.h>

#include "core/clock.h"

#define NOISE_NS CLOCK_NS_PER_MS /* two readings of a clock can be this far apart */

gint64 clock_discipline_ahead_ns(const RegistryClock *clock, gint64 offset_ns)
{
	if (!clock->known)
		return 0;
	if (offset_ns > clock->most_ns)
		return offset_ns - clock->most_ns;
	return MIN(offset_ns - clock->least_ns, 0);
}

static gboolean is_believed(const ClockReading *reading, gint64 stood_us)
{
	if (reading->clock.known)
		return ABS(clock_discipline_ahead_ns(&reading->clock, reading->measured_ns)) <=
		       reading->max_skew_ns;
	return reading->measured_ns - reading->offset_ns <= reading->max_skew_ns ||
	       stood_us >= CLOCK_DISCIPLINE_HOLD_US;
}

ClockVerdict clock_discipline_judge(ClockDiscipline *self, const ClockReading *reading)
{
	gint64 step_ns = reading->measured_ns - reading->offset_ns;
	gboolean same_jump = self->held_since_us != 0 &&
			     ABS(reading->measured_ns - self->held_offset_ns) < NOISE_NS;
	gint64 stood_us = same_jump ? reading->now_us - self->held_since_us : 0;

	if (ABS(step_ns) >= NOISE_NS && !is_believed(reading, stood_us)) {
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
