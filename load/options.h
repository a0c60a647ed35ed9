/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/address.h"
#include "common/tls/client.h"
#include "load/wire.h"

/* The options of `snowflakectl bench`. */
typedef struct {
	GPtrArray *servers; /* (element-type Address): at least one; connections use them in turn */
	TlsClient *tls;     /* borrowed; required for servers with TLS; NULL if there are none */
	guint64 timeout_ms; /* time limit for connecting, and for calls in flight at the end */
	LoadWireForm form;
	guint64 connections; /* number of connections of all threads together */
	guint64 in_flight;   /* calls in flight on each connection */
	guint64 threads;
	guint64 idle_connections; /* number of additional open connections without calls */
	double duration_s;        /* length of the measurement */
	double warmup_s;          /* length of the warm-up before the measurement */
	double rate;   /* calls per second, of all connections together; 0 for a closed loop */
	guint64 calls; /* exactly this many calls, all measured; if 0, calls for duration_s */
	gboolean check;
	guint64 given; /* bit set of the options that were set by load_options_set() */
} LoadOptions;

/* The defaults, without servers and timeout. */
#define LOAD_OPTIONS_DEFAULTS                                                                      \
	{                                                                                          \
		.form = {.agent = "snowflakectl", .count = 100}, .connections = 16,                \
		.in_flight = 1, .threads = 1, .duration_s = 5, .warmup_s = 1,                      \
	}

/**
 * load_options_set:
 * @name: name of an option, without dashes
 *
 * Returns: %TRUE, or %FALSE with a GOptionError that names the option, the value and the valid
 *   values; @self is untouched in this case
 */
gboolean load_options_set(LoadOptions *self, const char *name, const char *text,
			  GError **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * load_options_check:
 *
 * Call it after all options are set.
 *
 * Returns: %TRUE, or %FALSE with a GOptionError if options contradict each other, or if an option
 * has no effect in combination with the others
 */
gboolean load_options_check(const LoadOptions *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;
