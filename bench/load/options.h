/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "bench/load/wire.h"
#include "common/address.h"

/* What the command line asks for. */
typedef struct {
	Address *server;
	char *agent;
	WireCall call;
	int count; /* of IDs in a call of get_ids */
	int connections;
	int in_flight;
	int threads;
	double duration_s;
	double warmup_s;
	gboolean check;
	int check_limit; /* IDs */
	gboolean json;
} Options;

/* Returns: (transfer full): or %NULL with an error that says what is wrong with the command line */
Options *options_parse(int *argc, char ***argv, GError **error);
void options_free(Options *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Options, options_free)
