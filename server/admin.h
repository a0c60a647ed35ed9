/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "options/options.h"
#include "rpc/server.h"
#include "server/health.h"

/* The admin port: the table of its paths, and their answers. Its thread also draws IDs, for
 * programs that cannot call. */
typedef struct _Admin Admin;

typedef struct {
	const Options *options;
	ServiceConfig *service;
	const Health *health;
	const RpcServer *rpc;
	const _Atomic gint64 *certificate_expires_ms; /* as Server has it */
	gint64 started_us;                            /* monotonic */
	const GArray *sockets; /* of int, descriptors: that listen already; none: --admin-listen */
} AdminConfig;

/* Listens, before the audit log is started. What of the service comes later may be missing yet.
 * @config: copied; what it points to is borrowed
 * Returns: (transfer full): it, or %NULL with a GIOError set */
Admin *admin_new(const AdminConfig *config, GError **error);
/* Stops it, too. */
void admin_free(Admin *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Admin, admin_free)

/* Answers from now on; all of the service is there, and the audit log has started. Each address is
 * logged. */
gboolean admin_start(Admin *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* After this it draws no more, and answers nobody. */
void admin_stop(Admin *self);
