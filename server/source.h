/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <stdatomic.h>

#include "core/generator.h"
#include "worker/keeper.h"

/*
 * Where a server has its IDs from: it issues them itself (issuer-source.h), or hands on what it has
 * from others (relay-source.h). An interface. Any thread calls it, unless a function says
 * otherwise.
 */
typedef struct _Source Source;

/* What one thread that draws has under way; of whoever is the source. */
typedef struct _SourceSeat SourceSeat;

/* Whose an ID is. */
typedef struct {
	gint datacenter_id;
	gint worker_id;
} SourceWorker;

typedef struct {
	const char *kind; /* what get_worker says it is */
	/* Before any thread draws: (nullable), the source's, for one that will. NULL: seats are all
	 * NULL. */
	SourceSeat *(*add_seat)(Source *self);
	/* As generator_draw(), but of an issue for several callers less than @count will do, @least
	 * at least: 1, or @count itself. Then it may be less, and need not. */
	DrawStatus (*draw)(Source *self, SourceSeat *seat, guint least, guint count, IdRun *out_run,
			   DrawRefusal *out_refusal);
	/* As keeper_demand(). */
	gint64 (*demand)(Source *self);
	/* (transfer full): after DRAW_UNRESERVED, why. */
	char *(*why_none)(Source *self);
	/* Returns (transfer full) (nullable): why the source does not serve, or why it cannot
	 * extend its reservation. The operation is optional: the pointer can be NULL. */
	char *(*waiting_why)(Source *self);
	/* Whose the IDs of the moment are. %FALSE: nobody's, yet. */
	gboolean (*find_worker)(Source *self, SourceWorker *out_worker);
	/* What is not known of a source that reserves nothing is 0. */
	void (*get_status)(Source *self, KeeperStatus *out_status);
	/* (transfer full) (nullable): the server that the IDs are from; NULL: this one, or there is
	 * none yet. */
	char *(*find_server)(Source *self);
	/* Appends SfWorker of all servers that are registered but the one of this nonce, which
	 * answers for itself. %FALSE: as keeper_get_workers(). */
	gboolean (*append_workers)(Source *self, const char *own_nonce, gboolean may_wait,
				   GPtrArray *out_workers, GError **error);
	/* The main thread. */
	void (*start)(Source *self);
	/* As keeper_stop(). */
	gboolean (*stop)(Source *self, gint64 timeout_ms);
	/* As keeper_error() and keeper_idle_ms(). */
	GError *(*error)(Source *self);
	gint64 (*idle_ms)(Source *self);
} SourceOps;

struct _Source {
	const SourceOps *ops;
	const Layout *layout; /* of the IDs */
	const Clock *clock;
	_Atomic guint max_batch; /* 1 or more */
	/* Single IDs are in hand or not, and batches come from elsewhere: so neither waits for the
	 * other, and where one single ID is not to be had, no smaller draw of some is. */
	gboolean batches_apart;
	gint64 retry_after_ms; /* what a call is told that has waited for IDs in vain; 1 or more */
};

/* The largest batch; of IDs that others issue it changes with what those allow. */
static inline guint source_max_batch(const Source *self)
{
	return atomic_load_explicit(&self->max_batch, memory_order_relaxed);
}
