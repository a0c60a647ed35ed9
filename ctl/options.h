/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"
#include "common/address.h"
#include "common/postgresql.h"
#include "common/tls/client.h"
#include "common/zookeeper/hosts.h"
#include "core/layout.h"

/* The options that all commands accept, and the parsing of options that several commands accept.
 * The functions return %FALSE or %NULL, after printing a message, if a value is invalid; the exit
 * status is then CTL_USAGE. */

/* The options with sources other than the command line: see settings.h. */
typedef enum {
	CTL_SERVER,
	CTL_ZOOKEEPER,
	CTL_ZOOKEEPER_AUTH,
	CTL_POSTGRESQL,
	CTL_POSTGRESQL_SCHEMA,
	CTL_TLS_CA,
	CTL_TLS_CERTIFICATE,
	CTL_TLS_KEY,
	CTL_TLS_ANY_NAME,
	CTL_TIMEOUT,
	CTL_N_SETTINGS
} CtlSetting;

/* A later source has precedence. */
typedef enum {
	CTL_SOURCE_DEFAULT,
	CTL_SOURCE_SYSTEM_FILE,
	CTL_SOURCE_USER_FILE,
	CTL_SOURCE_ENVIRONMENT,
	CTL_SOURCE_COMMAND_LINE,
} CtlSource;

typedef struct {
	CtlSource source;
	const char *where; /* "FILE:LINE", or the variable; otherwise NULL */
} CtlOrigin;

typedef struct {
	const char *config;         /* a config file; NULL: see ctl_settings_load() */
	char **servers;             /* NULL: the default server */
	const char *zookeeper;      /* if NULL, see ctl_options_registry() */
	const char *zookeeper_auth; /* path of a file; NULL if none */
	const char *postgresql;     /* if NULL, see ctl_options_registry() */
	const char *postgresql_schema;
	TlsNames tls;
	const char *timeout; /* see ctl_options_check() */
	gboolean json;
	guint timeout_ms;
	CtlOrigin origins[CTL_N_SETTINGS];
} CtlOptions;

/* Returns: (transfer full) (nullable) (element-type Address): the servers, or the default server */
GPtrArray *ctl_options_addresses(const CtlOptions *self);

/* Returns: (transfer full) (nullable): the TLS settings for servers */
TlsClient *ctl_options_tls_new(const CtlOptions *self);

/* Returns: (transfer full): a client for @count servers. */
SnowflakeClient *ctl_options_client_new(const CtlOptions *self, const Address *const *servers,
					guint count);

/* Appends a missing TLS option, if there is one, to the error of a failed call. */
void ctl_options_add_remedy(const CtlOptions *self, GError *error);

/* The registry that a command reads: in ZooKeeper or in PostgreSQL. */
typedef struct {
	ZookeeperHosts *hosts;        /* (nullable) */
	char *auth;                   /* (nullable): "user:password" for ZooKeeper */
	PostgresqlTarget *postgresql; /* (nullable) */
	char *schema;                 /* (nullable): its schema */
	const char *name;             /* "ZooKeeper" or "PostgreSQL" */
	const char *option;           /* "--zookeeper" or "--postgresql" */
	const char *servers;          /* for messages */
	char *root;
} CtlRegistry;

void ctl_registry_free(CtlRegistry *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(CtlRegistry, ctl_registry_free)

/* Sets *out_registry to the registry; to NULL if there is none, or if a source with higher
 * precedence contains servers. Returns %FALSE, with the message printed, if an option is invalid:
 * CTL_USAGE. */
gboolean ctl_options_registry(const CtlOptions *self, CtlRegistry **out_registry);

/* Sets timeout_ms, and checks the --tls- options. */
gboolean ctl_options_check(CtlOptions *self);

/* Parse @text, the value of an option, and set the output. If @text is NULL, do not change it.
 * @option: the option as in --help: "-n N" */

/* A decimal number from @min to @max. */
gboolean ctl_options_number(const char *option, const char *text, guint64 min, guint64 max,
			    guint64 *out_number);
/* A time: milliseconds since the Unix epoch, or RFC 3339, see ctl_format_parse_time(). */
gboolean ctl_options_time(const char *option, const char *text, gint64 *out_time_ms);
/* The value of --layout. */
gboolean ctl_options_layout(const char *text, Layout *out_layout);
