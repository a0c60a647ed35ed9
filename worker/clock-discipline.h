/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "worker/registry.h"

/* The rules by which the clock for IDs follows, ignores or waits for the system clock, which others
 * can set. The keeper regularly measures the difference, and calls these functions to judge it.
 * Slewing changes both clocks equally, so only steps are detected.
 *
 * If the registry has a clock, a step in either direction is adopted if the system clock then
 * differs from the registry's by no more than the allowed skew. Otherwise the step is held until
 * the registry's clock agrees or the step is undone.
 *
 * If the registry has no clock, a step back is adopted at once: the generator absorbs it or
 * refuses. A small step forward is also adopted at once. A large one would affect every ID and
 * reservation, so it is held until it has lasted for a while. */

/* If the registry has no clock, a jump that is undone within this time has no effect. */
#define CLOCK_DISCIPLINE_HOLD_US (10 * G_USEC_PER_SEC)

/* A step that is still undecided. Initialise it with zeros. */
typedef struct {
	gint64 held_since_us; /* 0 if no step */
	gint64 held_offset_ns;
} ClockDiscipline;

typedef enum {
	CLOCK_AGREES,          /* within the precision of the measurement */
	CLOCK_STEPPED_BACK,    /* adopt the measured offset after a step back */
	CLOCK_STEPPED_FORWARD, /* adopt the measured offset after a step forward */
	CLOCK_JUMPED,          /* a new jump, still undecided */
	CLOCK_HELD,            /* whether to adopt the jump is still undecided */
} ClockVerdict;

/* Offsets are relative to CLOCK_BOOTTIME. Times are monotonic. */
typedef struct {
	gint64 now_us;      /* more than 0 */
	gint64 offset_ns;   /* the offset in use */
	gint64 measured_ns; /* the offset of the system clock */
	/* the maximum difference from the registry's clock; without such a clock, the maximum
	 * step */
	gint64 max_skew_ns;
	RegistryClock clock; /* the last reading, regardless of its age */
} ClockReading;

ClockVerdict clock_discipline_judge(ClockDiscipline *self, const ClockReading *reading);
