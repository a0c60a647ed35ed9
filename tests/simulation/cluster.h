/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/server.h"

/*
 * Servers that share a simulated ZooKeeper, draws from them, and faults. In addition to the checks
 * of server.h, each write that the ensemble commits is checked: how far ahead a reservation ends,
 * and that no claim begins at or below the floor.
 */

#define CLUSTER_DATACENTER 3
#define CLUSTER_ROOT       "/snowflake"

/* The maximum permitted error of ZooKeeper's clock: docs/how-to/restore-zookeeper.md. */
#define CLUSTER_MAX_AHEAD_MS 10000

typedef struct {
	guint n_servers;
	guint worker_bits;
	gint64 tick_ms;
	gint64 reservation_ms;
	gint64 session_timeout_ms;
	gint64 max_clock_skew_ms;
	gint64 worker_id;          /* --worker-id of all servers; -1 for any */
	gdouble reclaim_odds;      /* probability that a server reclaims */
	gboolean creates_registry; /* --create-registry of all servers */
	gboolean skips_sanity_checks;
	gboolean draws; /* IDs are drawn continuously */
	/* the store has a history, as PostgreSQL has; otherwise it has none */
	gboolean has_history;
} ClusterConfig;

/* Draws a configuration. */
ClusterConfig cluster_draw_config(void);

void cluster_init(const ClusterConfig *config);
void cluster_clear(void);

Server *cluster_server(guint number);
Server *cluster_any_server(void);
const ClusterConfig *cluster_config(void);

/* Starts all servers within @within_us. */
void cluster_start(gint64 within_us);

/* From now on, draws from all servers that are up. */
void cluster_start_draws(void);

/* Paths */
char *cluster_path(const char *name);
char *cluster_reservation_path(guint worker_id);

/* Draws faults, @mean_us apart on average, until cluster_end_faults(). */
void cluster_begin_faults(gint64 mean_us);

/* Raises or creates the floor, as snowflakectl registry quarantine --datacenter-id does. Fails
 * without a layout in ZooKeeper, as the command does. */
void cluster_quarantine(void);

/* Backs up ZooKeeper if a floor could be raised after a restore, that is, if there is a layout. */
void cluster_back_up(void);

/* Restores the last backup, if there is one. @quarantine: raises the floor before a server
 * connects, as the manual says. */
void cluster_restore(gboolean quarantine);

/* Restores the last backup, if there is one, as the promotion of a standby does that lacks the
 * commits since: nothing raises the floor, but the store's history is another one. */
void cluster_fail_over(void);

/* Returns: the last event in the log of a server's process that says why it does not serve;
 * LOG_N_EVENTS if there is none */
LogEvent cluster_last_warning(const Server *server);
/* Returns: how often a server has logged worker-lost */
guint cluster_n_lost(const Server *server);
/* Fails unless the last worker-lost of @server contains @why. */
void cluster_check_lost(Server *server, const char *why);

/* Returns: how many changes of znodes the servers have committed */
guint64 cluster_n_commits(void);

/* Ends all faults, and sets the clocks right. */
void cluster_end_faults(void);

/* Returns: the maximum permitted recovery time after cluster_end_faults() */
gint64 cluster_recovery_us(void);

guint cluster_n_serving(void);

/* Runs until each worker ID has a serving server, or all servers serve, for at most @within_us. The
 * log of each other server must say why it does not. */
void cluster_check_recovered(gint64 within_us);

/* Runs for @for_us without faults and draws. Fails if the servers write, or run rounds, more often
 * than they need to. */
void cluster_check_idle(gint64 for_us);
