/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "client/snowflake-client.h"
#include "common/address.h"
#include "common/zookeeper/hosts.h"

/* The commands of snowflakectl: a file each, and a line each in the table of ctl.c. */

typedef enum {
	CTL_OK = 0,
	CTL_FAILED = 1,        /* refused, not reachable, or input that makes no sense */
	CTL_USAGE = 2,         /* wrong options or arguments */
	CTL_INTERRUPTED = 130, /* by Ctrl-C */
} CtlStatus;

/* The options that every command has. */
typedef struct {
	char **servers;             /* NULL: see ctl_addresses() */
	const char *zookeeper;      /* NULL: see ctl_zookeeper_hosts() */
	const char *zookeeper_auth; /* a file; NULL: none */
	gboolean json;
	guint timeout_ms;
} CtlOptions;

typedef struct {
	const char *name;
	const char *arguments;       /* for --help: "[ID...]"; NULL: the command takes none */
	const char *summary;         /* a line, for --help */
	const char *details;         /* more, for the command's --help; or NULL */
	gboolean takes_zookeeper;    /* --zookeeper is for it, too */
	gboolean takes_no_server;    /* --server is not shown in its --help */
	const GOptionEntry *entries; /* its own options, NULL-terminated */
	CtlStatus (*run)(const CtlOptions *options, const char *const *arguments);
} CtlCommand;

extern const CtlCommand ctl_id_command;
extern const CtlCommand ctl_decode_command;
extern const CtlCommand ctl_ping_command;
extern const CtlCommand ctl_workers_command;
extern const CtlCommand ctl_registry_command;
extern const CtlCommand ctl_bench_command;
/* It is for snowflakectl.c itself, and has no run. */
extern const CtlCommand ctl_help_command;

/* All of them, with NULL behind. */
extern const CtlCommand *const CTL_COMMANDS[];

/* What stands in for --server and --zookeeper. */
#define CTL_SERVERS_VARIABLE   "SNOWFLAKE_SERVERS"
#define CTL_ZOOKEEPER_VARIABLE "SNOWFLAKE_ZOOKEEPER"

/* Sets *out_number to the number that the value @text of an option is, in decimal; leaves it where
 * @text is NULL. %FALSE, and the message is out, if it is none from @min to @max: CTL_USAGE.
 * @option: as --help writes it: "-n N" */
gboolean ctl_number(const char *option, const char *text, guint64 min, guint64 max,
		    guint64 *out_number);

/* (transfer full) (nullable) (element-type Address): the servers in @options, else in
 * $SNOWFLAKE_SERVERS, else the default one; if one does not parse, %NULL, and the message is out:
 * CTL_USAGE. */
GPtrArray *ctl_addresses(const CtlOptions *options);

/* (transfer full): a client of so many @servers. */
SnowflakeClient *ctl_client_new(const Address *const *servers, guint count, guint timeout_ms);

/* Sets *out_hosts to the ZooKeeper in @options, or else, where they name no server, to the one in
 * $SNOWFLAKE_ZOOKEEPER; to NULL if there is none. Sets *out_auth to "user:password", or to NULL.
 * %FALSE, and the message is out, if one of them makes no sense: CTL_USAGE. */
gboolean ctl_zookeeper_hosts(const CtlOptions *options, ZookeeperHosts **out_hosts,
			     char **out_auth);
