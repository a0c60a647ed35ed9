/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/**
 * zookeeper_auth_read:
 *
 * Reads "user:password" for ZooKeeper's digest scheme from the first line of a file, which must be
 * a regular one, and nobody's but its owner's and group's.
 *
 * Returns: (transfer full) (nullable): or %NULL with an error that names the file
 */
char *zookeeper_auth_read(const char *path, GError **error);
