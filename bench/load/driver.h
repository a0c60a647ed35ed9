/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>

#include "bench/load/connection.h"
#include "bench/load/id-log.h"
#include "bench/load/tally.h"

/*
 * One thread of load: an epoll loop over connections of its own. A closed loop: every connection
 * has all its slots in flight, and a call is sent for every reply that comes. After the measured
 * time nothing is sent any more, and what is in flight has DRIVER_DRAIN_MS to be answered; a call
 * that is not is an error. The connections are closed at the end.
 */
typedef struct _Driver Driver;

#define DRIVER_DRAIN_MS 2000

typedef struct {
	const Wire *wire; /* borrowed */
	/* CLOCK_MONOTONIC; the replies that come in this time are measured. */
	gint64 measure_from_ns;
	gint64 measure_until_ns;
	IdLog *id_log; /* (nullable), borrowed: also checks that IDs increase on each connection */
} DriverConfig;

/**
 * driver_new:
 * @connections: (transfer full) (element-type Connection): with connection_free() as free function
 *
 * Returns: (transfer full): or %NULL with an error of GIO
 */
Driver *driver_new(GPtrArray *connections, GError **error);
void driver_free(Driver *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Driver, driver_free)

/* Starts the thread; that it does not start is an error in the tally. @config is copied. */
void driver_start(Driver *self, const DriverConfig *config);

/**
 * driver_wait:
 * @deadline_realtime: (nullable): CLOCK_REALTIME; for ever if %NULL
 *
 * Returns: %TRUE when the thread has ended
 */
gboolean driver_wait(Driver *self, const struct timespec *deadline_realtime);

/* Once driver_wait() has returned %TRUE: what it came to. */
const Tally *driver_tally(const Driver *self);

/* Any thread, while it runs: calls answered and errors so far. */
guint64 driver_answered(const Driver *self);
guint64 driver_errors(const Driver *self);

/* CLOCK_MONOTONIC. */
gint64 driver_now_ns(void);
