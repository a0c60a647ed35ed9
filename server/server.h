/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-log.h"
#include "issuer/issuer.h"
#include "options/options.h"
#include "rpc/counters.h"
#include "rpc/server.h"
#include "server/admin.h"
#include "server/agent-counters.h"
#include "server/health.h"
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

/* A server, made of its parts. main.c runs it, and signals.h ends it. */
typedef struct {
	Options *options;  /* the main thread's, once the others run; see signals.h */
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
	_Atomic gint64 certificate_expires_ms; /* since the Unix epoch; G_MAXINT64: it has none;
						* see certificates.h */
	Health health;
	Watchdog watchdog;
	Admin *admin; /* NULL: there is no admin port */
	GMainLoop *loop;
	int event_fd; /* an eventfd: the state of the source or of an event loop has changed */
	gboolean ready;
} Server;

/* @options: borrowed. After %FALSE too, server_clear() frees what there is. */
gboolean server_init(Server *self, Options *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* The keeper's thread must have ended, or never have been started; others are ended here. */
void server_clear(Server *self);
