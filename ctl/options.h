/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"
#include "common/address.h"
#include "common/tls/client.h"
#include "common/zookeeper/hosts.h"
#include "core/layout.h"

/* The options that all commands accept, and the parsing of options that several commands accept. */

typedef struct {
	char **servers;             /* if NULL, see ctl_options_addresses() */
	const char *zookeeper;      /* if NULL, see ctl_options_zookeeper() */
	const char *zookeeper_auth; /* a file; NULL if none */
	TlsNames tls;
	gboolean json;
	guint timeout_ms;
} CtlOptions;

/* The environment variables that replace --server and --zookeeper. */
#define CTL_SERVERS_VARIABLE   "SNOWFLAKE_SERVERS"
#define CTL_ZOOKEEPER_VARIABLE "SNOWFLAKE_ZOOKEEPER"

/* Returns: (transfer full) (nullable) (element-type Address): the servers from the option; if it is
 * not given, from the variable; otherwise the default server. %NULL, with the message printed, if
 * an address does not parse: CTL_USAGE. */
GPtrArray *ctl_options_addresses(const CtlOptions *self);

/* Returns: (transfer full): the TLS settings for servers; %NULL, with the message printed, if a
 * file cannot be used: CTL_USAGE. */
TlsClient *ctl_options_tls_new(const CtlOptions *self);

/* Checks the --tls- options. Returns %FALSE, with the message printed, if they are unusable:
 * CTL_USAGE. */
gboolean ctl_options_check_tls(const CtlOptions *self);

/* Returns: (transfer full): a client for @count servers. */
SnowflakeClient *ctl_options_client_new(const CtlOptions *self, const Address *const *servers,
					guint count);

/* Sets *out_hosts to the value of the option; if neither it nor --server is given, to the value of
 * the variable; otherwise to NULL. Sets *out_auth to "user:password", or to NULL. Returns %FALSE,
 * with the message printed, if one of them is invalid: CTL_USAGE. */
gboolean ctl_options_zookeeper(const CtlOptions *self, ZookeeperHosts **out_hosts, char **out_auth);

/* Sets *out_number to the decimal number @text, the value of an option. If @text is NULL, does not
 * change it. Returns %FALSE, with the message printed, if @text is not a number from @min to @max:
 * CTL_USAGE.
 * @option: the option as in --help: "-n N" */
gboolean ctl_options_number(const char *option, const char *text, guint64 min, guint64 max,
			    guint64 *out_number);

/* Like ctl_options_number(), for a time in milliseconds since the Unix epoch. @text: this number,
 * or RFC 3339 as in ctl_format_parse_time() */
gboolean ctl_options_time(const char *option, const char *text, gint64 *out_time_ms);

/* Like ctl_options_number(), for the layout of --layout. */
gboolean ctl_options_layout(const char *text, Layout *out_layout);
