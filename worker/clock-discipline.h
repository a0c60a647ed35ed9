/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "worker/registry.h"

/*
 * What to make of the system's clock, which anybody may set, for the clock that
 * IDs are made by: their difference is measured again and again, and each time
 * judged here. Slewing changes both alike; only steps show.
 *
 * With a registry that has a clock, a step either way is adopted if it ends
 * where that clock says that the time is, up to the skew that is allowed. Else
 * it is held until the registry's clock agrees or the step is undone.
 *
 * Without, a step back is adopted at once: the generator absorbs it or refuses.
 * So is a small step forward. A large one would have to be lived with in every
 * ID and reservation, so it is held until it has stood for a while.
 */

/* Without a registry's clock: a jump that was gone before this leaves no mark. */
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
	CLOCK_JUMPED,          /* not to be believed at once: it is held from now on */
	CLOCK_HELD,            /* still is */
} ClockVerdict;

/* Offsets are to CLOCK_BOOTTIME, times monotonic. */
typedef struct {
	gint64 now_us;       /* more than 0 */
	gint64 offset_ns;    /* in force */
	gint64 measured_ns;  /* what it would be by the system's clock */
	gint64 max_skew_ns;  /* from the registry's clock; the largest step without one */
	RegistryClock clock; /* what is known of it, however old */
} ClockReading;

ClockVerdict clock_discipline_judge(ClockDiscipline *self, const ClockReading *reading);

/* How far a clock at @offset_ns is ahead of the registry's, at least; negative: behind it. 0 if it
 * may be right, or nobody knows. */
gint64 clock_discipline_ahead_ns(const RegistryClock *clock, gint64 offset_ns);
