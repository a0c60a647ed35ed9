/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/address.h"
#include "common/tls/client.h"
#include "load/wire.h"

/* What to do in a run. `snowflakectl bench` checks the ranges. */
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
} LoadOptions;

/* The defaults, without servers and timeout. */
#define LOAD_OPTIONS_DEFAULTS                                                                      \
	{                                                                                          \
		.form = {.agent = "snowflakectl", .count = 100}, .connections = 16,                \
		.in_flight = 1, .threads = 1, .duration_s = 5, .warmup_s = 1,                      \
	}
