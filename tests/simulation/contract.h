/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "worker/store.h"
#include "worker/zookeeper/session.h"

/*
 * What the contract tests of worker/store.h and worker/zookeeper/session.h need besides those
 * headers. contract.c and contract-store.c contain the cases; contract-real.c runs them against a
 * real ZooKeeper, and contract-simulated.c against the simulated one, so the simulation cannot
 * drift from the real thing.
 *
 * Waiting ends with the event. A wait that lasts CONTRACT_HANG_S ends the process: no case judges
 * how long something takes.
 */
#define CONTRACT_HANG_S 120

/* A session that outlives each stall of a slow machine, and one that expires soon. */
#define CONTRACT_LONG_MS  60000
#define CONTRACT_SHORT_MS 1000

/* A session whose connection can be broken. */
typedef struct _ContractClient ContractClient;

/* Opens a session. @auth: (nullable) */
ContractClient *contract_client_new(const char *auth, gint64 timeout_ms);
/* Opens a session inside a store. The functions below work for both. */
ContractClient *contract_client_new_store(const char *auth, gint64 timeout_ms);
/* Closes the session if it is open. */
void contract_client_free(ContractClient *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ContractClient, contract_client_free)

ZookeeperSession *contract_client_session(ContractClient *self);
Store *contract_client_store(ContractClient *self);
/* Closes the session. */
void contract_client_close(ContractClient *self);

/* Returns: (transfer full): waits for the next message. */
ZookeeperMessage *contract_client_next(ContractClient *self);
StoreMessage *contract_client_next_of_store(ContractClient *self);

/* From now on, no reply to a new request arrives before the connection breaks, provided that the
 * case waits for nothing until then. */
void contract_client_hold_replies(ContractClient *self);
/* Breaks the connection, and refuses others until contract_client_allow_connections(). */
void contract_client_cut(ContractClient *self);
void contract_client_allow_connections(ContractClient *self);

/* CLOCK_BOOTTIME of the client's machine, and the clock of ZooKeeper's leader. */
gint64 contract_client_boottime_ns(ContractClient *self);
gint64 contract_leader_ms(void);

/* Runs a case, in as many worlds as are useful. Its root does not exist at the start. */
void contract_run(void (*run)(const char *root));
