/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Whether the TCP socket @fd is connected to itself. Where nobody listens on a port, the kernel may
 * draw that very port for the client; then its request to connect meets itself, and is granted. */
gboolean self_connection_is_one(int fd);
