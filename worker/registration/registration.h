/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/address.h"
#include "common/tls/client.h"
#include "core/clock.h"
#include "core/layout.h"
#include "worker/registry.h"
#include "worker/store.h"

/*
 * A registry in a store that the servers of a datacenter share. Each server has a claim, a mortal
 * record that shows that it lives. Each worker ID has a record, which is written in transactions
 * that fail if it has another version than was read. The records make IDs unique; the claims show
 * which worker IDs are in use. docs/internals/registration.md has the states.
 *
 * A claim ends with WAIT while no worker ID is free. The first one ends with FATAL if this server
 * must not join (another layout, a clock that is off, peers that contradict it, a floor that is
 * gone) or cannot (the store refuses it, or is not connected in time); a later one fails for none
 * of that. An extension ends with FAILED while there is no connection.
 */

typedef struct {
	const char *servers; /* of the store, for messages */
	const char *root;    /* above the keys of all records */
	const Layout *layout;
	const SystemClock *clock; /* borrowed: compared with the store's before the first claim */
	guint datacenter_id;
	gint64 worker_id;           /* the only one that it claims; -1: any */
	gint64 preferred_worker_id; /* the one that it prefers; -1: none */
	const char *nonce;          /* a uuid, fresh for each start of the process */
	const Address *address;     /* where others reach this server; NULL: nowhere, ... */
	const char *program;        /* ... it is embedded in this program, ... */
	const char *host;           /* ... on the machine of this name */
	const char *version;        /* of the program */
	gint64 connect_timeout_ms;  /* without a connection for as long, the first claim is FATAL */
	gint64 max_length_ms;       /* of a reservation */
	gint64 max_clock_skew_ms;
	gboolean skip_sanity_checks;
	TlsNames tls; /* for calls to peers that speak TLS */
} RegistrationConfig;

/**
 * registration_new:
 * @store: (transfer full)
 * @config: copied, but for the clock
 *
 * Connects to nothing before the first claim. free() ends the session, and the claim with it, and
 * waits for this for 2 s at most.
 *
 * Returns: (transfer full): reservations in @store
 */
Registry *registration_new(Store *store, const RegistrationConfig *config);
