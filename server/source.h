/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

#include "core/generator.h"
#include "worker/keeper.h"

/*
 * The interface from which a server draws its IDs: an issuer (issuer-source.h) or a relay
 * (relay-source.h). Any thread may call it, unless a function says otherwise.
 */
typedef struct _Source Source;

/* The place in which a thread that draws waits for its batch request; defined by the source. */
typedef struct _BatchSlot BatchSlot;

/* The worker ID of an ID. */
typedef struct {
	gint datacenter_id;
	gint worker_id;
} SourceWorker;

typedef struct {
	const char *kind; /* for get_worker */
	/* Before any thread draws: returns the slot of one; the source's. The operation is
	 * optional: without it slots are NULL. */
	BatchSlot *(*add_batch_slot)(Source *self);
	/* As generator_draw(), but fewer than @count IDs may be drawn, @least or more: @least is 1,
	 * or @count itself. */
	DrawStatus (*draw)(Source *self, BatchSlot *slot, guint least, guint count, IdRun *out_run,
			   DrawRefusal *out_refusal);
	/* As keeper_demand(). */
	gint64 (*demand)(Source *self);
	/* (transfer full): after DRAW_UNRESERVED, why. */
	char *(*why_none)(Source *self);
	/* Returns (transfer full) (nullable): why the source does not serve, or why it cannot
	 * extend its reservation. The operation is optional: the pointer can be NULL. */
	char *(*waiting_why)(Source *self);
	/* The worker that issues the IDs now. %FALSE: none yet. */
	gboolean (*find_worker)(Source *self, SourceWorker *out_worker);
	/* Fields that a source without reservations does not know are 0. */
	void (*get_status)(Source *self, KeeperStatus *out_status);
	/* (transfer full) (nullable): the server that the IDs are from; NULL: there is none yet.
	 * The operation is optional: without it this server is the one. */
	char *(*find_server)(Source *self);
	/* @out_workers: (out) (transfer full): of SnowflakeClientWorker, copies: all servers that
	 * are registered, maybe this one too. %FALSE: as keeper_get_workers(). */
	gboolean (*get_workers)(Source *self, gboolean may_wait, GPtrArray **out_workers,
				GError **error);
	/* The main thread. */
	void (*start)(Source *self);
	/* As keeper_stop(). */
	gboolean (*stop)(Source *self, gint64 timeout_ms);
	/* As keeper_error() and keeper_round_age_ms(). The operations are optional: without them
	 * the source does not fail, or hang. */
	GError *(*error)(Source *self);
	gint64 (*idle_ms)(Source *self);
} SourceOps;

struct _Source {
	const SourceOps *ops;
	const Layout *layout; /* of the IDs */
	const Clock *clock;
	_Atomic guint max_batch; /* 1 or more */
	/* Single IDs are prefetched and batches are requested, so neither waits for the other. If
	 * a draw of single IDs fails, a smaller one fails too. */
	gboolean batches_apart;
	gint64 retry_after_ms; /* for calls that waited for IDs in vain; 1 or more */
};

/* The largest batch. That of a relay changes with its servers. */
static inline guint source_max_batch(const Source *self)
{
	return atomic_load_explicit(&self->max_batch, memory_order_relaxed);
}

/* (transfer full) (nullable): why the source has failed for good; NULL: it has not. */
static inline GError *source_error(Source *self)
{
	return self->ops->error != NULL ? self->ops->error(self) : NULL;
}
