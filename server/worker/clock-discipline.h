/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * What to make of the system's clock, which anybody may set, for the clock that
 * IDs are made by: their difference is measured again and again, and each time
 * judged here. Slewing changes both alike; only steps show.
 *
 * A step back is adopted at once: the generator absorbs it or refuses. So is a
 * small step forward. A large one would have to be lived with in every ID and
 * reservation, so it is held until it has stood for a while.
 */

/* A jump that was gone before this leaves no mark. */
#define CLOCK_DISCIPLINE_HOLD_US (10 * G_USEC_PER_SEC)

/* What is held; all zero to begin with. */
typedef struct {
	gint64 held_since_us; /* 0: nothing is held */
	gint64 held_offset_ns;
} ClockDiscipline;

typedef enum {
	CLOCK_AGREES,          /* up to what measuring may be off by */
	CLOCK_STEPPED_BACK,    /* adopt the measured offset */
	CLOCK_STEPPED_FORWARD, /* adopt the measured offset */
	CLOCK_JUMPED,          /* too far to be believed at once: it is held from now on */
	CLOCK_HELD,            /* still is */
} ClockVerdict;

/**
 * clock_discipline_judge:
 * @offset_ns: in force
 * @measured_ns: what it would be by the system's clock
 * @max_step_ns: the largest step forward that is believed at once
 * @now_us: monotonic time, more than 0
 */
ClockVerdict clock_discipline_judge(ClockDiscipline *self, gint64 offset_ns, gint64 measured_ns,
				    gint64 max_step_ns, gint64 now_us);
