/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "client/pool/upstream.h"
#include "options/options.h"
#include "server/source.h"

/* A source that hands out the IDs of other servers: it holds no worker ID and reserves nothing.
 *
 * Single IDs are taken from the pool's prefetch buffer. Batches are requested from a server,
 * because the IDs in a reply must come from one server, and the buffer can contain IDs from several
 * servers. If the buffer is empty, or a batch request is in progress, the call waits, as it would
 * for a lease.
 */
typedef struct _RelaySource RelaySource;

/* Functions that the pool's thread calls, from the call to start() onwards. */
typedef struct {
	void (*came)(gpointer user_data);    /* IDs for waiting calls may have arrived */
	void (*changed)(gpointer user_data); /* the pool's state or server has changed */
	gpointer user_data;
} RelayListener;

/* Begins to connect.
 * @options: borrowed; relay must be set
 * @nonce: this relay's nonce; the pool does not use a server that reports it
 * @listener: copied
 * Returns: (transfer full): the source, or %NULL with a one-line error set */
RelaySource *relay_source_new(const Options *options, const char *nonce,
			      const RelayListener *listener, GError **error);

/* Frees the source. No thread may still draw from it. */
void relay_source_free(RelaySource *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RelaySource, relay_source_free)

Source *relay_source_get(RelaySource *self);

/* Returns: (nullable): the pool of a relay, for its view and its statistics; NULL if @source is not
 * a relay. Borrowed. */
PoolUpstream *relay_source_pool(Source *source);

/* Joins runs. @runs: (element-type SnowflakeClientIdRun): one or more, from one draw of a server
 * @out_run: (out): all of their IDs as a single run; untouched on failure. Returns: %FALSE if they
 * are not a run of one worker with @layout, because the server uses a different layout */
gboolean relay_source_join_runs(const Layout *layout, const GArray *runs,
				IdRun *out_run) G_GNUC_WARN_UNUSED_RESULT;
