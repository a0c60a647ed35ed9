/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "core/clock.h"
#include "core/generator.h"
#include "options/options.h"
#include "worker/keeper.h"

/*
 * What issues IDs in a process, as its options ask: a clock, a generator, and the keeper that gets
 * a worker ID for them and keeps it. A server is made of it, and so is a program that issues IDs by
 * itself: they claim, reserve and keep time alike.
 */
typedef struct {
	const Options *options;
	char *nonce;                /* a uuid, of this issuer alone */
	gint64 worker_id;           /* asked for; -1: none */
	gboolean worker_id_derived; /* from the machine: with ZooKeeper it is a preference */
	SystemClock clock;
	Generator *generator;
	Keeper *keeper; /* NULL before issuer_join() */
} Issuer;

/**
 * issuer_init:
 * @options: borrowed; only those of the worker ID, ZooKeeper and IDs are read
 *
 * Finds the worker ID that is to be asked for, and makes clock and generator. Asks nobody but this
 * machine. After %FALSE too, issuer_clear() frees what there is.
 *
 * Returns: %TRUE; %FALSE with an error of one line if the machine has no such worker ID, or the
 * layout has ended
 */
gboolean issuer_init(Issuer *self, const Options *options,
		     GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* How others know it. */
typedef struct {
	const char *address; /* host:port, where it takes calls; NULL: nowhere, ... */
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
 * Returns: %TRUE; %FALSE with an error of one line if nobody could reach that address, or what
 * --zookeeper-auth names cannot be read
 */
gboolean issuer_join(Issuer *self, const IssuerMember *member, void (*changed)(gpointer user_data),
		     gpointer user_data, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The keeper's thread must have ended, or never have been started. May be called of one that is all
 * 0. */
void issuer_clear(Issuer *self);
