/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/*
 * Unique, roughly time-ordered 64-bit IDs, issued in this process: a node is what a snowflaked is
 * but for the server. It gets a worker ID by the same rules, in ZooKeeper or in a directory of this
 * machine, and shares them with the servers and nodes that are there; keeps it reserved; and draws
 * IDs by a disciplined clock. So no ID is issued twice, whatever clocks, pauses and crashes do.
 *
 *   const SnowflakeNodeConfig config = {
 *           .options = (const char *[]){"zookeeper=zk.example:2181", "datacenter-id=1", NULL},
 *   };
 *   g_autoptr(GError) error = NULL;
 *   g_autoptr(SnowflakeNode) node = snowflake_node_new(&config, &error);
 *   gint64 id;
 *
 *   if (node == NULL || !snowflake_node_next(node, &id, &error))
 *           g_printerr("%s\n", error->message);
 *
 * One node is enough for a process: any number of threads draw from it. A node has one thread, and
 * several with ZooKeeper; all signals are blocked in them. pthread_cancel() ends a thread after its
 * call, not during it.
 *
 * The node logs with g_log(), domain "Snowflake", in the format of snowflaked. Errors and warnings
 * are messages, which GLib prints to standard error by default. The rest is "info" and "debug",
 * which GLib does not print by default. All nodes of a process share one log. A log handler may
 * block, call fork() and use the node. It must not return in a child that it makes.
 *
 * fork(): the node belongs to the parent. In the child every draw fails with FORKED, and the
 * descriptors of the node's locks are closed. Nothing that the child does affects the parent's
 * worker ID. A child that needs IDs makes a node of its own.
 *
 * _Fork() and clone(): here too, every draw in the child fails with FORKED. The child may only draw
 * and call exec(). It keeps the descriptors, and a node of its own may wait for ever for a lock
 * that another thread of the parent held.
 *
 * Linux 4.14 or later. Usable from C++.
 */
typedef struct _SnowflakeNode SnowflakeNode;

#ifndef SNOWFLAKE_NODE_EXPORT
#define SNOWFLAKE_NODE_EXPORT __attribute__((visibility("default")))
#endif

#define SNOWFLAKE_NODE_DEFAULT_START_TIMEOUT_MS 60000

#define SNOWFLAKE_NODE_ERROR (snowflake_node_error_quark())
SNOWFLAKE_NODE_EXPORT GQuark snowflake_node_error_quark(void);

typedef enum {
	/* The configuration is wrong: an option, the program's name, a %NULL. */
	SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT,
	/* There is no worker ID, or it may not be had: the message says why, and the remedy. */
	SNOWFLAKE_NODE_ERROR_FAILED,
	/* Nothing is reserved at present, or every ID of the present time is issued: ask again
	 * later, or elsewhere. */
	SNOWFLAKE_NODE_ERROR_UNAVAILABLE,
	/* The clock is behind the IDs that were issued, or outside the layout. */
	SNOWFLAKE_NODE_ERROR_CLOCK,
	/* This process is a child of the one that made the node. */
	SNOWFLAKE_NODE_ERROR_FORKED,
} SnowflakeNodeError;

/* All 0 is a node of the default directory. */
typedef struct {
	/* (nullable): "name=value" each, NULL-terminated: options of snowflaked, as its manual page
	 * has them: datacenter-id, worker-id, state-directory; zookeeper, zookeeper-auth,
	 * session-timeout, connect-timeout, reservation, skip-sanity-checks; layout, max-ahead,
	 * max-clock-skew, on-clock-step, sequence-start, max-wait; stop-timeout, log-level.
	 *
	 * Without zookeeper, reservations are in the state directory, and without a worker-id it is
	 * the lowest that nobody else holds there. */
	const char *const *options;
	/* (nullable): what others know it by, as "snowflakectl workers" shows it: 1 to 64 letters,
	 * digits, dots, underscores and hyphens. %NULL: the name of the program's file. */
	const char *program;
	/* How long snowflake_node_new() may take to get a worker ID, in ms; 0:
	 * SNOWFLAKE_NODE_DEFAULT_START_TIMEOUT_MS. */
	guint start_timeout_ms;
} SnowflakeNodeConfig;

/**
 * snowflake_node_new:
 * @config: copied
 *
 * Claims a worker ID, and waits until IDs can be drawn.
 *
 * Returns: (transfer full) (nullable): a node, or %NULL with INVALID_ARGUMENT, FAILED or
 * UNAVAILABLE set; the last one if it was not in time, as where all worker IDs are held
 */
SNOWFLAKE_NODE_EXPORT SnowflakeNode *snowflake_node_new(const SnowflakeNodeConfig *config,
							GError **error);

/**
 * snowflake_node_free:
 * @self: (nullable): nobody may draw from it any more
 *
 * Hands the worker ID back, so that another may claim it at once. Waits for ZooKeeper, or the disk,
 * for the option stop-timeout and some seconds at most; what is not done by then is left to the end
 * of the reservation, and the memory to the end of the process.
 *
 * A process that ends without it loses no more than one that is killed: its worker ID stays
 * reserved, with a directory for a second, else for the option reservation at most. In a child of
 * fork() it does nothing.
 */
SNOWFLAKE_NODE_EXPORT void snowflake_node_free(SnowflakeNode *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeNode, snowflake_node_free)

/**
 * snowflake_node_next:
 * @out_id: (out): the ID, above 0; untouched on failure
 *
 * Any thread. Takes no lock and makes no system call, unless there is no ID at once: then it waits
 * for one, for the option max-wait at most. The IDs that one thread draws increase, as long as the
 * node keeps its worker ID; with on-clock-step=reclaim only those of one worker ID do.
 *
 * Returns: %TRUE, or %FALSE with UNAVAILABLE, FAILED, CLOCK or FORKED set
 */
SNOWFLAKE_NODE_EXPORT gboolean snowflake_node_next(SnowflakeNode *self, gint64 *out_id,
						   GError **error);

/**
 * snowflake_node_next_run:
 * @most: 1 or more
 * @out_first: (out): the first ID; untouched on failure
 * @out_count: (out): how many there are, 1 to @most; untouched on failure
 *
 * Several IDs for little more than the price of one: @out_first and the numbers that follow it, all
 * of one tick. So there are as many as are left in the present tick, or fewer. Otherwise as
 * snowflake_node_next().
 */
SNOWFLAKE_NODE_EXPORT gboolean snowflake_node_next_run(SnowflakeNode *self, guint most,
						       gint64 *out_first, guint *out_count,
						       GError **error);

G_END_DECLS
