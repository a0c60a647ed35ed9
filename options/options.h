/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "audit/sink.h"
#include "common/address.h"
#include "common/allow-list.h"
#include "common/log.h"
#include "common/postgresql.h"
#include "common/tls/client.h"
#include "common/zookeeper/hosts.h"
#include "core/layout.h"

/* How the server reacts if the clock steps back to more than max-ahead before the last ID. */
typedef enum {
	OPTIONS_CLOCK_STEP_REFUSE,  /* refuse calls until the clock has caught up */
	OPTIONS_CLOCK_STEP_RECLAIM, /* claim another worker ID */
} OptionsClockStep;

/* Special values of worker_id. */
typedef enum {
	OPTIONS_WORKER_ID_NONE = -1,
	OPTIONS_WORKER_ID_MAC = -2, /* this value and the following ones: derive the worker ID */
	OPTIONS_WORKER_ID_IP = -3,
	OPTIONS_WORKER_ID_ORDINAL = -4,
} OptionsWorkerId;

/* The server's options: defaults, then the config file, then the command line. Each option has a
 * row in options-table.c and a field here. */
typedef struct {
	/* set only by the command line; if help, version or print_config is set, other options
	 * keep their defaults */
	gboolean help, version, print_config;
	char *config; /* a path, or NULL */
	GStrv args;   /* the whole command line, kept so that it can be reread */

	/* In the order of the table. An option that is not given has its default, or the value that
	 * its comment names, otherwise NULL. */
	GPtrArray *listen; /* (element-type Address): one or more */
	guint socket_mode; /* bits of 0777 */
	char *socket_group;
	Address *advertise; /* NULL for the first of listen */
	Address *admin_listen;
	GPtrArray *admin_hosts; /* (element-type utf8): host names that requests may have in Host */

	char *tls_certificate;
	char *tls_key;
	char *tls_client_ca; /* if NULL, clients need no certificate */
	char *tls_ca;        /* see options_tls_names() */
	AllowList *allow;    /* NULL for all clients */

	GPtrArray *relay; /* (element-type Address): NULL if not a relay */
	gboolean relay_discover;
	char *relay_agent;
	gint64 relay_prefetch_ms;
	gint64 relay_max_age_ms;

	gint64 datacenter_id;  /* fits the layout; -1 if not given */
	gint64 worker_id;      /* fits the layout; if negative, an OptionsWorkerId */
	char *state_directory; /* always NULL with a shared registry */

	ZookeeperHosts *zookeeper; /* without it and postgresql, the state directory is used */
	char *zookeeper_auth;
	PostgresqlTarget *postgresql; /* excludes zookeeper */
	char *postgresql_schema;
	gint64 session_timeout_ms;
	gint64 connect_timeout_ms;
	gint64 reservation_ms;
	char *registry_id; /* NULL for any */
	gboolean create_registry;
	gboolean skip_sanity_checks;

	Layout layout;
	gint64 max_ahead_ms;
	gint64 max_clock_skew_ms;
	OptionsClockStep on_clock_step;
	gint64 sequence_start; /* see GeneratorPolicy.sequence_start_range */
	gint64 max_batch;
	gint64 max_wait_ms;

	gint64 threads;
	gint64 max_connections;
	gint64 max_connections_per_address; /* 0 for no limit */
	gint64 max_frame_bytes;
	gint64 max_depth;
	gint64 frame_timeout_ms;
	gint64 idle_timeout_ms; /* 0 for no time limit */
	gint64 max_pending_bytes;
	gint64 write_timeout_ms;
	gboolean no_fast_path;

	GPtrArray *audit_log; /* (element-type AuditTarget): 0 or more, all different */
	gint64 audit_queue_bytes;

	gint64 drain_delay_ms;
	gint64 stop_timeout_ms;
	LogLevel log_level;
	LogFormat log_format;

	/* maps an option's name (borrowed) to the last given values, joined with semicolons, or
	 * to the default */
	GHashTable *given;
	/* Maps an option's name (borrowed) to the prefix for it in messages: "--", or the file and
	 * its line. */
	GHashTable *sources;
} Options;

/* Reads the options. If the command line repeats an option, the last value is used, except that
 * --listen and --audit-log add to a list.
 * @argv: begins with the name of the program; not changed
 * Returns: (transfer full) (nullable): the options, checked against each other, or %NULL with a
 * one-line error set, which contains the source of the value, its key, the value, the limit and a
 * remedy */
Options *options_new_from_args(int argc, char **argv, GError **error);

/* A row of options-table.h. */
typedef struct _OptionSpec OptionSpec;

/* Returns: (transfer full) (nullable): the value of an option, in the form used in the file; %NULL
 * if there is none. */
char *options_text_of(const Options *self, const OptionSpec *spec);

/* Checks that a server at this address cannot issue the same IDs as a server on another machine
 * with the same options. Without ZooKeeper, only the operator can ensure this, by giving them
 * different worker IDs.
 * @address: where the server listens, for the message; clients on other machines can connect to it
 * Returns: %FALSE with a GOptionError set if worker-id is missing */
gboolean options_check_reachable(const Options *self, const char *address, GError **error);

/* Returns whether reservations are stored where other machines share them: in ZooKeeper or
 * PostgreSQL. */
gboolean options_has_shared_registry(const Options *self);

/* Returns the names of the files for TLS connections to other servers. The names are borrowed. */
TlsNames options_tls_names(const Options *self);

void options_free(Options *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Options, options_free)

/* Creates the options of an embedded node. Accepts only options that the table marks as embedded,
 * and parses and checks them like snowflaked's command line. All others keep their defaults and
 * have no effect.
 * @settings: (nullable): strings of the form "name=value", NULL-terminated; a flag's name without
 * a value means true
 * Returns: (transfer full) (nullable): the options, or %NULL with a one-line GOptionError set */
Options *options_embedded_new(const char *const *settings, GError **error);
