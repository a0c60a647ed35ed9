/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit-log.h"
#include "common/counters.h"
#include "issuer/issuer.h"
#include "options/options.h"
#include "rpc/server.h"
#include "server/admin.h"
#include "server/agent-counters.h"
#include "server/disk-watch.h"
#include "server/health.h"
#include "server/issuer-source.h"
#include "server/passed-sockets.h"
#include "server/relay-source.h"
#include "server/service.h"

/*
 * A server, put together of its parts: which they are, what each is told, and who wakes whom. It is
 * run by main.c and ended by stop.h.
 */
typedef struct {
	Options *options;  /* the main thread's, once the others run; see reload.h */
	gint64 started_us; /* monotonic */
	char *address;     /* where clients reach this server */
	/* where its IDs come from: one of these two */
	Issuer issuer;
	IssuerSource issuer_source;
	RelaySource *relay; /* NULL: it issues them */
	Source *source;     /* of it; NULL: not yet */
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
	DiskWatch disk_watch;
	Admin *admin; /* NULL: nobody asked for it */
	GMainLoop *loop;
	int news_fd; /* an eventfd: the source has news, or an event loop has failed */
	gboolean ready;
} Server;

/* @options: borrowed. After %FALSE too, server_clear() frees what there is. */
gboolean server_init(Server *self, Options *options, GError **error) G_GNUC_WARN_UNUSED_RESULT;
/* The keeper's thread must have ended, or never have been started; others are ended here. */
void server_clear(Server *self);
