/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <gio/gio.h>

#include "common/address.h"
#include "common/tls/client.h"

/*
 * A server that is loaded, and where it is. Its name is looked up once, before the load: nothing
 * that waits has a place in a thread of load. Immutable while that runs; all threads share it.
 */
typedef struct {
	const Address *address; /* borrowed */
	TlsClient *tls;         /* borrowed; NULL: plain */
	GPtrArray *places;      /* of GSocketAddress: what the name stands for; may be empty */
	GError *trouble;        /* (nullable): why nothing can be expected of it */
} LoadServer;

/* (transfer full): looks the name up, and waits for that; that it fails is the trouble.
 * @address: borrowed
 * @tls: (nullable): borrowed, for one with TLS */
LoadServer *load_server_new(const Address *address, TlsClient *tls);
void load_server_free(LoadServer *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LoadServer, load_server_free)

/* HOST:PORT, or unix:PATH. */
const char *load_server_name(const LoadServer *self);
