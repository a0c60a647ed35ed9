/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/log.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/worker/fake-registry.h"
#include "tests/unit/worker/scripted-time.h"
#include "worker/keeper.h"

/* A keeper with all that it needs, and a log that tests can read. Time is scripted: at each check
 * of the test, the keeper has done all that was due. */

#define MAX_SKEW_MS  10000
#define MAX_AHEAD_MS 10

/* Lets time pass until @condition is true. */
#define WAIT_FOR(condition)                                                                        \
	do {                                                                                       \
		gint64 give_up_us_ = g_get_monotonic_time() + HANG_GUARD_US;                       \
                                                                                                   \
		scripted_time_settle();                                                            \
		while (!(condition)) {                                                             \
			g_assert_cmpint(g_get_monotonic_time(), <, give_up_us_);                   \
			scripted_time_pass(G_TIME_SPAN_MILLISECOND);                               \
		}                                                                                  \
	} while (0)

typedef struct {
	SystemClock clock;
	Generator *generator;
	FakeRegistry fake;
	gboolean reclaim; /* reclaims after a step back */
	Keeper *keeper;
	_Atomic guint changes;    /* calls to changed() */
	_Atomic KeeperState told; /* state at the last of them */
} Server;

/* Creates everything but the keeper, and empties the log. */
void server_init(Server *self);
void server_init_layout(Server *self, const Layout *layout);
/* Creates and starts the keeper. */
void server_start(Server *self);
/* Creates and starts the keeper, and waits until it serves. */
void server_start_serving(Server *self);
/* Calls server_init() and server_start_serving(). */
void server_init_serving(Server *self);
void server_stop(Server *self);
void server_clear(Server *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Server, server_clear)

KeeperState server_state(Server *self);
KeeperStatus server_status(Server *self);
/* Waits until the keeper has checked the clock once more by itself. */
void server_go_round(Server *self);
gint64 server_tick(Server *self);
DrawStatus server_draw(Server *self, gint64 *out_id);
/* Draws an ID. Retries if it is refused for lack of a reservation, as a client does. */
gint64 server_draw_in_time(Server *self);
/* Draws an ID each millisecond, until the fake has completed @times more extensions. */
void server_draw_until_extended(Server *self, guint times);

gint64 tick_of_id(gint64 id);

/* Returns the clock of a registry, read with an uncertainty of 2 ms, at this offset to
 * CLOCK_BOOTTIME. */
RegistryClock registry_clock(gint64 offset_ns);

/* Returns the number of times that an event was logged since server_init(). */
guint times_logged(LogEvent event);
/* Asserts this number, and that the last line contains @part. */
void assert_logged(LogEvent event, guint times, const char *part);
/* Returns the number after the name in the last line. */
gint64 logged_number(LogEvent event, const char *name);
