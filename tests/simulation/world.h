/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/log.h"

/*
 * A world in virtual time, drawn from one seed: a queue of events, the clocks of its machines, and
 * the notes that explain a failure. It has one thread. ZooKeeper, files and pools are elsewhere.
 *
 * The linker replaces clock_gettime(), g_get_monotonic_time(), g_get_real_time(), getentropy() and
 * log_event_fields() with functions of world.c. So the product's code sees the virtual time of the
 * machine that runs now (world_enter()), and its log becomes notes. The same seed always gives the
 * same events: no code may depend on an address, on real time or on the order of a hash table of
 * pointers.
 */

/* A machine: its clocks, and its name in notes. */
typedef struct {
	char name[24];
	gint64 wall_offset_ns; /* CLOCK_REALTIME minus true time, at drift_from_us */
	gint64 drift_ppm;      /* rate of CLOCK_REALTIME since then, minus 1 */
	gint64 drift_from_us;
	gint64 uptime_us;     /* CLOCK_BOOTTIME at time 0 of the world */
	gint64 suspended_us;  /* CLOCK_BOOTTIME minus CLOCK_MONOTONIC */
	gboolean is_involved; /* its notes explain the failure */
} WorldMachine;

#define WORLD_BEGIN_US G_TIME_SPAN_SECOND               /* 0 can mean "never" */
#define WORLD_EPOCH_MS G_GINT64_CONSTANT(1700000000000) /* true time at 0 of virtual time */
#define WORLD_NEVER_US G_MAXINT64

/* Durations in microseconds, in 64 bits */
#define MS(n)      ((n)*G_TIME_SPAN_MILLISECOND)
#define SECONDS(n) ((n)*G_TIME_SPAN_SECOND)

/* @trace: print each note at once. */
void world_init(guint64 seed, gboolean trace);
void world_clear(void);

guint64 world_seed(void);

/* Virtual time: it advances between events, and by world_spend_us(). */
gint64 world_now_us(void);
gint64 world_true_ms(void); /* since the Unix epoch */

/* Advances the time within an event, for a blocking operation such as a write to a slow disk. */
void world_spend_us(gint64 us);

/* Events. Events of the same time run in the order in which they were added. An event cannot be
 * cancelled: give it a @tag, and ignore the event if the tag has changed. */
typedef void (*WorldCall)(gpointer data, guint64 tag);
void world_at(gint64 at_us, WorldCall call, gpointer data, guint64 tag);
void world_after(gint64 delay_us, WorldCall call, gpointer data, guint64 tag);

/* Runs the next event that is due at @until_us or before. Returns: %FALSE if there is none */
gboolean world_run_next(gint64 until_us);

/* Runs all events up to @until_us, and advances the time to it. */
void world_run_until(gint64 until_us);
void world_run_for(gint64 us);

guint64 world_n_events(void);

/* Chance */
gboolean world_odds(gdouble probability);
/* From @least to @most, both included. */
gint64 world_between(gint64 least, gint64 most);
/* From @least, which is 1 or more, to @most. Each order of magnitude is as likely as another. */
gint64 world_scaled(gint64 least, gint64 most);

/* Sets the machine whose code runs from here on. NULL if none; product code must not read a clock.
 */
void world_enter(WorldMachine *machine);
WorldMachine *world_machine(void);

/* The clocks of @machine, and the virtual time at which its monotonic clock shows @monotonic_us. */
gint64 world_monotonic_us(const WorldMachine *machine);
gint64 world_boottime_ns(const WorldMachine *machine);
gint64 world_wall_ns(const WorldMachine *machine);
gint64 world_when_us(const WorldMachine *machine, gint64 monotonic_us);

/* The checkpoints of a machine's code: each reading of a clock, each request to another component
 * and each reply from it. The hook can pause the machine: it runs events before it returns. NULL if
 * no hook. */
typedef enum { WORLD_CHECKPOINT_CLOCK, WORLD_CHECKPOINT_OUTSIDE } WorldCheckpoint;
typedef void (*WorldCheckpointHook)(WorldMachine *machine, WorldCheckpoint step);
void world_set_checkpoint_hook(WorldCheckpointHook stepped);
void world_pass_checkpoint(WorldCheckpoint step);

/* Sets the drift from now on. The offset that has built up so far stays. */
void world_set_drift(WorldMachine *machine, gint64 ppm);

/* Called with each event of the product's log, after its note. @line: the name and the fields.
 * NULL if no hook. */
typedef void (*WorldLogged)(WorldMachine *machine, LogEvent event, const char *line);
void world_set_logged(WorldLogged logged);

/* Adds a note. The last 20,000 notes are kept. @machine: (nullable) */
void world_note(const WorldMachine *machine, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Prints the last notes, the seed, the time and the failure. If machines are involved, the notes of
 * other machines are omitted. Ends the process with status WORLD_FAILED. */
#define WORLD_FAILED 3
void world_fail(const char *format, ...) G_GNUC_PRINTF(1, 2) G_GNUC_NORETURN;
/* The same for a failure of @machine. The text begins with its name. */
void world_fail_machine(WorldMachine *machine, const char *format, ...)
	G_GNUC_PRINTF(2, 3) G_GNUC_NORETURN;
