/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <netinet/in.h>

#include "common/tls/client.h"

/*
 * One thread that repeatedly connects, completes a handshake and disconnects, on several
 * connections at once. It sends no request, so it works with servers of any protocol. A handshake
 * counts when the server has closed the connection in order after this side did. Then the server
 * has checked everything, including the client's certificate, which TLS 1.3 checks after the client
 * is done.
 */
typedef struct {
	TlsClient *tls;
	const char *host; /* an IP address */
	struct sockaddr_in place;
	guint connections;
	gint64 until_us; /* monotonic time of the end */
} ShakerConfig;

/* Runs until the time is over. Returns the number of handshakes, or -1 with a GIOError set after
 * the first failure. */
gint64 shaker_run(const ShakerConfig *config, GError **error);
