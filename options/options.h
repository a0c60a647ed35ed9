/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "audit/sink.h"
#include "common/address.h"
#include "common/allow-list.h"
#include "common/log.h"
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

/*
 * The server's options: defaults, then the config file, then the command line. Each option has a
 * row in options-table.c and a field here.
 */
typedef struct {
	/* set only by the command line; if help, version or print_config is set, other options
	 * keep their defaults */
	gboolean help, version, print_config;
	char *config; /* a path, or NULL */
	GStrv args;   /* the whole command line, kept so that it can be reread */

	/* addresses */
	GPtrArray *listen; /* (element-type Address): one or more */
	guint socket_mode; /* mode of a local socket's file, bits of 0777 */
	/* group of the file, a name or a number; if NULL, the directory decides */
	char *socket_group;
	/* the address under which others reach this server; NULL for the first of listen */
	Address *advertise;
	Address *admin_listen;  /* address of the admin port; NULL if none */
	GPtrArray *admin_hosts; /* (element-type utf8): host names that requests may have in Host */

	/* TLS and access; the files are in PEM format */
	char *tls_certificate; /* the server's certificate; NULL if none */
	char *tls_key;         /* key of this certificate; NULL if there is no certificate */
	/* CAs that sign clients' certificates; if NULL, clients need no certificate */
	char *tls_client_ca;
	/* CAs that sign the certificates of other servers; NULL if not given */
	char *tls_ca;
	AllowList *allow; /* clients that may connect; NULL for all clients */

	/* (element-type Address): servers whose IDs a relay hands out; NULL if not a relay */
	GPtrArray *relay;
	gboolean relay_discover; /* ask these servers for the list of all servers */
	char *relay_agent;       /* the useragent in the relay's calls to these servers */
	gint64 relay_prefetch_ms;
	gint64 relay_max_age_ms;

	/* the worker ID */
	gint64 datacenter_id;  /* fits the layout; -1 if not given */
	gint64 worker_id;      /* fits the layout; if negative, an OptionsWorkerId */
	char *state_directory; /* NULL if not given, and always with zookeeper */

	/* registration in ZooKeeper */
	/* NULL if not given; reservations are then in the state directory */
	ZookeeperHosts *zookeeper;
	char *zookeeper_auth; /* path of a file; NULL to use no digest */
	gint64 session_timeout_ms;
	gint64 connect_timeout_ms; /* time limit for the first connection */
	gint64 reservation_ms;     /* the longest reservation */
	char *registry_id;         /* ID that the registry must have; NULL for any */
	gboolean create_registry;  /* create a registry if there is none at the root */
	gboolean skip_sanity_checks;

	/* IDs */
	Layout layout;
	gint64 max_ahead_ms;
	gint64 max_clock_skew_ms;
	OptionsClockStep on_clock_step;
	gint64 sequence_start; /* see GeneratorPolicy.sequence_start_range */
	gint64 max_batch;
	gint64 max_wait_ms;

	/* connections */
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

	/* the audit log */
	GPtrArray *audit_log; /* (element-type AuditTarget): 0 or more, all different */
	gint64 audit_queue_bytes;

	/* operation */
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

/**
 * options_new_from_args:
 * @argv: begins with the name of the program; not changed
 *
 * If the command line repeats an option, the last value is used, except that --listen and
 * --audit-log add to a list.
 *
 * Returns: (transfer full) (nullable): the options, checked against each other, or %NULL with a
 * one-line error set, which contains the source of the value, its key, the value, the limit and a
 * remedy
 */
Options *options_new_from_args(int argc, char **argv, GError **error);

/* A row of options-table.h. */
typedef struct _OptionSpec OptionSpec;

/* Returns: (transfer full) (nullable): the value of an option, in the form used in the file; %NULL
 * if there is none. */
char *options_text_of(const Options *self, const OptionSpec *spec);

/**
 * options_check_reachable:
 * @address: where the server listens, for the message; clients on other machines can connect to it
 *
 * Checks that a server at this address cannot issue the same IDs as a server on another machine
 * with the same options. Without ZooKeeper, only the operator can ensure this, by giving them
 * different worker IDs.
 *
 * Returns: %FALSE with a GOptionError set if worker-id is missing
 */
gboolean options_check_reachable(const Options *self, const char *address, GError **error);

/* Returns the names of the files for TLS connections to other servers. The names are borrowed. */
TlsNames options_tls_names(const Options *self);

/* Parses the same command line again, and rereads the files. See options_new_from_args(). */
Options *options_new_again(const Options *self, GError **error);
void options_free(Options *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Options, options_free)

/**
 * options_embedded_new:
 * @settings: (nullable): strings of the form "name=value", NULL-terminated; a flag's name without a
 *   value means true
 *
 * Creates the options of an embedded node. Accepts only options that the table marks as embedded,
 * and parses and checks them like snowflaked's command line. All others keep their defaults and
 * have no effect.
 *
 * Returns: (transfer full) (nullable): the options, or %NULL with a one-line GOptionError set
 */
Options *options_embedded_new(const char *const *settings, GError **error);
