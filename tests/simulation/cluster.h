/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/server.h"

/*
 * Servers that share a simulated ZooKeeper, people and programs that draw IDs from them, and what
 * goes wrong. On top of what server.h checks with each draw, each write that the ensemble commits
 * is checked: how far ahead a reservation ends, and that no claim begins at or before the floor.
 */

#define CLUSTER_DATACENTER 3
#define CLUSTER_ROOT       "/snowflake"

/* How far ZooKeeper's clock may be from true time: docs/uniqueness.md, "After a restore". */
#define CLUSTER_MAX_AHEAD_MS 10000

typedef struct {
	guint n_servers;
	guint worker_bits;
	gint64 tick_ms;
	gint64 reservation_ms;
	gint64 session_timeout_ms;
	gint64 max_clock_skew_ms;
	gint64 worker_id;     /* of each server; -1: any */
	gdouble reclaim_odds; /* of a server */
	gboolean skips_sanity_checks;
	gboolean draws; /* somebody takes IDs all the time */
} ClusterConfig;

/* By chance. */
ClusterConfig cluster_draw_config(void);

void cluster_init(const ClusterConfig *config);
void cluster_clear(void);

Server *cluster_server(guint number);
Server *cluster_any_server(void);
const ClusterConfig *cluster_config(void);

/* Starts all within @within_us. */
void cluster_start(gint64 within_us);

/* Draws from all of them from now on, whoever is up. */
void cluster_start_draws(void);

/* Paths */
char *cluster_path(const char *name);
char *cluster_reservation_path(guint worker_id);

/* Faults by chance, with @mean_us from one to the next, until cluster_calm(). */
void cluster_begin_faults(gint64 mean_us);

/* snowflakectl registry quarantine: raises the floor, as an operator does who follows the manual.
 */
void cluster_quarantine(void);

/* Goes back to the last backup, if there is one. @quarantine: before anybody connects, as the
 * manual says. */
void cluster_restore(gboolean quarantine);

/* The event that the log of a server has shown last, of those that say why it does not serve, since
 * it started; LOG_N_EVENTS: none. */
LogEvent cluster_last_complaint(const Server *server);
/* How often a server has logged worker-lost. */
guint cluster_n_lost(const Server *server);
/* The last worker-lost must contain @why. */
void cluster_check_lost(Server *server, const char *why);

/* How many changes of znodes servers have committed. */
guint64 cluster_n_commits(void);

/* No more faults, and what went wrong ends: clocks are set right, everybody runs. */
void cluster_calm(void);

/* How long it may take, after cluster_calm(), until all serve who can. */
gint64 cluster_recovery_us(void);

guint cluster_n_serving(void);

/* Runs until all serve who can, as many as there are worker IDs, for @within_us at most. The logs
 * of the others must say why they do not. */
void cluster_check_recovered(gint64 within_us);

/* Runs for @for_us, during which nothing happens, and holds what servers do against what they need
 * to do. */
void cluster_check_idle(gint64 for_us);
