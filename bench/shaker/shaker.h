/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>

#include "common/tls/client.h"

/*
 * One thread that connects, shakes hands and leaves, over and over, on a number of connections at
 * once. It asks for nothing, so that it does the same to a server of any protocol. One counts when
 * the server, told that nothing more comes, has ended the connection in order: so it has looked at
 * all that it got, the client's certificate too, which TLS 1.3 does after the client is done.
 */
typedef struct {
	TlsClient *tls;
	const char *host; /* an address */
	struct sockaddr_in place;
	guint connections;
	gint64 until_us; /* monotonic */
} ShakerConfig;

/* Until the time is over. Returns how many, or -1 with an error of GIO after the first that fails.
 */
gint64 shaker_run(const ShakerConfig *config, GError **error);
