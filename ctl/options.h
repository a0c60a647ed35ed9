/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"
#include "common/address.h"
#include "common/tls/client.h"
#include "common/zookeeper/hosts.h"
#include "core/layout.h"

/* The options that every command has, and what they stand for. */

typedef struct {
	char **servers;             /* NULL: see ctl_options_addresses() */
	const char *zookeeper;      /* NULL: see ctl_options_zookeeper() */
	const char *zookeeper_auth; /* a file; NULL: none */
	TlsNames tls;               /* as they are given */
	gboolean json;
	guint timeout_ms;
} CtlOptions;

/* What stands in for --server and --zookeeper. */
#define CTL_SERVERS_VARIABLE   "SNOWFLAKE_SERVERS"
#define CTL_ZOOKEEPER_VARIABLE "SNOWFLAKE_ZOOKEEPER"

/* (transfer full) (nullable) (element-type Address): the servers that are named, by the option or
 * else the variable, or the default one; if one does not parse, %NULL, and the message is out:
 * CTL_USAGE. */
GPtrArray *ctl_options_addresses(const CtlOptions *self);

/* (transfer full): what servers with TLS are spoken to with; %NULL, and the message is out, if the
 * files cannot be used: CTL_USAGE. */
TlsClient *ctl_options_tls_new(const CtlOptions *self);

/* Whether what is given of --tls-... can be used; if not, the message is out: CTL_USAGE. */
gboolean ctl_options_check_tls(const CtlOptions *self);

/* (transfer full): a client of so many @servers. */
SnowflakeClient *ctl_options_client_new(const CtlOptions *self, const Address *const *servers,
					guint count);

/* Sets *out_hosts to the ZooKeeper that is named, by the option, or else, where no server is named
 * by one, by the variable; to NULL if there is none. Sets *out_auth to "user:password", or to NULL.
 * %FALSE, and the message is out, if one of them makes no sense: CTL_USAGE. */
gboolean ctl_options_zookeeper(const CtlOptions *self, ZookeeperHosts **out_hosts, char **out_auth);

/* Sets *out_number to the number that the value @text of an option is, in decimal; leaves it where
 * @text is NULL. %FALSE, and the message is out, if it is none from @min to @max: CTL_USAGE.
 * @option: as --help writes it: "-n N" */
gboolean ctl_options_number(const char *option, const char *text, guint64 min, guint64 max,
			    guint64 *out_number);

/* Likewise to the time that @text is, in milliseconds since the Unix epoch: these as a number, or
 * RFC 3339, as ctl_format_parse_time() has it. */
gboolean ctl_options_time(const char *option, const char *text, gint64 *out_time_ms);

/* Likewise to the layout that --layout names or defines. */
gboolean ctl_options_layout(const char *text, Layout *out_layout);
