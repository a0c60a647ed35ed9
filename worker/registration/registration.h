/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/address.h"
#include "common/tls/client.h"
#include "core/clock.h"
#include "core/layout.h"
#include "worker/registry.h"
#include "worker/store.h"

/* A registry in a store that the servers of a datacenter share. Each server has a claim record,
 * which is ephemeral and shows that the server is alive. Each worker ID has a reservation record,
 * written in transactions that fail if its version has changed since it was read. The
 * reservation records make IDs unique; the claim records show which worker IDs are in use. See
 * docs/internals/registration.md for the states.
 *
 * A claim ends with WAIT while no worker ID is free. Until the first claim has succeeded, a claim
 * ends with FATAL if this server must not join. Possible reasons are: no registry or a different
 * one, a different layout, a wrong clock, peers that contradict the server, a missing floor. It
 * also ends with FATAL if the store refuses the server, or if it is not connected in time. Later
 * claims log these errors and retry. An extension ends with FAILED while there is no connection. */

typedef struct {
	const char *servers; /* the store's servers, for use in messages */
	const char *root;    /* prefix of the keys of all records */
	const Layout *layout;
	/* borrowed: must match the store's layout; compared before the first claim */
	const SystemClock *clock;
	guint datacenter_id;
	gint64 worker_id;           /* the only worker ID to claim; -1 for any */
	gint64 preferred_worker_id; /* the preferred worker ID; -1 if none */
	const char *nonce;          /* a new UUID for each start of the process */
	/* address at which others reach this server; NULL for an embedded node */
	const Address *address;
	const char *program; /* for an embedded node: name of its program */
	const char *host;    /* for an embedded node: name of its machine */
	const char *version; /* version of the software */
	/* until a claim has succeeded, claims end with FATAL after this time without a
	 * connection */
	gint64 connect_timeout_ms;
	gint64 max_length_ms; /* maximum length of a reservation */
	gint64 max_clock_skew_ms;
	const char *registry_id;  /* ID that the registry must have; NULL for any */
	gboolean create_registry; /* create a missing registry; otherwise it is an error */
	gboolean skip_sanity_checks;
	TlsNames tls; /* for calls to peers that use TLS */
} RegistrationConfig;

/* Does not connect before the first claim. free() ends the session, which deletes the claim record;
 * it waits at most 2 s for that.
 * @store: (transfer full)
 * @config: copied, except the clock
 * Returns: (transfer full): a registry that stores reservations in @store */
Registry *registration_new(Store *store, const RegistrationConfig *config);
