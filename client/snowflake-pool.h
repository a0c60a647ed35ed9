/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "snowflake-client.h" /* lint: allow include: they are installed side by side */

G_BEGIN_DECLS

/*
 * A pool of IDs of the Snowflake service, for programs that take many, or that must not wait: a
 * thread behind it prefetches IDs, and fails over from server to server so that takes do not
 * notice.
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
 * Any number of threads can take from one pool at a time: make one for the process. A take of a
 * prefetched ID waits for nothing, makes no system call and reads no clock; it costs a few
 * nanoseconds. No ID comes twice. As long as one server answers, the IDs that a thread takes
 * increase; those of different threads are in no order.
 *
 * How many IDs are prefetched follows the rate of the takes: enough for prefetch_ms, and none while
 * nobody takes IDs. So the first take after a pause waits for a round trip to a server. IDs that
 * are older than max_age_ms are thrown away, so the time in an ID is true within that. The thread
 * behind the pool throws them away: after a process was stopped, or got no processor, a few takes
 * can get older IDs before that thread has run.
 *
 * Servers: those of a list, each at all addresses of its name; or with discover also those that
 * they know (get_workers). Lists and names are renewed every 10 seconds, or names every second
 * while no server answers. A server that is given by its IP address is used at once, however long
 * the DNS lookup of another takes. The pool uses the first 1,024 servers in a list. It excludes a
 * server whose IDs are not unique for 10 minutes. The pool holds one connection to the server that
 * it uses and one to another, at first to four, from which it draws the one to use among those
 * within 1.5 times of the best round trip. It fails over at once when a server reports that it is
 * about to stop, or is gone; and when it hangs, before the prefetched IDs run out, if prefetch_ms
 * is 50 or more. When one server does not give enough, the pool uses several, up to four, at once.
 *
 * TLS: files that were replaced are read again with the next connection, as by
 * snowflake_client_set_tls(); so a certificate can be renewed while the program runs.
 *
 * fork(): the prefetched IDs are the parent's. The child's pool begins with none, and connects with
 * its first take; the parent's connections are closed in it and go on in the parent. The pool may
 * be freed there, or not. In a child that is not made by fork(), as by _Fork() or clone(), every
 * take fails with UNSUPPORTED; it may only take and exec(). Do not fork in a signal handler that
 * can have interrupted a take.
 * It needs Linux 4.14 or later.
 *
 * Usable from C++.
 */
typedef struct _SnowflakePool SnowflakePool;

typedef struct {
	/* "host", "host:port" or "[::1]:port", with TLS "tls:host:port", NULL-terminated; the port
	 * is 7609 unless given. %NULL, or none: SNOWFLAKE_CLIENT_DEFAULT_SERVER */
	const char *const *servers;
	const char *agent; /* who asks, [a-zA-Z][a-zA-Z\-0-9]*, at most 256 bytes */
	gboolean discover; /* ask the servers which others there are: with TLS, if one of these has
			    * it, and else without */
	guint prefetch_ms; /* 1 to 10000: for how long the prefetched IDs must last */
	guint max_age_ms;  /* twice prefetch_ms to 3600000: how old a prefetched ID may become */
	guint timeout_ms;  /* how long a take waits if there is no ID; 0: it fails at once */
	SnowflakeClientTls tls; /* for servers with TLS */
} SnowflakePoolConfig;

#define SNOWFLAKE_POOL_DEFAULT_PREFETCH_MS 50
#define SNOWFLAKE_POOL_DEFAULT_MAX_AGE_MS  1000

/* The defaults: the server on this machine. */
#define SNOWFLAKE_POOL_CONFIG_INIT(who)                                                            \
	{                                                                                          \
		NULL, (who), FALSE, SNOWFLAKE_POOL_DEFAULT_PREFETCH_MS,                            \
			SNOWFLAKE_POOL_DEFAULT_MAX_AGE_MS, SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS,    \
		{                                                                                  \
			NULL, NULL, NULL, FALSE                                                    \
		}                                                                                  \
	}

/* Since the start of the pool, in this process. */
typedef struct {
	guint64 in_hand;     /* prefetched IDs; now */
	guint64 taken;       /* IDs */
	guint64 thrown_away; /* IDs that became too old */
	guint64 dry;         /* takes that found no prefetched ID */
	guint64 refills;     /* answers of servers with IDs */
	guint64 switches;    /* failovers from one server to another */
	guint64 excluded;    /* servers whose IDs were not unique */
} SnowflakePoolStatistics;

/**
 * snowflake_pool_new:
 * @config: copied
 *
 * Begins to connect, and waits for nothing. If no server can be reached, takes fail.
 *
 * Returns: (transfer full): a pool, or %NULL with INVALID_ARGUMENT set; with UNSUPPORTED if this
 * system is too old, or has no memory or thread left
 */
SNOWFLAKE_CLIENT_EXPORT SnowflakePool *snowflake_pool_new(const SnowflakePoolConfig *config,
							  GError **error);

/* No thread may take from it any more. Threads that have taken can end later. */
SNOWFLAKE_CLIENT_EXPORT void snowflake_pool_free(SnowflakePool *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakePool, snowflake_pool_free)

/**
 * snowflake_pool_take:
 * @out_id: (out): an ID, above 0; untouched on failure
 *
 * Any thread. Waits if there is no prefetched ID, for timeout_ms at most.
 *
 * Returns: %TRUE, or %FALSE with the last error of a server set, or TIMEOUT
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_pool_take(SnowflakePool *self, gint64 *out_id,
						     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_pool_take_run:
 * @most: 1 or more
 * @out_first: (out): the first of the IDs, which are consecutive numbers; untouched on failure
 * @out_count: (out): how many, 1 to @most; untouched on failure
 *
 * Takes several IDs at once: consecutive ones, which can be fewer than there are.
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_pool_take_run(SnowflakePool *self, guint most,
							 gint64 *out_first, guint *out_count,
							 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Any thread. IDs that are taken meanwhile may or may not count. */
SNOWFLAKE_CLIENT_EXPORT void snowflake_pool_get_statistics(SnowflakePool *self,
							   SnowflakePoolStatistics *out_statistics);

G_END_DECLS
