/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/clock.h"
#include "core/generator.h"
#include "options/options.h"
#include "worker/keeper.h"

/* The parts that issue IDs in a process: a clock, a generator, and the keeper that claims a worker
 * ID and keeps a lease. Servers and embedded nodes use the same parts, so the same rules apply to
 * their claims, reservations and clocks. */
typedef struct {
	const Options *options;
	char *nonce;      /* a UUID that no other issuer has */
	gint64 worker_id; /* the requested worker ID; -1 if none */
	/* derived from the machine, so with ZooKeeper it is only a preference */
	gboolean worker_id_derived;
	SystemClock clock;
	Generator *generator;
	Keeper *keeper; /* NULL before issuer_join() */
} Issuer;

/**
 * issuer_init:
 * @options: borrowed; only the options for the worker ID, ZooKeeper and IDs are read
 *
 * Determines the worker ID to request, and creates the clock and the generator. Does not contact
 * other machines. Call issuer_clear() even after %FALSE.
 *
 * Returns: %TRUE; %FALSE with a one-line error set if no worker ID can be derived from the machine,
 * or if the layout has ended
 */
gboolean issuer_init(Issuer *self, const Options *options,
		     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* How the issuer is described to others. */
typedef struct {
	const char *address; /* host:port where it accepts calls; NULL for an embedded node */
	const char *program; /* for an embedded node: name of its program; listed as PROGRAM@HOST */
	const char *version; /* version of this software */
} IssuerMember;

/**
 * issuer_join:
 * @member: copied
 * @changed: called with @user_data, see KeeperConfig
 *
 * Creates the keeper, for keeper_start(). If no worker ID is given and a state directory is used, a
 * server claims worker ID 0, and an embedded node the lowest free one.
 *
 * Returns: %TRUE; %FALSE with a one-line error set if others cannot reach the address, or
 * if the --zookeeper-auth file is not readable
 */
gboolean issuer_join(Issuer *self, const IssuerMember *member, void (*changed)(gpointer user_data),
		     gpointer user_data, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Frees the parts. The keeper's thread must have ended, or must never have been started. @self can
 * be zeroed memory. */
void issuer_clear(Issuer *self);
