/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

#include "core/generator.h"
#include "worker/keeper.h"

/* The interface from which a server draws its IDs: an issuer (issuer-source.h) or a relay
 * (relay-source.h). Any thread can call the functions, unless their comment says otherwise. */
typedef struct _Source Source;

/* The slot in which a thread waits for its batch request. Each source defines its own type. */
typedef struct _BatchSlot BatchSlot;

/* The worker that issues IDs. */
typedef struct {
	gint datacenter_id;
	gint worker_id;
} SourceWorker;

typedef struct {
	const char *kind; /* kind of worker, for get_worker */
	/* Returns a batch slot for one thread, owned by the source. Call it before any thread
	 * draws. Optional: without it, slots are NULL. */
	BatchSlot *(*add_batch_slot)(Source *self);
	/* Draws like generator_draw(), but can draw fewer than @count IDs.
	 * @least: the minimum number of IDs, 1 or @count */
	DrawStatus (*draw)(Source *self, BatchSlot *slot, guint least, guint count, IdRun *out_run,
			   DrawRefusal *out_refusal);
	/* See keeper_demand(). */
	gint64 (*demand)(Source *self);
	/* Returns: (transfer full): the reason for DRAW_UNRESERVED. */
	char *(*why_none)(Source *self);
	/* Returns: (transfer full) (nullable): why the source does not serve, or why it cannot
	 * extend its reservation. */
	char *(*waiting_why)(Source *self);
	/* Finds the worker that currently issues the IDs. Returns %FALSE if there is none yet. */
	gboolean (*find_worker)(Source *self, SourceWorker *out_worker);
	/* Gets the status. A source without reservations sets their members to 0. */
	void (*get_status)(Source *self, KeeperStatus *out_status);
	/* Optional: if it is NULL, this server issues the IDs. Returns: (transfer full) (nullable):
	 * the server that issues the IDs; NULL if there is none yet. */
	char *(*find_server)(Source *self);
	/* Lists all registered servers, which can include this one. @out_workers: (out) (transfer
	 * full) (element-type SnowflakeClientWorker): copies. Returns %FALSE like
	 * keeper_get_workers(). */
	gboolean (*get_workers)(Source *self, gboolean may_wait, GPtrArray **out_workers,
				GError **error);
	/* Starts the source. Must be called by the main thread. */
	void (*start)(Source *self);
	/* See keeper_stop(). */
	gboolean (*stop)(Source *self, gint64 timeout_ms);
	/* See keeper_error() and keeper_round_age_ms(). Optional: if they are NULL, the source
	 * cannot fail or hang. */
	GError *(*error)(Source *self);
	gint64 (*idle_ms)(Source *self);
} SourceOps;

struct _Source {
	const SourceOps *ops;
	const Layout *layout; /* layout of the IDs */
	const Clock *clock;
	_Atomic guint max_batch; /* 1 or more */
	/* Single IDs are prefetched and batches are requested, so they do not wait for each other.
	 * If a draw of single IDs fails, a smaller draw fails too. */
	gboolean batches_apart;
	/* retry_after_ms for calls that waited without getting IDs; 1 or more */
	gint64 retry_after_ms;
};

/* Returns the largest batch. For a relay, it depends on the current servers. */
static inline guint source_max_batch(const Source *self)
{
	return atomic_load_explicit(&self->max_batch, memory_order_relaxed);
}

/* Returns: (transfer full) (nullable): the error with which the source has failed permanently;
 *   NULL if it has not failed. */
static inline GError *source_error(Source *self)
{
	return self->ops->error != NULL ? self->ops->error(self) : NULL;
}
