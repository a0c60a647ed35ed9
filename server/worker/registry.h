/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Where reservations are written: which worker ID is mine, and up to which tick.
 *
 * An interface, which registry-file.c implements; the rules below leave room for a service that
 * several machines share. One thread calls it, the keeper; calls block, and never overlap. The
 * rules that hold for each implementation:
 *
 * 1. A record holds the last reserved tick and the owner's nonce, fresh for each process start.
 * 2. Every write is conditional on the version that was read, and the new end is computed from that
 *    same reading. The end only grows; only the hand-back of a retired lease lowers it.
 * 3. A write counts when it is confirmed. After any doubt: read again, and what is read is held.
 * 4. Records are never deleted. One that does not parse is an error, not zero.
 */

#define REGISTRY_ERROR (registry_error_quark())
GQuark registry_error_quark(void);

typedef enum {
	/* It did not work and may work later: not reachable, disk full. What to make of it is for
	 * the keeper: it tries again, but not before its first lease, when whoever started the
	 * server is there to be told. */
	REGISTRY_ERROR_FAILED,
	/* claim only: the worker ID is reserved past what a lease may begin at; the message names
	 * until when, and the remedy. */
	REGISTRY_ERROR_WAIT,
	/* extend only: the record is another owner's now. */
	REGISTRY_ERROR_LOST,
	/* Stays so until an operator acts: held by a live server, another layout, another machine,
	 * a wrong owner, a record that does not parse. */
	REGISTRY_ERROR_FATAL,
} RegistryError;

/* What a claim gained. */
typedef struct {
	guint datacenter_id;
	guint worker_id;
	gint64 first_tick; /* the tick after the end that stood in the record before */
	gint64 end_tick;   /* the last tick reserved */
} Reservation;

typedef struct _Registry Registry;

typedef struct {
	/**
	 * claim:
	 * @now_tick: the tick now, which the layout has: 0 to layout_max_tick()
	 * @length_ticks: the new end is @now_tick + @length_ticks
	 * @out_wait_until_tick: (out): set with WAIT only: when to try again
	 */
	gboolean (*claim)(Registry *self, gint64 now_tick, gint64 length_ticks,
			  Reservation *out_reservation, gint64 *out_wait_until_tick,
			  GError **error);
	/**
	 * extend:
	 * @end_tick: the end to reserve up to
	 * @out_end_tick: (out): what is confirmed to be reserved now, @end_tick or more
	 */
	gboolean (*extend)(Registry *self, gint64 end_tick, gint64 *out_end_tick, GError **error);
	/**
	 * hand_back:
	 * @last_tick: the tick of the last ID issued, or the one before the first reserved. The
	 * lease is retired, and stays so whatever this returns
	 */
	gboolean (*hand_back)(Registry *self, gint64 last_tick, GError **error);
	void (*free)(Registry *self);
} RegistryOps;

struct _Registry {
	const RegistryOps *ops;
	/* How long reservations are, in ms: the first one, and the longest; each extension may
	 * double it. */
	gint64 first_length_ms;
	gint64 max_length_ms;
	/* Whether to extend while no IDs are asked for. */
	gboolean extend_when_idle;
};
