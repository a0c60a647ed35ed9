/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#define ZOOKEEPER_HOSTS_DEFAULT_ROOT "/snowflake"

/* Where ZooKeeper is: "a:2181,b:2181/root". Without a path the root is the default one. */
typedef struct {
	char *servers; /* "a:2181,b:2181", as ZooKeeper's client takes it */
	char *root;    /* "/snowflake": begins with a slash, and does not end with one */
	char *text;    /* as it was given */
} ZookeeperHosts;

/**
 * zookeeper_hosts_parse:
 *
 * The port of each server is 2181 unless given.
 *
 * Returns: (transfer full) (nullable): or %NULL with an error that names what is wrong
 */
ZookeeperHosts *zookeeper_hosts_parse(const char *text, GError **error);
void zookeeper_hosts_free(ZookeeperHosts *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperHosts, zookeeper_hosts_free)
