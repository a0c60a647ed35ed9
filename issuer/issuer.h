/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/clock.h"
#include "core/generator.h"
#include "options/options.h"
#include "worker/keeper.h"

/*
 * The parts that issue IDs in a process: a clock, a generator, and the keeper that claims a worker
 * ID and keeps a lease. Servers and embedded nodes use the same parts, so they claim, reserve and
 * keep time alike.
 */
typedef struct {
	const Options *options;
	char *nonce;                /* a UUID, of this issuer alone */
	gint64 worker_id;           /* requested; -1: none */
	gboolean worker_id_derived; /* from the machine: with ZooKeeper it is a preference */
	SystemClock clock;
	Generator *generator;
	Keeper *keeper; /* NULL before issuer_join() */
} Issuer;

/**
 * issuer_init:
 * @options: borrowed; only those of the worker ID, ZooKeeper and IDs are read
 *
 * Finds the worker ID to request, and makes the clock and the generator. Asks only this machine.
 * Call issuer_clear() also after %FALSE.
 *
 * Returns: %TRUE; %FALSE with an error of one line if the machine has no such worker ID, or the
 * layout has ended
 */
gboolean issuer_init(Issuer *self, const Options *options,
		     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The issuer's description for others. */
typedef struct {
	const char *address; /* host:port, where it accepts calls; NULL: nowhere, ... */
	const char *program; /* ... it is embedded in this program, and known as PROGRAM@HOST */
	const char *version; /* of this software */
} IssuerMember;

/**
 * issuer_join:
 * @member: copied
 * @changed: as KeeperConfig has it, with @user_data
 *
 * Makes the keeper, for keeper_start(). In a state directory a server whose worker ID is not given
 * claims 0, one that is embedded the lowest that is free.
 *
 * Returns: %TRUE; %FALSE with an error of one line if the address is not reachable for others, or
 * the file of --zookeeper-auth is not readable
 */
gboolean issuer_join(Issuer *self, const IssuerMember *member, void (*changed)(gpointer user_data),
		     gpointer user_data, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The keeper's thread must have ended, or never have been started. @self can be all 0. */
void issuer_clear(Issuer *self);
