/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * The rules of a pool's connections: when it connects to a server, when it replaces one, and how
 * often it asks how a server is. Each case runs in a new world.
 *
 * Returns: %FALSE if there is no such case
 */
gboolean pool_connections_check(guint number);
