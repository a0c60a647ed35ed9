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

/*
 * Sockets that listen already when the process starts: systemd, or another program that started it,
 * has opened them and keeps them. While no server runs, the kernel lets clients connect there, and
 * they wait for the next server. See sd_listen_fds(3).
 */
typedef struct {
	GArray *thrift; /* of int, descriptors: for calls; TCP or local */
	GArray *admin;  /* likewise: those named "admin"; TCP */
} PassedSockets;

/*
 * A server, made of its parts. main.c runs it.
 *
 * A stop takes the server apart in this order:
 *
 * 1. A signal: the server reports that it is draining, and serves as before for --drain-delay. Then
 *    the main loop ends. A second signal ends the process at once.
 * 2. The RPC server accepts the clients that have connected already and no others, answers all
 *    calls that have arrived, and closes every connection, within --stop-timeout and a moment for
 *    the last replies. From then on no IDs are drawn.
 * 3. The keeper releases the worker ID, in the rest of --stop-timeout or one second. Meanwhile the
 *    audit log is written to its end.
 * 4. server_clear() frees the rest.
 *
 * An event loop or a keeper that has failed ends the main loop too. Then there is no delay, and the
 * server is draining from step 2 on.
 *
 * A reload opens the files of the audit log again, and reads the config file again, with the
 * command line of the start above it. Options that the options' table marks as reread take effect:
 * numbers, choices and --allow. Other options that differ are named in the log at each reload. A
 * file with an error changes nothing. The certificate and its key are read again as a pair; a pair
 * with an error changes nothing.
 *
 * The main thread only.
 */
typedef struct {
	Options *options;  /* the main thread's, once the others run; see server_reload() */
	gint64 started_us; /* monotonic */
	char *address;     /* where clients reach this server */
	/* the source of its IDs: one of these two */
	Issuer issuer;
	IssuerSource issuer_source;
	RelaySource *relay; /* NULL: it issues them */
	Source *source;     /* of either; NULL: not yet */
	char nonce[UUID_TEXT_SIZE];
	UlidGenerator ulids; /* there is one as soon as there is a source */
	CounterSet *counters;
	AgentCounters *agents;
	AuditLog *audit;
	ServiceConfig service;
	PassedSockets sockets;
	RpcServer *rpc;
	_Atomic gint64 certificate_expires_ms; /* since the Unix epoch; G_MAXINT64: it has none */
	char *certificate_expires;             /* the same as a text; undefined without one */
	Health health;
	Watchdog watchdog;
	Admin *admin; /* NULL: there is no admin port */
	GMainLoop *loop;
	int event_fd; /* an eventfd: the state of the source or of an event loop has changed */
	gboolean ready;
} Server;

/* @options: borrowed. After %FALSE too, server_clear() frees what there is. */
gboolean server_init(Server *self, Options *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Starts all threads. Signals must be blocked, as the threads inherit that. After %FALSE
 * server_clear() ends those that run. */
gboolean server_start(Server *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* The reload. @sender: process ID for the log */
void server_reload(Server *self, guint sender);

/* Step 1 of the stop: the server reports that it drains. The stop ends in @within_ms and some
 * seconds. */
void server_drain(Server *self, gint64 within_ms);

/* Steps 2 and 3, after the main loop has ended. If the keeper hangs, the process ends here. */
void server_stop(Server *self);

/* Step 4. The keeper's thread must have ended, or never have been started; others are ended here.
 */
void server_clear(Server *self);
