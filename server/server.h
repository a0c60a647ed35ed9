/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-log.h"
#include "issuer/issuer.h"
#include "options/options.h"
#include "rpc/counters.h"
#include "rpc/server.h"
#include "server/admin.h"
#include "server/agent-counters.h"
#include "server/issuer-source.h"
#include "server/relay-source.h"
#include "server/service.h"
#include "server/watchdog.h"

/* Sockets that already listen when the process starts. They were opened, and are kept open, by
 * systemd or by another program that started the process. While no server runs, clients can connect
 * there, and wait for the next server. See sd_listen_fds(3). */
typedef struct {
	GArray *thrift; /* (element-type int): descriptors for calls; TCP or local */
	GArray *admin;  /* (element-type int): descriptors named "admin"; TCP */
} PassedSockets;

/* A server, which consists of the parts below. main.c runs it.
 *
 * A server stops in these steps:
 *
 * 1. After a signal, the server reports that it is draining, and continues to serve for
 *    --drain-delay. Then the main loop ends. A second signal ends the process at once.
 * 2. The RPC server accepts only the clients that have already connected, answers all calls that
 *    have arrived, and closes every connection, within --stop-timeout and a moment for the last
 *    replies. From then on, no IDs are drawn.
 * 3. The keeper releases the worker ID, within the rest of --stop-timeout or one second. At the
 *    same time, the rest of the audit log is written.
 * 4. server_clear() frees the rest.
 *
 * If an event loop or the keeper fails, the main loop also ends. In this case, there is no delay,
 * and the drain begins with step 2.
 *
 * A reload reopens the files of the audit log, and rereads the config file; the command line still
 * takes precedence. Options that options-table.c marks as reread take effect: numbers, choices and
 * --allow. Other options that differ are logged at each reload. A config file with an error changes
 * nothing. The certificate and its key are reread as a pair; a pair with an error changes nothing.
 *
 * Only the main thread may use it.
 */
typedef struct {
	/* used only by the main thread once other threads run; see server_reload() */
	Options *options;
	gint64 started_us; /* monotonic */
	char *address;     /* the address at which clients reach this server */
	/* the source of IDs is one of these two members */
	Issuer issuer;
	IssuerSource issuer_source;
	RelaySource *relay; /* NULL if the server issues IDs */
	Source *source;     /* the source that belongs to one of them; NULL if not created yet */
	char nonce[UUID_TEXT_SIZE];
	UuidGenerator ulids; /* created together with the source */
	CounterSet *counters;
	AgentCounters *agents;
	AuditLog *audit;
	ServiceConfig service;
	PassedSockets sockets;
	RpcServer *rpc;
	/* since the Unix epoch; G_MAXINT64 if there is no certificate */
	_Atomic gint64 certificate_expires_ms;
	/* certificate_expires_ms as text; undefined without a certificate */
	char *certificate_expires;
	Health health;
	Watchdog watchdog;
	Admin *admin; /* NULL if there is no admin port */
	GMainLoop *loop;
	/* an eventfd, written when the state of the source or of an event loop has changed */
	int event_fd;
	gboolean ready;
} Server;

/* Initialises a server. @options: borrowed. Call server_clear() even after %FALSE. */
gboolean server_init(Server *self, Options *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Starts all threads. Signals must be blocked, because the threads inherit the mask. After %FALSE,
 * server_clear() ends the threads that were started. */
gboolean server_start(Server *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Reloads the configuration, see above. @sender: process ID for the log */
void server_reload(Server *self, guint sender);

/* Step 1 of the stop: the server reports that it is draining. The stop takes at most @within_ms
 * plus some seconds. */
void server_drain(Server *self, gint64 within_ms);

/* Runs steps 2 and 3, after the main loop has ended. If the keeper hangs, this function ends the
 * process. */
void server_stop(Server *self);

/* Step 4: frees everything, and ends the other threads. The keeper's thread must have ended, or
 * must never have been started. */
void server_clear(Server *self);
