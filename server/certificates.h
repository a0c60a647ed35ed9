/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/server.h"

/*
 * What the server shows to others with TLS: its certificate with its key, read as a pair at the
 * start and at each SIGHUP, and what is said as its end comes near. The main thread's.
 */

/* Reads the files, which newcomers are shown from then on; whoever is connected stays as he is.
 * Also those with which it calls others, to say whether they are right: common/tls/client.h has
 * when they are taken. Nothing is done where there is no TLS. %FALSE with an error set: what it is
 * of is as it was. */
gboolean certificates_read(Server *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Says once a day that the end is near; for as long as the server lives. */
void certificates_watch(Server *self);
