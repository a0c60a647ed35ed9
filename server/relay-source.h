/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/pool/upstream.h"
#include "options/options.h"
#include "server/source.h"

/*
 * A source that hands out the IDs of other servers: it holds no worker ID and reserves nothing.
 *
 * Single IDs are taken from the pool's prefetch buffer. A batch is requested from a server, since
 * the IDs of one reply must come from one server, and the buffer can have IDs of several. If the
 * buffer is empty, or a batch request is under way, the call waits as it does for a lease.
 */
typedef struct _RelaySource RelaySource;

/* Called in the pool's thread, from start() on. */
typedef struct {
	void (*came)(gpointer user_data);    /* IDs that calls wait for can be there */
	void (*changed)(gpointer user_data); /* its state or its server has changed */
	gpointer user_data;
} RelayListener;

/* Begins to connect.
 * @options: with a relay; borrowed
 * @nonce: this relay's nonce; the pool does not connect to a server that reports it
 * @listener: copied
 * Returns: (transfer full): it, or %NULL with an error of one line */
RelaySource *relay_source_new(const Options *options, const char *nonce,
			      const RelayListener *listener, GError **error);

/* No thread may draw from it any more. */
void relay_source_free(RelaySource *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RelaySource, relay_source_free)

Source *relay_source_get(RelaySource *self);

/* (nullable): the relay that @source is; NULL: it is no relay. */
RelaySource *relay_source_of(Source *source);

/* Borrowed, for its view and its statistics. */
PoolUpstream *relay_source_pool(const RelaySource *self);

/* @runs: (element-type SnowflakeClientIdRun): one or more, from one draw of a server
 * @out_run: (out): all of their IDs as one run of a cursor; untouched on failure
 * Returns: %FALSE if they are no run of one worker with @layout: then the server has another layout
 */
gboolean relay_source_join_runs(const Layout *layout, const GArray *runs,
				IdRun *out_run) G_GNUC_WARN_UNUSED_RESULT;
