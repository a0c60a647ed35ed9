/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* A server, as the registry shows it to others. */
typedef struct {
	gint datacenter_id;
	gint worker_id; /* -1: none yet */
	char *address;  /* host:port */
	char *nonce;
	gint64 claimed_at_ms;     /* since the Unix epoch: when the claim was made */
	gint64 reserved_until_ms; /* since the Unix epoch; 0: nothing is reserved */
} Worker;

void worker_free(Worker *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Worker, worker_free)
