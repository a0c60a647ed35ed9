/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/log.h"
#include "tests/unit/hang-guard.h"
#include "tests/unit/worker/fake-registry.h"
#include "tests/unit/worker/scripted-time.h"
#include "worker/keeper.h"

/* A keeper with all that it needs, and a log to look into. Its time is scripted: whenever the test
 * looks, the keeper has done all that there was to do by then. */

#define MAX_SKEW_MS  10000
#define MAX_AHEAD_MS 10

/* Lets time pass until what must come has come. */
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
	_Atomic guint changes;    /* calls of changed() */
	_Atomic KeeperState told; /* the state that the last of them found */
} Server;

/* Everything but the keeper, and the log is empty. */
void server_init(Server *self);
void server_init_layout(Server *self, const Layout *layout);
/* Makes and starts the keeper. */
void server_start(Server *self);
/* Makes and starts the keeper, and waits until it serves. */
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
/* As a client does: asks again when it is refused for want of a reservation. */
gint64 server_draw_in_time(Server *self);
/* An ID each millisecond, until the fake has come to the end of so many extensions more. */
void server_draw_until_extended(Server *self, guint times);

gint64 tick_of_id(gint64 id);

/* A registry's clock, read to 2 ms, at this offset to CLOCK_BOOTTIME. */
RegistryClock registry_clock(gint64 offset_ns);

/* How often an event was logged since server_init(). */
guint times_logged(LogEvent event);
/* It was so often, and the last line has @part in it. */
void assert_logged(LogEvent event, guint times, const char *part);
/* What stands after the name in the last line. */
gint64 logged_number(LogEvent event, const char *name);
