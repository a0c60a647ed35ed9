/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "options/options.h"
#include "rpc/server.h"
#include "server/health.h"

/* The admin port: the table of its paths, and the functions that answer requests. Its thread also
 * draws IDs, for programs without a Thrift client. */
typedef struct _Admin Admin;

typedef struct {
	const Options *options;
	ServiceConfig *service;
	const Health *health;
	const RpcServer *rpc;
	const _Atomic gint64 *certificate_expires_ms; /* see Server */
	gint64 started_us;                            /* monotonic time of the server's start */
	/* (element-type int): descriptors of sockets that already listen; if empty, --admin-listen
	 * is used */
	const GArray *sockets;
} AdminConfig;

/* Opens the sockets. The audit log and other parts of the service may start later.
 * @config: copied; its pointers are borrowed. Returns: (transfer full): the admin port, or %NULL
 * with a GIOError set */
Admin *admin_new(const AdminConfig *config, GError **error);
/* Stops the admin port, and frees it. */
void admin_free(Admin *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Admin, admin_free)

/* Starts to answer requests. All parts of the service and the audit log must have started. Logs
 * each address. */
gboolean admin_start(Admin *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Stops the admin port. Afterwards, it draws no IDs and answers no requests. */
void admin_stop(Admin *self);
