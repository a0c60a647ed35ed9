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
	const char *zookeeper_auth; /* path of a file; NULL if none */
	TlsNames tls;
	gboolean json;
	guint timeout_ms;
} CtlOptions;

/* The environment variables that are used instead of --server and --zookeeper. */
#define CTL_SERVERS_VARIABLE   "SNOWFLAKE_SERVERS"
#define CTL_ZOOKEEPER_VARIABLE "SNOWFLAKE_ZOOKEEPER"

/* Returns: (transfer full) (nullable) (element-type Address): the servers in the option; if it is
 * not given, in the variable; if that is not set, the default server. %NULL, after printing a
 * message, if an address does not parse; the exit status is then CTL_USAGE. */
GPtrArray *ctl_options_addresses(const CtlOptions *self);

/* Returns: (transfer full): the TLS settings for servers; %NULL, after printing a message, if a
 * file cannot be used; the exit status is then CTL_USAGE. */
TlsClient *ctl_options_tls_new(const CtlOptions *self);

/* Checks the --tls- options. Returns %FALSE, after printing a message, if they are unusable; the
 * exit status is then CTL_USAGE. */
gboolean ctl_options_check_tls(const CtlOptions *self);

/* Returns: (transfer full): a client for @count servers. */
SnowflakeClient *ctl_options_client_new(const CtlOptions *self, const Address *const *servers,
					guint count);

/* Sets *out_hosts to the value of --zookeeper; if neither --zookeeper nor --server is given, to the
 * value of the variable; otherwise to NULL. Sets *out_auth to "user:password", or to NULL. Returns
 * %FALSE, after printing a message, if a value is invalid; the exit status is then CTL_USAGE. */
gboolean ctl_options_zookeeper(const CtlOptions *self, ZookeeperHosts **out_hosts, char **out_auth);

/* Sets *out_number to the decimal number @text, the value of an option. If @text is NULL, does not
 * change it. Returns %FALSE, after printing a message, if @text is not a number from @min to @max;
 * the exit status is then CTL_USAGE. @option: the option as in --help: "-n N" */
gboolean ctl_options_number(const char *option, const char *text, guint64 min, guint64 max,
			    guint64 *out_number);

/* Like ctl_options_number(), for a time. @text: milliseconds since the Unix epoch, or a time in RFC
 * 3339 form, see ctl_format_parse_time() */
gboolean ctl_options_time(const char *option, const char *text, gint64 *out_time_ms);

/* Like ctl_options_number(), for the value of --layout. */
gboolean ctl_options_layout(const char *text, Layout *out_layout);
