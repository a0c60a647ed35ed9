/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "snowflake-client.h" /* lint: allow include: they are installed side by side */

G_BEGIN_DECLS
#pragma GCC visibility push(default)

/* A pool of IDs, for programs that need many IDs or cannot wait for a call to a server. The pool's
 * thread prefetches IDs, and fails over to another server if one fails.
 *
 *   SnowflakePoolConfig config = SNOWFLAKE_POOL_CONFIG_INIT("my-program");
 *   g_autoptr(GError) error = NULL;
 *   g_autoptr(SnowflakePool) pool = NULL;
 *   gint64 id;
 *
 *   config.servers = (const char *[]){"a.example", "b.example", NULL};
 *   pool = snowflake_pool_new(&config, &error);
 *   if (pool == NULL || !snowflake_pool_take(pool, &id, &error))
 *           g_printerr("%s\n", error->message);
 *
 * Any number of threads can take from a pool at the same time, so create one pool for the process.
 * Taking an ID from the prefetch buffer takes a few nanoseconds. It does not wait, make a system
 * call or read the clock. No ID is handed out twice. As long as the pool uses the same server, the
 * IDs taken by one thread increase. IDs taken by different threads are not ordered.
 *
 * Prefetch buffer: its size is adjusted to the rate at which IDs are taken, so that it lasts for
 * prefetch_ms. While no IDs are taken, it is empty, so the first take after a pause waits for a
 * round trip to a server. The pool's thread discards IDs that are older than max_age_ms, so the
 * time in an ID is at most this much earlier than the take. If the process was suspended or
 * starved of CPU time, a few takes may return older IDs before this thread has run.
 *
 * Servers: the pool uses the servers in its list, each at all addresses of its host name. With
 * discover, it also uses the servers that the listed ones report (get_workers). It resolves names
 * and requests the list of servers again every 10 seconds, or every second while no server
 * answers. A server that is given by IP address is used immediately, even if the DNS lookup for
 * another server hangs. The pool uses only the first 1,024 servers in a list. If a server's IDs
 * are not unique, the pool excludes it for 10 minutes.
 *
 * Connections: at first, the pool connects to four servers. From those whose round-trip time is at
 * most 1.5 times the shortest one, it randomly selects the server from which it requests IDs.
 * After that, the pool keeps only this connection and one to a second server.
 *
 * Failover: if the server drains or its connection is lost, the pool uses the second server
 * immediately. If the server hangs and prefetch_ms is 50 or more, the pool switches to the second
 * server before the prefetch buffer is empty. If one server does not issue enough IDs, the pool
 * requests IDs from up to four servers at once.
 *
 * TLS: before each connection, the pool rereads any files that have changed, as described at
 * snowflake_client_set_tls(). Certificates can therefore be renewed while the program runs.
 *
 * After fork(), only the parent keeps the prefetched IDs. In the child, the pool is empty, and
 * connects when an ID is first taken. The parent's connections are closed in the child and stay
 * open in the parent. The child can free the pool, but does not have to. Do not call fork() in a
 * signal handler that can interrupt a take.
 *
 * In a child that was created in another way, for example by _Fork() or clone(), every take fails
 * with UNSUPPORTED. Apart from taking, such a child can only call exec().
 *
 * Requires Linux 4.14 or later. C++ programs can include this header. */
typedef struct _SnowflakePool SnowflakePool;

/* A pool's configuration. Initialize it with SNOWFLAKE_POOL_CONFIG_INIT. Later versions can replace
 * @reserved with new fields, for which %NULL means the default, so that programs do not need to be
 * rebuilt. */
typedef struct {
	const char *const *servers; /* as in snowflake_client_new() */
	const char *agent;          /* as in snowflake_client_get_id() */
	gboolean discover; /* also use the servers that the servers above report. If any server
			    * above has a tls: address, only reported tls: addresses are used;
			    * otherwise, only reported addresses without tls: */
	guint prefetch_ms; /* 1 to 10000: how long the prefetch buffer should last */
	guint max_age_ms;  /* 2 * prefetch_ms to 3600000: the age at which IDs are discarded */
	guint timeout_ms;  /* how long a take waits if the buffer is empty; 0: it fails at once */
	SnowflakeClientTls tls; /* for servers with TLS */
	gpointer reserved[8];   /* must be %NULL */
} SnowflakePoolConfig;

#define SNOWFLAKE_POOL_DEFAULT_PREFETCH_MS 50
#define SNOWFLAKE_POOL_DEFAULT_MAX_AGE_MS  1000

/* The default configuration, for a server on this machine. */
#define SNOWFLAKE_POOL_CONFIG_INIT(who)                                                            \
	{                                                                                          \
		NULL, (who), FALSE, SNOWFLAKE_POOL_DEFAULT_PREFETCH_MS,                            \
			SNOWFLAKE_POOL_DEFAULT_MAX_AGE_MS, SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS,    \
			{NULL, NULL, NULL, FALSE, {NULL}},                                         \
		{                                                                                  \
			NULL                                                                       \
		}                                                                                  \
	}

/* Counts since the start of the pool, in this process. Later versions can replace @reserved, which
 * is 0, with new counts. */
typedef struct {
	guint64 prefetched;   /* IDs in the prefetch buffer now */
	guint64 taken;        /* IDs */
	guint64 discarded;    /* IDs discarded because of their age */
	guint64 empty_buffer; /* number of times a take found the buffer empty */
	guint64 refills;      /* replies from servers that contained IDs */
	guint64 failovers;    /* failovers to another server */
	guint64 excluded;     /* servers excluded because their IDs were not unique */
	guint64 reserved[9];
} SnowflakePoolStatistics;

/**
 * snowflake_pool_new:
 * @config: copied
 *
 * Creates a pool, which starts to connect in the background. If no server can be reached, this
 * function succeeds, but attempts to take IDs fail.
 *
 * Returns: (transfer full): a pool, or %NULL with an error set: INVALID_ARGUMENT; or UNSUPPORTED,
 * if the kernel is too old, memory is exhausted or a thread cannot be created
 */
SnowflakePool *snowflake_pool_new(const SnowflakePoolConfig *config, GError **error);

/* Frees the pool. No thread may use the pool during or after this call. Threads that have taken
 * IDs can still be running.
 */
void snowflake_pool_free(SnowflakePool *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakePool, snowflake_pool_free)

/* Takes one ID. Can be called from any thread. If the prefetch buffer is empty, the function waits
 * for up to timeout_ms.
 * @out_id: (out): the ID, above 0; unchanged on failure
 * Returns: %TRUE, or %FALSE with an error set: the last error from a server, or TIMEOUT */
gboolean snowflake_pool_take(SnowflakePool *self, gint64 *out_id,
			     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Takes several IDs, which are consecutive numbers. Otherwise like snowflake_pool_take(). The
 * function can return fewer IDs than the prefetch buffer contains.
 * @most: 1 or more
 * @out_first: (out): the first ID; unchanged on failure
 * @out_count: (out): the number of IDs, 1 to @most; unchanged on failure
 * Returns: %TRUE, or %FALSE with an error set */
gboolean snowflake_pool_take_run(SnowflakePool *self, guint most, gint64 *out_first,
				 guint *out_count, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gets the statistics. Can be called from any thread. Concurrent takes may or may not be
 * included. */
void snowflake_pool_get_statistics(SnowflakePool *self, SnowflakePoolStatistics *out_statistics);

#pragma GCC visibility pop
G_END_DECLS
