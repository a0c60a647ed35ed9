/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * The three system calls that each call of a client takes, as the kernel has them: errno is set as
 * ever. Those of the C library are cancellation points too, for which a process with threads pays
 * 45 instructions each time; no thread is cancelled here.
 */

static inline gssize system_call_recv(int fd, void *bytes, gsize length, int flags)
{
	return syscall(SYS_recvfrom, fd, bytes, length, flags, NULL, NULL);
}

static inline gssize system_call_send(int fd, const void *bytes, gsize length, int flags)
{
	return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

static inline int system_call_epoll_wait(int epoll, struct epoll_event *events, int most,
					 int timeout_ms)
{
	return (int)syscall(SYS_epoll_pwait, epoll, events, most, timeout_ms, NULL, 0);
}
