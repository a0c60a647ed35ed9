/* SPDX-License-Identifier: Apache-2.0 */

/* The functions that each contract adds to client.c. */
#pragma once

#include <thrift/c_glib/protocol/thrift_protocol.h>

/* Returns a client of the contract that uses `protocol`. */
GObject *new_client(ThriftProtocol *protocol);

/* Calls `method` (get_id `count` times), and prints the results in the form of ../official.py. A
 * typed exception becomes an error of the domain with its name. */
gboolean call(GObject *client, const char *method, const char *agent, int count, GError **error);
