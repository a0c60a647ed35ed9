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

/* The action after the clock stepped back by more than max-ahead behind the last ID. */
typedef enum {
	OPTIONS_CLOCK_STEP_REFUSE,  /* refuse calls until it has caught up */
	OPTIONS_CLOCK_STEP_RECLAIM, /* take another worker ID */
} OptionsClockStep;

/* The values of worker_id that are not numbers. */
typedef enum {
	OPTIONS_WORKER_ID_NONE = -1,
	OPTIONS_WORKER_ID_MAC = -2, /* from here on: taken from the machine */
	OPTIONS_WORKER_ID_IP = -3,
	OPTIONS_WORKER_ID_ORDINAL = -4,
} OptionsWorkerId;

/*
 * The server's options: defaults, then the config file, then the command line. A new option is a
 * row in options-table.c and a field here.
 */
typedef struct {
	/* command line only */
	gboolean help, version, print_config; /* with one of these, the rest is as by default */
	char *config;                         /* a path, or NULL */
	GStrv args;                           /* all of it, to read it again */

	/* addresses */
	GPtrArray *listen;      /* of Address, one or more */
	guint socket_mode;      /* of the file of a local socket, bits of 0777 */
	char *socket_group;     /* its group, a name or a number; NULL: as the directory has it */
	Address *advertise;     /* the address for others; NULL: the first of listen */
	Address *admin_listen;  /* HTTP for operators; NULL: none */
	GPtrArray *admin_hosts; /* of char *: names that its requests may have as Host */

	/* TLS, and who may call; files in the PEM format */
	char *tls_certificate; /* its own; NULL: none */
	char *tls_key;         /* of that; NULL: there is none */
	char *tls_client_ca;   /* CAs that sign clients' certificates; NULL: they need none */
	char *tls_ca;     /* CAs that sign the certificates of other servers; NULL: not given */
	AllowList *allow; /* NULL: all clients */

	/* a relay */
	GPtrArray *relay; /* of Address: the servers whose IDs it hands out; NULL: no relay */
	gboolean relay_discover; /* request the list of other servers */
	char *relay_agent;       /* the useragent that they see */
	gint64 relay_prefetch_ms;
	gint64 relay_max_age_ms;

	/* the worker ID */
	gint64 datacenter_id;  /* fits the layout; -1: not given */
	gint64 worker_id;      /* fits the layout; below 0: an OptionsWorkerId */
	char *state_directory; /* NULL: not given; always so with zookeeper */

	/* ZooKeeper */
	ZookeeperHosts *zookeeper; /* NULL: not given, reservations are in the state directory */
	char *zookeeper_auth;      /* a path, or NULL: no digest */
	gint64 session_timeout_ms;
	gint64 connect_timeout_ms; /* of the first connection */
	gint64 reservation_ms;     /* the longest one */
	gboolean skip_sanity_checks;

	/* IDs */
	Layout layout;
	gint64 max_ahead_ms;
	gint64 max_clock_skew_ms;
	OptionsClockStep on_clock_step;
	gint64 sequence_start; /* a tick starts at a random sequence below this, or as it says */
	gint64 max_batch;
	gint64 max_wait_ms;

	/* connections */
	gint64 threads;
	gint64 max_connections;
	gint64 max_connections_per_address; /* 0: no limit */
	gint64 max_frame_bytes;
	gint64 max_depth;
	gint64 frame_timeout_ms;
	gint64 idle_timeout_ms; /* 0: none */
	gint64 max_pending_bytes;
	gint64 write_timeout_ms;
	gboolean no_fast_path;

	/* the audit log */
	GPtrArray *audit_log; /* of AuditTarget, 0 or more, all different */
	gint64 audit_queue_bytes;

	/* operation */
	gint64 drain_delay_ms;
	gint64 stop_timeout_ms;
	LogLevel log_level;
	LogFormat log_format;

	/* By name (borrowed), the texts that were given last, with semicolons between; or the
	 * default. */
	GHashTable *given;
} Options;

/**
 * options_new_from_args:
 * @argv: with the name of the program first; only read
 *
 * Of an option that the command line repeats, the last counts; --listen and --audit-log add up.
 *
 * Returns: (transfer full) (nullable): the options, checked against each other, or %NULL with an
 * error of one line: the source of the value, its key, the value, the limit, a remedy
 */
Options *options_new_from_args(int argc, char **argv, GError **error);

/* A row of options-table.h. */
typedef struct _OptionSpec OptionSpec;

/* (transfer full) (nullable): the value of an option, as it is written in the file; %NULL: none. */
char *options_text_of(const Options *self, const OptionSpec *spec);

/**
 * options_check_reachable:
 * @address: where the server listens, for the message; clients on other machines can connect to it
 *
 * Checks that a server there does not issue the same IDs as one on another machine with the same
 * options. Without ZooKeeper, no one but the operator can give them different worker IDs.
 *
 * Returns: %FALSE with a GOptionError set if worker-id is missing
 */
gboolean options_check_reachable(const Options *self, const char *address, GError **error);

/* The files for TLS connections to other servers; the names are borrowed. */
TlsNames options_tls_names(const Options *self);

/* Reads the same command line and the current files again; as options_new_from_args(). */
Options *options_new_again(const Options *self, GError **error);
void options_free(Options *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Options, options_free)

/**
 * options_embedded_new:
 * @settings: (nullable): "name=value" each, NULL-terminated; of a flag the name alone is true
 *
 * Makes the options of a node that is embedded in a program: those that the table marks for it,
 * read and checked like snowflaked's command line. All others have their defaults and no effect.
 *
 * Returns: (transfer full) (nullable): the options, or %NULL with a GOptionError of one line
 */
Options *options_embedded_new(const char *const *settings, GError **error);
