/* SPDX-License-Identifier: Apache-2.0 */

/* What a contract adds to client.c. */
#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>

/* A client of the contract that speaks over `protocol`. */
GObject *new_client(ThriftProtocol *protocol);

/* Calls `method`, for get_id `count` times, and prints what comes, as ../official.py says. A typed
 * exception is an error of the domain that bears its name. */
gboolean call(GObject *client, const char *method, const char *agent, int count, GError **error);
