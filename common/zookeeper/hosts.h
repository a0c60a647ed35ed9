/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/client.h"

#define ZOOKEEPER_HOSTS_DEFAULT_ROOT "/snowflake"
#define ZOOKEEPER_HOSTS_TLS_NEEDS                                                                  \
	"tls: requires tls-ca, tls-certificate and tls-key; ZooKeeper's client library needs all " \
	"of "                                                                                      \
	"them"

/* Where ZooKeeper is: "a:2181,b:2181/root". Without a path the root is the default one. */
typedef struct {
	char *servers; /* "a:2181,b:2181", as ZooKeeper's client takes it */
	char *root;    /* "/snowflake": begins with a slash, and does not end with one */
	char *text;    /* as it was given */
	gboolean is_tls;
	/* (nullable): of zookeeper_hosts_set_tls(): what ZooKeeper's client speaks TLS with, the
	 * files of "authorities,certificate,key" */
	char *certificates;
} ZookeeperHosts;

/**
 * zookeeper_hosts_parse:
 *
 * The port of each server is 2181 unless given. They are all "tls:host:port", or none: and none, if
 * ZooKeeper's client was built without TLS.
 *
 * Returns: (transfer full) (nullable): or %NULL with an error that names what is wrong
 */
ZookeeperHosts *zookeeper_hosts_parse(const char *text, GError **error);

/* Reads the files, for servers with TLS, so that what is wrong with them is said; for others it
 * does nothing. %FALSE with an error set. */
gboolean zookeeper_hosts_set_tls(ZookeeperHosts *self, const TlsNames *names, GError **error);

/* (transfer full) (nullable): who speaks to them as ZooKeeper's client does, whatever their names
 * are; %NULL with a TlsError set: the files of @certificates cannot be read any more. */
TlsClient *zookeeper_hosts_client(const char *certificates, GError **error);

void zookeeper_hosts_free(ZookeeperHosts *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperHosts, zookeeper_hosts_free)

/**
 * zookeeper_hosts_read_auth:
 *
 * Reads "user:password" for ZooKeeper's digest scheme from the first line of a file, which must be
 * a regular one, and nobody's but its owner's and group's.
 *
 * Returns: (transfer full) (nullable): or %NULL with an error that names the file
 */
char *zookeeper_hosts_read_auth(const char *path, GError **error);
