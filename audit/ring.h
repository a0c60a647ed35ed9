/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/layout.h"

/*
 * A bounded queue of draws from one thread to another, without a lock: each side moves only its own
 * position, and reads the other side's position only if it must.
 *
 * A draw that does not fit is dropped, and its IDs are counted. Each draw carries the count of
 * dropped IDs, so the taking thread knows how many IDs are missing directly before the draw.
 */
typedef struct _AuditRing AuditRing;

#define AUDIT_AGENT_MAX_BYTES 256

/* A draw that was taken. */
typedef struct {
	guint64 missing; /* IDs that were dropped between the draw before and this one */
	IdRun run;       /* count 0: no IDs, only missing ones */
	guint64 tags;    /* number from which the tags of its entries are made, see entry.h */
	guint agent_length;
	char agent[AUDIT_AGENT_MAX_BYTES]; /* not terminated */
} AuditDraw;

/* @bytes: the queue's size, rounded down to a power of two; 1 KiB or more. They become
 * memory as they are used. */
AuditRing *audit_ring_new(gsize bytes);
void audit_ring_free(AuditRing *self);

/* The thread that puts. @length: of @agent, at most AUDIT_AGENT_MAX_BYTES. Never waits. */
void audit_ring_put(AuditRing *self, const IdRun *run, guint64 tags, const char *agent,
		    gsize length);

/* The thread that takes. %FALSE: there is nothing, and @out_draw is untouched. */
gboolean audit_ring_take(AuditRing *self, AuditDraw *out_draw);

/* Any thread: how many IDs were put, and how many dropped, since the start. */
guint64 audit_ring_put_ids(const AuditRing *self);
guint64 audit_ring_dropped_ids(const AuditRing *self);
