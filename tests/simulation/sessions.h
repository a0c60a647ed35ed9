/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/world.h"
#include "worker/zookeeper/session.h"

/*
 * A simulated ZooKeeper client: worker/zookeeper/session.h over ensemble.h, in virtual time. A
 * session belongs to the machine that makes it.
 *
 * If a connection breaks, the ensemble executes each request in transit before that, later, or
 * never. A late request may arrive after the client has connected again; it fails if its session
 * has expired. The client receives ZOOKEEPER_UNSURE for each of them.
 */
void sessions_init(void);
void sessions_clear(void);

/* @last_run_us: returns the time at which a machine ran last: now, unless it is paused. */
void sessions_set_last_run(gint64 (*last_run_us)(const WorldMachine *machine));

/* Faults of the sessions of one machine. @machine: (nullable): all machines */

/* Breaks connections, and refuses new ones for @for_us. @silently: clients notice it only after two
 * thirds of their session timeout. */
void sessions_cut(const WorldMachine *machine, gint64 for_us, gboolean silently);

/* Ends sessions_cut() early: clients can connect again. */
void sessions_allow_connections(const WorldMachine *machine);

/* Expires the sessions at once. */
void sessions_expire(const WorldMachine *machine);

/* The process has been killed: requests under way may still arrive, but it receives no reply. */
void sessions_kill(const WorldMachine *machine);

/* Sets probabilities. @moved: a request is refused because its session has moved. @lost: a request
 * under way is never executed if the connection breaks. @late: it arrives late. A real ensemble
 * does not execute a request after the session has connected again: set @late to 0 for that. */
void sessions_set_odds(gdouble moved, gdouble lost, gdouble late);

#define SESSIONS_OPEN_ERROR (-120)

/* Sets the probability that the ensemble answers a request with SESSIONS_OPEN_ERROR, an error that
 * is not about the connection: before or after it has executed the request. @ephemeral_only: only a
 * request for an ephemeral znode, which it does not execute, as with localSessionsEnabled. */
void sessions_set_open_errors(gdouble odds, gboolean ephemeral_only);

/* DNS lookups of the ensemble's servers fail for @for_us. */
void sessions_lose_names(gint64 for_us);

/* Totals of all machines. */
typedef struct {
	guint64 requests, breaks, lost, late;
} SessionsCounts;

SessionsCounts sessions_counts(void);
