/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "core/layout.h"

/*
 * A bounded queue of draws between one thread that puts and one that takes, without a lock: each
 * side has a position that only it moves, and looks at the other's when it has to.
 *
 * What does not fit is dropped, and its IDs are counted. Each draw carries the count as it was when
 * it was put, so that whoever takes it knows how many IDs are missing right before it.
 */
typedef struct _AuditRing AuditRing;

#define AUDIT_AGENT_MAX_BYTES 256

/* A draw that was taken. */
typedef struct {
	guint64 missing; /* so many IDs were dropped between the draw before and this one */
	IdRun run;       /* count 0: none, only those that are missing */
	guint64 tags;    /* number from which the tags of its entries are made, see lines.h */
	guint agent_length;
	char agent[AUDIT_AGENT_MAX_BYTES]; /* no NUL behind it */
} AuditDraw;

/* @bytes: what the queue may take, rounded down to a power of two; 1 KiB or more. They become
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
