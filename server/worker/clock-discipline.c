/* SPDX-License-Identifier: Apache-2.0 */
#include "server/worker/clock-discipline.h"

#include <stdlib.h>

#include "core/clock.h"

#define NOISE_NS CLOCK_NS_PER_MS /* two readings of a clock can be this far apart */

ClockVerdict clock_discipline_judge(ClockDiscipline *self, gint64 offset_ns, gint64 measured_ns,
				    gint64 max_step_ns, gint64 now_us)
{
	gint64 step_ns = measured_ns - offset_ns;
	gboolean same_jump =
		self->held_since_us != 0 && ABS(measured_ns - self->held_offset_ns) < NOISE_NS;

	if (step_ns > max_step_ns && step_ns >= NOISE_NS) {
		/* A registry with a clock of its own could be asked here instead of waiting. */
		if (same_jump && now_us - self->held_since_us < CLOCK_DISCIPLINE_HOLD_US)
			return CLOCK_HELD;
		if (!same_jump) {
			*self = (ClockDiscipline){now_us, measured_ns};
			return CLOCK_JUMPED;
		}
	}
	*self = (ClockDiscipline){0};
	if (ABS(step_ns) < NOISE_NS)
		return CLOCK_AGREES;
	return step_ns < 0 ? CLOCK_STEPPED_BACK : CLOCK_STEPPED_FORWARD;
}
