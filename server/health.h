/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/service.h"

/* Determines whether a server is alive, for supervisors that restart it, and whether it is healthy
 * and ready, for load balancers. Thread-safe. */
typedef struct {
	const ServiceConfig *service;
	gint64 check_ms; /* interval of the watchdog's checks; set before there are other threads */
	_Atomic gint64 progress_at_us; /* time of the last health_note(), plus its @for_ms */
} Health;

#define HEALTH_CHECK_MS 5000 /* interval, unless systemd's watchdog needs a shorter one */

/* @service: borrowed */
void health_init(Health *self, const ServiceConfig *service);

/* Records that every thread has made progress. @for_ms: how long there are no checks, because their
 * thread is busy; 0 if they continue */
void health_note(Health *self, gint64 for_ms);

/* Each of these functions returns (transfer full) (nullable): a line that says why the condition in
 * its comment is not met; %NULL if it is met. */

/* Condition: the server is alive, that is, no thread hangs. If a thread hangs, only a restart
 * helps. */
char *health_why_not_alive(const Health *self);

/* Condition: the server is healthy, that is, it is alive, has a worker ID, and enough of its
 * reservation is left. If the reservation cannot be extended, 10 s must be left, or a quarter of
 * its length if that is less. */
char *health_why_not_healthy(const Health *self);

/* Condition: the server is ready, that is, it is healthy and is not draining, so calls can be
 * sent to it. */
char *health_why_not_ready(const Health *self);
