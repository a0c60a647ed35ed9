/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "snowflake-client.h" /* lint: allow include: they are installed side by side */

G_BEGIN_DECLS

/*
 * A pool of IDs of the Snowflake service, for programs that take many, or that may not wait: a
 * thread behind it keeps IDs in hand, and goes from server to server so that nobody notices.
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
 * Any number of threads take from one pool at a time: make one for the process. A take of what is
 * in hand waits for nobody, makes no system call and reads no clock; it costs a few nanoseconds. No
 * ID comes twice. As long as one server answers, the IDs that a thread takes increase; those of
 * different threads come as they come.
 *
 * How much is in hand follows the rate of the takes: enough for prefetch_ms, and nothing while
 * nobody takes any. So the first take after a pause waits for a round trip to a server. IDs that
 * are older than max_age_ms are thrown away, so the time in an ID is true within that. It is the
 * thread behind the pool that throws away: a process that was stopped, or gets no processor, may
 * take a few older ones before that thread has run.
 *
 * Servers: those of a list, each at all addresses of its name; or with discover also those that
 * they know (get_workers), asked again every 10 seconds, as are the names, or every second while
 * none answers; who is given by address is asked at once, however long a look-up of another takes.
 * The pool uses the first 1,024 servers in a list. It excludes a server whose IDs are not unique
 * for 10 minutes. The pool holds one connection to the server that it asks and one to another, at
 * first to four, of which the one to ask is drawn from those within 1.5 times of the best round
 * trip. It turns to the other at once when a server says that it is about to stop, or is gone; and
 * when it hangs, before what is in hand runs out, if prefetch_ms is 50 or more. When one server
 * does not give enough, it asks several, up to four, at once.
 *
 * TLS: files that were replaced are read again with the next connection, as by
 * snowflake_client_set_tls(); so a certificate can be renewed while the program runs.
 *
 * fork(): what is in hand is the parent's. The child's pool begins with nothing, and connects for
 * itself with its first take; the parent's connections are closed in it and go on in the parent. It
 * may be freed there, or not. A child that is made in another way than by fork() gets no ID twice
 * either, but may do no more than take and exec(). Fork in no signal handler that may have
 * interrupted a take. It needs Linux 4.14 or later.
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
	guint prefetch_ms; /* 1 to 10000: for how long what is in hand is to last */
	guint max_age_ms;  /* twice prefetch_ms to 3600000: how old an ID may become in hand */
	guint timeout_ms;  /* how long a take waits when there is nothing; 0: it fails at once */
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
	guint64 in_hand;     /* IDs; now */
	guint64 taken;       /* IDs */
	guint64 thrown_away; /* IDs that became too old */
	guint64 dry;         /* takes that have found nothing in hand */
	guint64 refills;     /* answers of servers with IDs */
	guint64 switches;    /* from the server that was asked to another, since it failed */
	guint64 excluded;    /* servers whose IDs were not unique */
} SnowflakePoolStatistics;

/**
 * snowflake_pool_new:
 * @config: is copied
 *
 * Begins to connect, and waits for nothing. That no server can be reached a take says.
 *
 * Returns: (transfer full): a pool, or %NULL with INVALID_ARGUMENT set; with UNSUPPORTED if this
 * system is too old, or has no memory or thread left
 */
SNOWFLAKE_CLIENT_EXPORT SnowflakePool *snowflake_pool_new(const SnowflakePoolConfig *config,
							  GError **error);

/* No thread takes from it any more. Threads that have may end later. */
SNOWFLAKE_CLIENT_EXPORT void snowflake_pool_free(SnowflakePool *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SnowflakePool, snowflake_pool_free)

/**
 * snowflake_pool_take:
 * @out_id: (out): an ID, above 0; untouched on failure
 *
 * Any thread. Waits if there is nothing in hand, for timeout_ms at most.
 *
 * Returns: %TRUE, or %FALSE with the error set that a server was last found to have, or TIMEOUT
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_pool_take(SnowflakePool *self, gint64 *out_id,
						     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * snowflake_pool_take_run:
 * @most: 1 or more
 * @out_first: (out): the first of the IDs, which are consecutive numbers; untouched on failure
 * @out_count: (out): how many, 1 to @most; untouched on failure
 *
 * Likewise several at once: what there is in one piece, which may be less than there is.
 */
SNOWFLAKE_CLIENT_EXPORT gboolean snowflake_pool_take_run(SnowflakePool *self, guint most,
							 gint64 *out_first, guint *out_count,
							 GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Any thread. What is taken meanwhile may or may not count. */
SNOWFLAKE_CLIENT_EXPORT void snowflake_pool_get_statistics(SnowflakePool *self,
							   SnowflakePoolStatistics *out_statistics);

G_END_DECLS
