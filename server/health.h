/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "server/service.h"

/*
 * How a server is, in the sense of those who restart it, and of those who send it calls. Any
 * thread.
 */
typedef struct {
	const ServiceConfig *service;
	gint64 check_ms;              /* how often somebody looks whether every thread goes round */
	_Atomic gint64 went_round_us; /* see health_note(); or when the looking begins again */
} Health;

#define HEALTH_CHECK_MS 5000 /* unless somebody wants to hear of it more often */

/* @service: borrowed */
void health_init(Health *self, const ServiceConfig *service);

/* Before there are other threads. */
void health_set_check_ms(Health *self, gint64 check_ms);

/* Every thread goes round. */
void health_note(Health *self);

/* Nobody looks for so long: the thread that does has something else to do. */
void health_put_off_checks(Health *self, gint64 for_ms);

/* Each of these returns (transfer full) (nullable): a line that says why not; %NULL: it is so. */

/* No thread hangs; if one does, only a new process helps. */
char *health_why_not_alive(const Health *self);

/* It is alive, has a worker ID, and enough of its reservation is left: where it
 * cannot be extended, 10 s, or a quarter of its length if that is less. */
char *health_why_not_healthy(const Health *self);

/* It is healthy, and not about to stop: calls should come here. */
char *health_why_not_ready(const Health *self);
