/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/world.h"
#include "worker/zookeeper/session.h"

/*
 * ZooKeeper's client in a world: worker/zookeeper/session.h over a simulated ensemble, in virtual
 * time. A session belongs to the machine that makes it.
 *
 * When a connection breaks, each request under way is lost before it reaches the ensemble, or is
 * done and its reply is lost, or is done later: after the client has connected again, or never, if
 * its session has expired. The client learns only that it cannot know.
 */
void sessions_init(void);
void sessions_clear(void);

/* When the code of a machine ran last: now, unless it is held up. */
void sessions_set_ran(gint64 (*ran_us)(const WorldMachine *machine));

/* Each of these concerns the sessions of one machine, or all: NULL. */

/* Connections break, and cannot be made again for so long. @silently: the clients notice only when
 * two thirds of their session timeout have passed. */
void sessions_cut(const WorldMachine *machine, gint64 for_us, gboolean silently);

/* Connections that are cut can be made again from now on. */
void sessions_mend(const WorldMachine *machine);

/* The ensemble forgets the sessions. */
void sessions_expire(const WorldMachine *machine);

/* The process has ended: requests under way may still arrive, and nothing is received any more. */
void sessions_kill(const WorldMachine *machine);

/* How likely it is that a request is refused as its session has moved; and that one that is under
 * way when its connection breaks is never done, or is done later. The real ensemble is milder: no
 * request is done after the session has connected again; with @late 0 it is like that here. */
void sessions_set_odds(gdouble moved, gdouble lost, gdouble late);

/* Names of servers cannot be resolved for so long. */
void sessions_lose_names(gint64 for_us);

/* Of all machines, so far. */
typedef struct {
	guint64 requests, breaks, lost, late;
} SessionsCounts;

SessionsCounts sessions_counts(void);
