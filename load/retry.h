/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/**
 * load_retry_pause_ns:
 * @failures: of the connection, in a row, 1 or more: it broke, or could not be made
 * @n_servers: that it takes in turn
 * @n_connections: that share a thread
 * @draw: by chance, 0 to 1
 *
 * How long it waits before the next attempt: not at all as long as there is a server that was not
 * tried; else up to 10 ms, twice as long each time all of them failed once more, up to 100 ms, or
 * so long that a thread makes no more than 10,000 attempts a second; at least half of that.
 */
gint64 load_retry_pause_ns(guint failures, guint n_servers, guint n_connections, double draw);
