/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "common/tls/client.h"

#define ZOOKEEPER_HOSTS_DEFAULT_ROOT "/snowflake"
#define ZOOKEEPER_HOSTS_TLS_NEEDS                                                                  \
	"tls: requires tls-ca, tls-certificate and tls-key; ZooKeeper's client library needs "     \
	"all of them"

/* The address of a ZooKeeper ensemble: "a:2181,b:2181/root". Without a path, the root is the
 * default root. */
typedef struct {
	char *servers; /* "a:2181,b:2181", the form that ZooKeeper's client accepts */
	char *root;    /* "/snowflake": begins with a slash, and does not end with one */
	char *text;    /* the text that was parsed */
	gboolean is_tls;
	/* (nullable): set by zookeeper_hosts_set_tls(): the TLS files for ZooKeeper's client,
	 * "authorities,certificate,key" */
	char *certificates;
} ZookeeperHosts;

/* Parses an address. The default port of each server is 2181. Either all servers begin with "tls:"
 * or none does. If ZooKeeper's client was built without TLS, "tls:" is an error. Returns: (transfer
 * full) (nullable): the address, or %NULL with an error that says what is wrong */
ZookeeperHosts *zookeeper_hosts_parse(const char *text, GError **error);

/* For servers with TLS, reads the files so that errors in them are reported, and sets certificates.
 * Does nothing for other servers. Returns %FALSE with an error set on failure. */
gboolean zookeeper_hosts_set_tls(ZookeeperHosts *self, const TlsNames *names, GError **error);

/* Returns: (transfer full) (nullable): a TLS client that, like ZooKeeper's client, does not check
 * host names; %NULL with a TlsError set if the files of @certificates cannot be read. */
TlsClient *zookeeper_hosts_client(const char *certificates, GError **error);

void zookeeper_hosts_free(ZookeeperHosts *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ZookeeperHosts, zookeeper_hosts_free)

/* The file with the user and password cannot be used. A retry does not help. */
#define ZOOKEEPER_HOSTS_ERROR (zookeeper_hosts_error_quark())
GQuark zookeeper_hosts_error_quark(void);

typedef enum { ZOOKEEPER_HOSTS_ERROR_AUTH } ZookeeperHostsError;

/* Reads "user:password" for ZooKeeper's digest scheme from the first line of a file. It must be a
 * regular file that only its owner and group can access.
 * Returns: (transfer full) (nullable): or %NULL with a ZookeeperHostsError that names the file */
char *zookeeper_hosts_read_auth(const char *path, GError **error);
