/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/link.h"
#include "common/address.h"

/*
 * Looks names up for a pool, in a thread of its own, since a look-up cannot be told to wait for no
 * longer than so. One that nobody waits for any more goes on until the resolver gives up.
 * The path of a local socket is what it stands for. What needs no look-up is known first, and then
 * the names one after the other, so that one which hangs keeps back only the names behind it.
 */
typedef struct _PoolNames PoolNames;

/* A server's address, once for each that its name has. */
typedef struct {
	char *text; /* as it was given; with what it stands for, if that is not the same */
	PoolLinkAddress address;
} PoolName;

/**
 * pool_names_new:
 * @addresses: (element-type Address): they are copied
 * @fd: eventfd(2) to write to when it is done
 *
 * under fork_guard_lock(), as the others are.
 */
PoolNames *pool_names_new(const GPtrArray *addresses, int fd);

/**
 * pool_names_get:
 * @out_failures: (out) (transfer full): when it is done, what is not known, and why, empty if all
 *   is; %NULL until then
 *
 * Returns: (transfer container) (element-type PoolName): what is known by now, good as long as
 *   @self is; %NULL if it is not done and nothing has come since it was asked last
 */
GPtrArray *pool_names_get(PoolNames *self, char **out_failures);

/* Whether it is done or not. In the child of a fork too, which has not got the thread. */
void pool_names_free(PoolNames *self);
