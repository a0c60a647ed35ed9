/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An epoll instance, a timer for it, and the system calls of a pass. */

/* Returns the descriptor of an epoll instance, or -1 with a GIOError set. */
int poller_new(GError **error);

/* @self: -1 is ignored */
void poller_free(int self);

/* Watches @fd until it is closed, for EPOLLIN at first; its events carry @tag. %FALSE with a
 * GIOError set. */
gboolean poller_add(int self, int fd, void *tag, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* Watches for other events. @fd was added with this @tag. */
void poller_change(int self, int fd, void *tag, guint32 events);

/* A timer that an epoll can wait for, finer than epoll's own limit of whole milliseconds: for the
 * time at which the clock can allow what the first parked call waits for. */
typedef struct {
	int fd;       /* readable when it is time */
	gint64 at_us; /* monotonic; 0: off */
} RetryTimer;

/* %FALSE with a GIOError set. */
gboolean retry_timer_init(RetryTimer *self, GError **error) G_GNUC_WARN_UNUSED_RESULT;

/* A timer whose descriptor is -1 is ignored. */
void retry_timer_clear(RetryTimer *self);

static inline gboolean retry_timer_is_set(const RetryTimer *self)
{
	return self->at_us != 0;
}

/* @at_us: 0: never. Makes no system call if the timer is set to it already. */
void retry_timer_set(RetryTimer *self, gint64 at_us);

/* Resets the timer after its descriptor was readable. */
void retry_timer_silence(RetryTimer *self);

/*
 * The three system calls that each pass makes; they set errno. The C library's wrappers are
 * cancellation points, which cost 45 instructions a call in a process with threads. No thread is
 * cancelled here.
 */

static inline gssize poller_recv(int fd, void *bytes, gsize length, int flags)
{
	return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}

static inline gssize poller_send(int fd, const void *bytes, gsize length, int flags)
{
	return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

static inline int poller_wait(int self, struct epoll_event *events, int most, int timeout_ms)
{
	return (int)syscall(SYS_epoll_pwait, self, events, most, timeout_ms, NULL, 0);
}
