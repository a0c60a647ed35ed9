/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS
#pragma GCC visibility push(default)

/* Embedded nodes issue unique, roughly time-ordered 64-bit IDs in this process. A node issues IDs
 * like snowflaked, but without a server. It claims a worker ID by the same rules, in the same
 * ZooKeeper ensemble or state directory as the servers and other nodes. It keeps the worker ID
 * reserved and applies the same clock discipline. Therefore, no ID is issued twice, even if clocks
 * are wrong and processes pause or crash.
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
 * One node is enough for a process, because any number of threads can draw from it. A node runs
 * one thread, or several with ZooKeeper, in which all signals are blocked. If a thread is
 * cancelled with pthread_cancel() while it is in a function below, it ends only after the function
 * has returned.
 *
 * The node logs with g_log(), in the domain "Snowflake" and in the format of snowflaked. Errors
 * and warnings have the level "message", which GLib prints to standard error by default. All other
 * events have the levels "info" and "debug", which GLib does not print by default. All nodes in a
 * process share one log. A log handler may block, call fork() and use the node. If it creates a
 * child, it must not return in the child.
 *
 * After fork(), the node continues to work only in the parent. In the child, every draw fails with
 * FORKED, and the descriptors of the node's locks are closed. The child cannot affect the parent's
 * worker ID. If the child needs IDs, create a new node in it.
 *
 * After _Fork() or clone(), every draw in the child also fails with FORKED. The child keeps the
 * descriptors. It may only call exec() and draw, which fails. A new node in it could wait forever
 * for a lock that another thread of the parent held.
 *
 * Requires Linux 4.14 or later. C++ programs can include this header. */
typedef struct _SnowflakeNode SnowflakeNode;

#define SNOWFLAKE_NODE_DEFAULT_START_TIMEOUT_MS 60000

#define SNOWFLAKE_NODE_ERROR (snowflake_node_error_quark())
GQuark snowflake_node_error_quark(void);

typedef enum {
	/* An option or the program's name is invalid, or a required value is %NULL. */
	SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT,
	/* The node cannot claim a worker ID. The message contains the reason and the remedy. */
	SNOWFLAKE_NODE_ERROR_FAILED,
	/* Nothing is currently reserved, or all IDs for the current time have been issued. Try
	 * again later, or use another server. */
	SNOWFLAKE_NODE_ERROR_UNAVAILABLE,
	/* The clock is behind the IDs that have been issued, or outside the layout's range. */
	SNOWFLAKE_NODE_ERROR_CLOCK,
	/* This process is a child of the process that created the node. */
	SNOWFLAKE_NODE_ERROR_FORKED,
} SnowflakeNodeError;

/* If all members are 0, the node uses the default state directory. */
typedef struct {
	/* (nullable): options of snowflaked(8), each as "name=value", NULL-terminated. The options
	 * are tls-certificate, tls-key, tls-ca; datacenter-id, worker-id, state-directory;
	 * zookeeper, zookeeper-auth, postgresql, postgresql-schema, session-timeout,
	 * connect-timeout, reservation, registry-id, create-registry, skip-sanity-checks; layout,
	 * max-ahead, max-clock-skew, on-clock-step, sequence-start, max-wait; stop-timeout,
	 * log-level.
	 *
	 * Without zookeeper and postgresql, reservations are stored in the state directory. In this
	 * case, if worker-id is not given, the node claims the lowest worker ID that no other
	 * server or node holds. */
	const char *const *options;
	/* (nullable): the name of the program, as shown by "snowflakectl workers": 1 to 64
	 * letters, digits, dots, underscores and hyphens. %NULL: the name of the executable file.
	 * */
	const char *program;
	/* The time limit for snowflake_node_new() to claim a worker ID, in ms; 0:
	 * SNOWFLAKE_NODE_DEFAULT_START_TIMEOUT_MS. */
	guint start_timeout_ms;
} SnowflakeNodeConfig;

/**
 * snowflake_node_new:
 * @config: copied
 *
 * Creates a node, claims a worker ID, and waits until IDs can be drawn.
 *
 * Returns: (transfer full) (nullable): a node, or %NULL with INVALID_ARGUMENT, FAILED or
 * UNAVAILABLE set. UNAVAILABLE means that the time limit was reached, for example because all
 * worker IDs are held
 */
SnowflakeNode *snowflake_node_new(const SnowflakeNodeConfig *config, GError **error);

/**
 * snowflake_node_free:
 * @self: (nullable): a node that no other thread uses during or after this call
 *
 * Releases the worker ID, so that another server or node can claim it immediately, and frees the
 * node. The function waits for ZooKeeper or the disk for at most the option stop-timeout plus a
 * few seconds. If it cannot release the worker ID by then, the worker ID stays reserved until its
 * reservation ends, and the memory stays allocated until the process ends.
 *
 * If a process ends without this call, its worker ID stays reserved, as after a kill. With a state
 * directory, this lasts one second. With ZooKeeper, it lasts at most as long as the option
 * reservation.
 *
 * In a child created by fork(), the function does nothing.
 */
void snowflake_node_free(SnowflakeNode *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakeNode, snowflake_node_free)

/**
 * snowflake_node_next:
 * @out_id: (out): the ID, above 0; unchanged on failure
 *
 * Draws one ID. Can be called from any thread. If an ID is available immediately, the function
 * does not take a lock or make a system call. Otherwise, it waits for at most the option max-wait.
 *
 * The IDs drawn by one thread increase as long as the node keeps its worker ID. With
 * on-clock-step=reclaim, the node can switch to another worker ID, and later IDs can then be
 * smaller.
 *
 * Returns: %TRUE, or %FALSE with UNAVAILABLE, FAILED, CLOCK or FORKED set
 */
gboolean snowflake_node_next(SnowflakeNode *self, gint64 *out_id, GError **error);

/**
 * snowflake_node_next_run:
 * @most: 1 or more
 * @out_first: (out): the first ID; unchanged on failure
 * @out_count: (out): the number of IDs, 1 to @most; unchanged on failure
 *
 * Draws a run of IDs, like snowflake_node_next(), at little more than the cost of one ID. The IDs
 * are @out_count consecutive numbers, beginning with @out_first. They all have the same tick, so a
 * run contains at most as many IDs as are left in the current tick.
 *
 * Returns: %TRUE, or %FALSE with UNAVAILABLE, FAILED, CLOCK or FORKED set
 */
gboolean snowflake_node_next_run(SnowflakeNode *self, guint most, gint64 *out_first,
				 guint *out_count, GError **error);

#pragma GCC visibility pop
G_END_DECLS
