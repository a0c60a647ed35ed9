/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/link.h"

/*
 * The servers that a pool may connect to: which they are, and which are to be left alone for a
 * while. For one thread; times come in.
 *
 * A change of one server costs the logarithm of their number at most, and so does a draw.
 */

/* Members are for reading. */
typedef struct {
	char *text;
	PoolLinkAddress address;
	gint64 rests_until_us; /* 0: it has not failed since it last served, or ever */
	guint failures;        /* in a row */
	gint64 excluded_until_us;
	/* The process that last answered here, and the greatest ID that it has sent. Its IDs
	 * increase, also on another connection, except across a change of its worker ID. */
	char *nonce; /* NULL: it has not said */
	gint datacenter_id, worker_id;
	gint64 last_id;         /* 0: none yet */
	gboolean has_gone_back; /* its last reply with IDs was not above that */
	gboolean is_linked;
	gboolean is_known;    /* in the last list */
	GSequenceIter *place; /* for servers.c; NULL: it is linked, or not known */
} PoolServer;

typedef struct _PoolServers PoolServers;

PoolServers *pool_servers_new(void);
void pool_servers_free(PoolServers *self);

/* @names: (element-type PoolName): servers that there are. If they @are_all, others are forgotten,
 * once they are neither linked nor excluded. */
void pool_servers_set(PoolServers *self, const GPtrArray *names, gboolean are_all, gint64 now_us);

guint pool_servers_count(const PoolServers *self);

/* Returns: (nullable): one to connect to: drawn at random from those that are neither linked nor
 * resting. */
PoolServer *pool_servers_draw(PoolServers *self, gint64 now_us);

/* Likewise, of those that are not linked and have not failed since they last served, or ever. */
PoolServer *pool_servers_draw_untried(PoolServers *self);
gboolean pool_servers_have_untried(const PoolServers *self);

/* When the first of those that are not linked has rested; POOL_NEVER_US: there is none. */
gint64 pool_servers_next_us(const PoolServers *self);

/* A connection to it begins, or has ended. */
void pool_servers_link(PoolServers *self, PoolServer *server);
void pool_servers_unlink(PoolServers *self, PoolServer *server);

/* It has answered: the next failure is the first in a row. */
void pool_servers_end_failures(PoolServers *self, PoolServer *server);

/* It cannot be used: it rests, @least_us at least, for longer each time in a row, and at random, so
 * that those who come back to it do not come all at once. */
void pool_servers_rest(PoolServers *self, PoolServer *server, gint64 now_us, gint64 least_us);

/* It breaks what it promises: it rests until then, and neither pool_servers_rouse() nor another
 * list ends that. */
void pool_servers_exclude(PoolServers *self, PoolServer *server, gint64 until_us);

/* Whether a server with this nonce was excluded, at this address or another one. Returns: until
 * when; 0: it is not, or no more */
gint64 pool_servers_excluded_until_us(const PoolServers *self, const char *nonce, gint64 now_us);

/* It has said who it is: if this is another process, or has another worker ID, its IDs may begin
 * anywhere. */
void pool_server_identify(PoolServer *self, const SnowflakeClientWorker *worker);

/* The process at its address lacks get_worker(), so that it may be another one each time. */
void pool_server_forget_identity(PoolServer *self);

/* Ends the rest of one of those that are not linked, drawn at random, unless it is excluded.
 * Returns: %FALSE if none of them rests */
gboolean pool_servers_rouse(PoolServers *self, gint64 now_us);

/* A number from 0 to @below - 1, at random. */
guint pool_servers_random(PoolServers *self, guint below);
