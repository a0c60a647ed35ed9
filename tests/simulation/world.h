/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/log.h"

/*
 * A world in virtual time, drawn from one seed: a queue of events, the clocks of the machines that
 * live in it, and the notes that explain a failure. One thread. Nothing here knows of ZooKeeper,
 * files or pools.
 *
 * The linker puts world.c in the place of clock_gettime(), g_get_monotonic_time(), getentropy() and
 * log_event_fields(), so the product's code sees the virtual time of the machine that runs now
 * (world_enter()), and its log becomes notes. The same seed gives the same events, always: nothing
 * may depend on an address, on the real time or on the order of a hash table of pointers.
 */

/* A machine: its clocks, and how to name it in notes. */
typedef struct {
	char name[24];
	gint64 wall_offset_ns; /* its CLOCK_REALTIME is ahead of true time by so much */
	gint64 drift_ppm;      /* and gains so many microseconds per second, since drift_from_us */
	gint64 drift_from_us;
	gint64 uptime_us;     /* of the machine when the world began: CLOCK_BOOTTIME then */
	gint64 suspended_us;  /* in all: what CLOCK_MONOTONIC is behind CLOCK_BOOTTIME */
	gboolean is_involved; /* its notes explain the failure */
} WorldMachine;

#define WORLD_BEGIN_US G_TIME_SPAN_SECOND               /* 0 can mean "never" */
#define WORLD_EPOCH_MS G_GINT64_CONSTANT(1700000000000) /* true time at 0 of virtual time */
#define WORLD_NEVER_US G_MAXINT64

/* @trace: print notes as they come. */
void world_init(guint64 seed, gboolean trace);
void world_clear(void);

guint64 world_seed(void);

/* Virtual time. It advances from event to event, and while nothing runs. */
gint64 world_now_us(void);
gint64 world_true_ms(void); /* the same as true time, since the Unix epoch */

/* Time passes within an event: an operation that blocks, such as a write to a slow disk. */
void world_spend_us(gint64 us);

/* Events. Those of the same time run in the order in which they were made. There is no taking one
 * back: give it a @tag, and ignore it when the tag has changed. */
typedef void (*WorldCall)(gpointer data, guint64 tag);
void world_at(gint64 at_us, WorldCall call, gpointer data, guint64 tag);
void world_after(gint64 delay_us, WorldCall call, gpointer data, guint64 tag);

/* Runs the next event that is due at @until_us or before. %FALSE: there is none. */
gboolean world_step(gint64 until_us);

/* Runs all events up to @until_us, which is the time then. */
void world_run_until(gint64 until_us);

guint64 world_n_events(void);

/* Chance */
gboolean world_odds(gdouble probability);
/* From @least to @most, both included. */
gint64 world_between(gint64 least, gint64 most);
/* Likewise, with small values as likely as large ones: each order of magnitude has its share.
 * @least is 1 or more. */
gint64 world_scaled(gint64 least, gint64 most);

/* The machine whose code runs from here on; NULL: none, and a product's clock must not be read. */
void world_enter(WorldMachine *machine);
WorldMachine *world_machine(void);

/* What the clocks of @machine show, and when its monotonic clock shows @monotonic_us. */
gint64 world_monotonic_us(const WorldMachine *machine);
gint64 world_boottime_ns(const WorldMachine *machine);
gint64 world_wall_ns(const WorldMachine *machine);
gint64 world_when_us(const WorldMachine *machine, gint64 monotonic_us);

/* Called wherever the code of a machine could be held up: before each reading of a clock, and at
 * each request to the outside and each answer from it. It may run events before it returns: those
 * of the others. NULL: nobody. */
typedef enum { WORLD_STEP_CLOCK, WORLD_STEP_OUTSIDE } WorldStep;
typedef void (*WorldStepped)(WorldMachine *machine, WorldStep step);
void world_set_stepped(WorldStepped stepped);
void world_pass_step(WorldStep step);

/* Sets the drift from now on; what it has gained so far stays. */
void world_set_drift(WorldMachine *machine, gint64 ppm);

/* Called with each event of the product's log, after it was noted: its name and its fields. NULL:
 * nobody. */
typedef void (*WorldLogged)(WorldMachine *machine, LogEvent event, const char *line);
void world_set_logged(WorldLogged logged);

/* Notes, of which the last thousands are kept. @machine: (nullable) */
void world_note(const WorldMachine *machine, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Prints what is wrong, the seed, the time, and the last notes of the machines involved and of no
 * machine; of all if none is involved. Ends the process with status WORLD_FAILED. */
#define WORLD_FAILED 3
void world_fail(const char *format, ...) G_GNUC_PRINTF(1, 2) G_GNUC_NORETURN;
