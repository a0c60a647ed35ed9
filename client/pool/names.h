/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/pool/link.h"
#include "common/address.h"

/*
 * Looks names up for a pool, in a thread of its own, since a look-up cannot be told to wait for no
 * longer than so. One that nobody waits for any more goes on until the resolver gives up.
 * The path of a local socket is what it stands for.
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
 * Under the lock of fork.h, as the others are.
 */
PoolNames *pool_names_new(const GPtrArray *addresses, int fd);

/* Returns: (transfer full) (element-type PoolName): what is known, in the order of the addresses;
 * %NULL as long as it is not done. @out_failures: (transfer full): what is not known, and why;
 * empty if all is. */
GPtrArray *pool_names_get(PoolNames *self, char **out_failures);

/* Whether it is done or not. In the child of a fork too, which has not got the thread. */
void pool_names_free(PoolNames *self);
