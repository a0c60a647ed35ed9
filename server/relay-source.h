/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/pool/upstream.h"
#include "options/options.h"
#include "server/source.h"

/*
 * A source that hands on the IDs of a fleet: it holds no worker ID, and reserves nothing.
 *
 * Single IDs are taken from what the pool has in hand. A batch is asked of a server as it is, since
 * the IDs of one reply are to come from one server, and what is in hand may be of several. Where
 * there is nothing in hand, or a batch is under way, the call waits as it does for a lease.
 */
typedef struct _RelaySource RelaySource;

/* Who is told, in the pool's thread, from start() on. */
typedef struct {
	void (*came)(gpointer user_data);    /* what calls wait for may be there */
	void (*changed)(gpointer user_data); /* its state, or its server, is another one */
	gpointer user_data;
} RelayListener;

/**
 * relay_source_new:
 * @options: with a relay; borrowed
 * @nonce: this relay's nonce; the pool does not connect to a server that reports it
 * @listener: copied
 *
 * Begins to connect.
 *
 * Returns: (transfer full): it, or %NULL with an error of one line
 */
RelaySource *relay_source_new(const Options *options, const char *nonce,
			      const RelayListener *listener, GError **error);

/* No thread draws from it any more. */
void relay_source_free(RelaySource *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RelaySource, relay_source_free)

Source *relay_source_get(RelaySource *self);

/* (nullable): the relay that @source is; NULL: it is no relay. */
RelaySource *relay_source_of(Source *source);

/* Any thread: as pool_upstream_get_view() and pool_upstream_get_statistics(). */
void relay_source_get_view(RelaySource *self, PoolView *out_view);
void relay_source_get_statistics(RelaySource *self, SnowflakePoolStatistics *out_statistics);
