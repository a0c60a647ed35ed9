/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/socket.h>

#include "common/address.h"

/*
 * Resolves host names, by getaddrinfo() in a thread, because getaddrinfo() has no time limit. A
 * resolution that is freed early goes on in its thread until the resolver gives up.
 *
 * IP addresses and the paths of local sockets are known at once, without a thread. Names are
 * resolved one after the other, so a name that hangs delays only the names after it.
 */
typedef struct _Resolution Resolution;

/* Where to connect to. */
typedef struct {
	struct sockaddr_storage bytes;
	socklen_t length;
	char tls_host[ADDRESS_MAX_HOST_BYTES +
		      1]; /* name in the server's certificate; "": no TLS */
} SocketAddress;

/* One address of a server's name. */
typedef struct {
	char *text; /* the name as it was given, with the address if that is different */
	SocketAddress address;
} ResolvedName;

/**
 * resolution_new:
 * @addresses: (element-type Address): copied
 * @fd: eventfd(2) to write to when something is known, and at the end; is duplicated
 *
 * Under fork_guard_lock(), and so are the other functions unless the thread that calls them has
 * taken care of fork() otherwise.
 */
Resolution *resolution_new(const GPtrArray *addresses, int fd);

/**
 * resolution_get:
 * @out_failures: (out) (transfer full): when it is done, which names are unknown and why, empty if
 *   none is; %NULL until then. Each reason follows ": "
 *
 * Returns: (transfer container) (element-type ResolvedName): what is known by now, valid as long as
 *   @self is; %NULL if it is not done and nothing was found since the last call
 */
GPtrArray *resolution_get(Resolution *self, char **out_failures);

/**
 * resolution_wait_for_names:
 * @deadline_us: of g_get_monotonic_time()
 * @out_why: (out) (transfer full): on failure, why @address has no addresses; %NULL at the deadline
 *
 * Resolves one name, and waits for that. Not under fork_guard_lock().
 *
 * Returns: (transfer full) (element-type ResolvedName): one or more, in the resolver's order; %NULL
 *   on failure
 */
GPtrArray *resolution_wait_for_names(const Address *address, gint64 deadline_us, char **out_why);

/* Done or not; also in the child of a fork, which does not have the thread. */
void resolution_free(Resolution *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Resolution, resolution_free)
