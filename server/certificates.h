/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/server.h"

/*
 * The server's certificate and key, read as a pair at the start and at each SIGHUP, and warnings
 * before the certificate expires. The main thread only.
 */

/* Reads the files for handshakes that begin from then on; open connections stay. Files for calls of
 * other servers are read too, to check them: common/tls/client.h tells when they take effect. Does
 * nothing without TLS. %FALSE with an error set: the files with the error change nothing. */
gboolean certificates_read(Server *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Warns once a day when the certificate expires soon, for as long as the server runs. */
void certificates_watch(Server *self);
