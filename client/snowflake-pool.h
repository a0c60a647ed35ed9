/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "snowflake-client.h" /* lint: allow include: they are installed side by side */

G_BEGIN_DECLS

/*
 * A pool of IDs of the Snowflake service, for programs that take many IDs, or that cannot wait for
 * a call. A thread of the pool prefetches IDs, and changes to another server if one fails.
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
 * Any number of threads can take from one pool at a time, so create one pool for the process. A
 * take from the prefetch buffer does not wait, makes no system call and reads no clock; it costs a
 * few nanoseconds. No ID is handed out twice. As long as one server answers, the IDs that one
 * thread takes increase. There is no order between the IDs of different threads.
 *
 * Prefetch buffer: its size follows the rate of the takes. It lasts for prefetch_ms, and is empty
 * while there are no takes, so the first take after a pause waits for a round trip to a server. IDs
 * that are older than max_age_ms are discarded, so the time in an ID is late by at most this. The
 * pool's thread discards them. If the process was stopped or had no CPU, a few takes can return
 * older IDs before this thread has run.
 *
 * Servers: the pool uses the servers of the list, each at all addresses of its name. With discover,
 * it also uses the servers that they report (get_workers). It resolves names and requests the
 * reports again every 10 seconds, or every second while no server answers. A server that is given
 * by its IP address is used at once, even if the DNS lookup for another server hangs. The pool uses
 * the first 1,024 servers in a list. If a server's IDs are not unique, the pool excludes it for 10
 * minutes.
 *
 * Connections: at first, the pool connects to four servers. It draws one at random from those
 * within 1.5 times of the best round trip, and requests IDs from it. It then keeps this connection
 * and one to another server.
 *
 * Failover: if a server drains or is gone, the pool uses the other one at once. If a server hangs
 * and prefetch_ms is 50 or more, the pool uses the other one before the prefetch buffer is empty.
 * If one server does not issue enough IDs, the pool requests IDs from up to four at once.
 *
 * TLS: before each connection, the pool reads files again that have changed, as
 * snowflake_client_set_tls() describes. So a certificate can be renewed while the program runs.
 *
 * fork(): the prefetched IDs belong to the parent. In the child, the pool is empty, and connects
 * with its first take. The parent's connections are closed in the child, and stay open in the
 * parent. The child can free the pool, but need not. Do not call fork() in a signal handler that
 * can interrupt a take.
 *
 * In a child that was not created by fork(), but for example by _Fork() or clone(), every take
 * fails with UNSUPPORTED. It can only take and call exec().
 *
 * Requires Linux 4.14 or later. C++ programs can include this header.
 */
typedef struct _SnowflakePool SnowflakePool;

/* Initialize it with SNOWFLAKE_POOL_CONFIG_INIT. Later versions can add fields in the place of
 * @reserved. Their %NULL is the default, so programs need not be built again. */
typedef struct {
	/* NULL-terminated: "host", "host:port", "[::1]:port" or "tls:host:port"; or on this machine
	 * "unix:/path" or "unix:@name". The default port is 7609. One text can name several
	 * servers: "a.example,b.example". If it is %NULL or empty, the server is
	 * SNOWFLAKE_CLIENT_DEFAULT_SERVER. */
	const char *const *servers;
	const char *agent; /* name of the calling program, [a-zA-Z][a-zA-Z\-0-9]*, at most 256
			    * bytes */
	gboolean discover; /* also use servers that these servers report: only those with TLS if
			    * one of these has TLS, otherwise only those without */
	guint prefetch_ms; /* 1 to 10000: the time for which the prefetch buffer lasts */
	guint max_age_ms;  /* twice prefetch_ms to 3600000: the age at which an ID is discarded */
	guint timeout_ms;  /* how long a take waits if the buffer is empty; 0: it fails at once */
	SnowflakeClientTls tls; /* for servers with TLS */
	gpointer reserved[8];   /* must be %NULL */
} SnowflakePoolConfig;

#define SNOWFLAKE_POOL_DEFAULT_PREFETCH_MS 50
#define SNOWFLAKE_POOL_DEFAULT_MAX_AGE_MS  1000

/* The defaults: the server on this machine. */
#define SNOWFLAKE_POOL_CONFIG_INIT(who)                                                            \
	{                                                                                          \
		NULL, (who), FALSE, SNOWFLAKE_POOL_DEFAULT_PREFETCH_MS,                            \
			SNOWFLAKE_POOL_DEFAULT_MAX_AGE_MS, SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS,    \
			{NULL, NULL, NULL, FALSE, {NULL}},                                         \
		{                                                                                  \
			NULL                                                                       \
		}                                                                                  \
	}

/* Counts since the start of the pool, in this process. Later versions can add counts in the place
 * of
 * @reserved, which is 0. */
typedef struct {
	guint64 prefetched;   /* IDs in the prefetch buffer now */
	guint64 taken;        /* IDs */
	guint64 discarded;    /* IDs that were discarded because of their age */
	guint64 empty_buffer; /* takes that found the prefetch buffer empty */
	guint64 refills;      /* replies of servers with IDs */
	guint64 failovers;    /* failovers to another server */
	guint64 excluded;     /* number of servers whose IDs were not unique */
	guint64 reserved[9];
} SnowflakePoolStatistics;

/**
 * snowflake_pool_new:
 * @config: copied
 *
 * Creates a pool, which begins to connect. The function does not wait. If no server can be reached,
 * the takes fail.
 *
 * Returns: (transfer full): a pool, or %NULL with INVALID_ARGUMENT set, or with UNSUPPORTED if this
 * system is too old or has no memory or thread left
 */
SNOWFLAKE_CLIENT_EXPORT SnowflakePool *snowflake_pool_new(const SnowflakePoolConfig *config,
							  GError **error);

/* Frees the pool. No thread can take from it any more. Threads that have taken IDs can end later.
 */
SNOWFLAKE_CLIENT_EXPORT void snowflake_pool_free(SnowflakePool *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakePool, snowflake_pool_free)

/**
 * snowflake_pool_take:
 * @out_id: (out): the ID, above 0; unchanged on failure
 *
 * Takes one ID, in any thread. If the prefetch buffer is empty, it waits for at most timeout_ms.
 *
 * Returns: %TRUE, or %FALSE with an error set: the last error of a server, or TIMEOUT
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_pool_take(SnowflakePool *self, gint64 *out_id,
						     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_pool_take_run:
 * @most: 1 or more
 * @out_first: (out): the first ID; unchanged on failure
 * @out_count: (out): the number of IDs, 1 to @most; unchanged on failure
 *
 * Takes several IDs as snowflake_pool_take() takes one. The IDs are consecutive numbers. It can
 * return fewer than the prefetch buffer contains.
 *
 * Returns: %TRUE, or %FALSE with an error set
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_pool_take_run(SnowflakePool *self, guint most,
							 gint64 *out_first, guint *out_count,
							 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Gets the statistics, in any thread. Concurrent takes can be included or not. */
SNOWFLAKE_CLIENT_EXPORT void snowflake_pool_get_statistics(SnowflakePool *self,
							   SnowflakePoolStatistics *out_statistics);

G_END_DECLS
