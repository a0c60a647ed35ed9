/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/config.h"
#include "client/pool/names.h"
#include "client/pool/servers.h"

/*
 * How a pool finds servers: those that it was told, those that one of them lists, and what the
 * names of both stand for. For one thread; times come in.
 */

/* Members are for reading. */
typedef struct {
	const PoolConfig *config;
	PoolServers *servers;
	int fd;
	PoolNames *names;    /* being looked up; NULL: none */
	gboolean is_listing; /* a server is asked who there is */
	GPtrArray *found;    /* Address: by get_workers; NULL: not yet */
	gint64 asked_us;     /* when it was time to ask last */
	gint64 renews_us;    /* when it is again, as long as a server is well */
} PoolFinder;

/* Begins to look names up. @servers: (transfer none): where it puts those that it finds. @fd:
 * eventfd of the thread, for its names.
 */
void pool_finder_init(PoolFinder *self, const PoolConfig *config, PoolServers *servers, int fd,
		      gint64 now_us);
void pool_finder_clear(PoolFinder *self);

/* Whether all that it asks has said something at some time. */
gboolean pool_finder_has_found(const PoolFinder *self);

/* When to ask again who there is. @is_well: a server serves and answers; while none does, names may
 * stand for others by now.
 */
gint64 pool_finder_next_us(const PoolFinder *self, gboolean is_well);

/* A server can be asked now: so it is, unless one has listed all before. */
void pool_finder_hurry(PoolFinder *self, gint64 now_us);

/* It is time to ask: not now; a server was asked; or of the resolver what it can say. */
void pool_finder_put_off(PoolFinder *self, gint64 now_us);
void pool_finder_await_workers(PoolFinder *self, gint64 now_us);
void pool_finder_look_up(PoolFinder *self, gint64 now_us);

/* What a server has listed, if it is waited for. @workers: (nullable): it could not say */
void pool_finder_take_workers(PoolFinder *self, const GPtrArray *workers);

/* What the resolver has found meanwhile, if it has. @out_failure: left alone unless there is one.
 */
void pool_finder_take_names(PoolFinder *self, gint64 now_us, GError **out_failure);
