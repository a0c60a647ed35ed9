/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* A timer that an epoll can wait for, finer than its own limit of whole milliseconds: then the
 * clock may allow what the first of the parked waits for. */
typedef struct {
	int fd;       /* readable when it is time */
	gint64 at_us; /* monotonic; 0: off */
} RetryTimer;

/* %FALSE with a GIOError set. */
gboolean retry_timer_init(RetryTimer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Also one whose descriptor is -1. */
void retry_timer_clear(RetryTimer *self);

static inline gboolean retry_timer_is_set(const RetryTimer *self)
{
	return self->at_us != 0;
}

/* @at_us: 0: never. Costs nothing if that is what it is set to. */
void retry_timer_set(RetryTimer *self, gint64 at_us);

/* After its descriptor was readable. */
void retry_timer_silence(RetryTimer *self);
