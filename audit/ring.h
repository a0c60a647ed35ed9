/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/layout.h"

/* A bounded lock-free queue of draws from one thread to another. Each side moves only its own
 * position, and reads the other side's position only if necessary.
 *
 * A draw that does not fit is dropped, and its IDs are counted. Each draw contains the count of
 * dropped IDs, so the reader knows how many IDs are missing directly before the draw. */
typedef struct _AuditRing AuditRing;

#define AUDIT_AGENT_MAX_BYTES 256

/* A draw that was taken from a ring. */
typedef struct {
	guint64 missing; /* IDs that were dropped between the previous draw and this one */
	IdRun run;       /* if count is 0, there are only missing IDs */
	guint64 tags;    /* number from which the tags of its entries are computed, see entry.h */
	guint agent_length;
	char agent[AUDIT_AGENT_MAX_BYTES]; /* without a final NUL */
} AuditDraw;

/* @bytes: the queue's size, rounded down to a power of two; 1 KiB or more. Memory is allocated as
 * the queue fills. */
AuditRing *audit_ring_new(gsize bytes);
void audit_ring_free(AuditRing *self);

/* Puts a draw into the ring, without waiting. Only one thread can call this. @length: length of
 * @agent, at most AUDIT_AGENT_MAX_BYTES */
void audit_ring_put(AuditRing *self, const IdRun *run, guint64 tags, const char *agent,
		    gsize length);

/* Takes the next draw. Only one thread can call this. Returns %FALSE, and leaves @out_draw
 * untouched, if the ring is empty. */
gboolean audit_ring_take(AuditRing *self, AuditDraw *out_draw);

/* Thread-safe. Return how many IDs were put since the start, and how many were dropped. */
guint64 audit_ring_put_ids(const AuditRing *self);
guint64 audit_ring_dropped_ids(const AuditRing *self);
