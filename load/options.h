/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/address.h"
#include "common/tls/client.h"
#include "load/wire.h"

/* What a load is to be: the options of `snowflakectl bench`. */
typedef struct {
	GPtrArray *servers; /* of Address; one at least. Connections are dealt out over them */
	TlsClient *tls;     /* for servers with TLS; borrowed; NULL: there is none */
	guint64 timeout_ms; /* for a connection, and for what is in flight at the end */
	LoadWireForm form;
	guint64 connections; /* of all threads together */
	guint64 in_flight;   /* calls, on each connection */
	guint64 threads;
	guint64 idle_connections; /* that are open beside, and silent */
	double duration_s;        /* of what is measured */
	double warmup_s;          /* load before that */
	double rate;   /* calls a second, of all connections together; 0: a closed loop */
	guint64 calls; /* exactly so many, all measured; 0: as long as duration_s */
	gboolean check;
	guint64 given; /* of load_options_set() */
} LoadOptions;

/* As long as nothing is set; without servers and timeout. */
#define LOAD_OPTIONS_DEFAULTS                                                                      \
	{                                                                                          \
		.form = {.agent = "snowflakectl", .count = 100}, .connections = 16,                \
		.in_flight = 1, .threads = 1, .duration_s = 5, .warmup_s = 1,                      \
	}

/**
 * load_options_set:
 * @name: of an option, without dashes; one that load_options_set() knows
 *
 * Returns: %TRUE, or %FALSE with a GOptionError that names the option, the value, and what it may
 *   be; @self is untouched then
 */
gboolean load_options_set(LoadOptions *self, const char *name, const char *text,
			  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * load_options_check:
 *
 * Once all is set.
 *
 * Returns: %TRUE, or %FALSE with a GOptionError if options contradict each other, or one has no
 *   effect beside the others
 */
gboolean load_options_check(const LoadOptions *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;
