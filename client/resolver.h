/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/socket.h>

#include "common/address.h"

/* Resolves host names with getaddrinfo() in a thread, because getaddrinfo() has no time limit. If a
 * resolution is freed early, its thread continues until the resolver gives up.
 *
 * IP addresses and paths of local sockets need no thread. Names are resolved one after the other,
 * so a name that hangs delays only the names after it. */
typedef struct _Resolution Resolution;

/* The address to which a socket connects. */
typedef struct {
	struct sockaddr_storage bytes;
	socklen_t length;
	char tls_host[ADDRESS_MAX_HOST_BYTES +
		      1]; /* name to expect in the server's certificate; "" for no TLS */
} SocketAddress;

/* An address of a server's host name. */
typedef struct {
	char *text; /* the configured name, followed by the address if it is different */
	SocketAddress address;
} ResolvedName;

/* @addresses: (element-type Address): copied. @fd: an eventfd(2), which is written whenever a name
 * is resolved, and at the end; duplicated. Call this and the other functions under
 * fork_guard_lock(), unless the calling thread protects itself from fork() in another way. */
Resolution *resolution_new(const GPtrArray *addresses, int fd);

/* Returns: (transfer container) (element-type ResolvedName): the results so far, valid as long as
 * @self; %NULL if the resolution continues and there are no results since the last call.
 * @out_failures: (out) (transfer full): at the end, the unresolved names and the reasons, each
 * after ": "; empty if there are none; %NULL until then */
GPtrArray *resolution_get(Resolution *self, char **out_failures);

/* Resolves one name, and waits for the result. Do not call it under fork_guard_lock().
 * @deadline_us: when to give up, by g_get_monotonic_time()
 * @out_why: (out) (transfer full): on failure, why @address has no addresses; %NULL at the deadline
 * Returns: (transfer full) (element-type ResolvedName): one or more addresses, in the resolver's
 * order; %NULL on failure */
GPtrArray *resolution_wait_for_names(const Address *address, gint64 deadline_us, char **out_why);

/* Frees a resolution, whether or not it has ended. Also works in a child that fork() created, in
 * which the thread does not exist.
 */
void resolution_free(Resolution *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Resolution, resolution_free)
