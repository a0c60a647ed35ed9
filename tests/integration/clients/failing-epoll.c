/* SPDX-License-Identifier: Apache-2.0 */

/* To be loaded before the C library: epoll_wait() fails once the file exists that EPOLL_FAILS_IF
 * names. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

typedef int (*EpollWait)(int, struct epoll_event *, int, int);

int epoll_wait(int epoll_fd, struct epoll_event *events, int max_events, int timeout_ms)
{
	const char *path = getenv("EPOLL_FAILS_IF");
	EpollWait real;

	if (path != NULL && access(path, F_OK) == 0) {
		errno = EBADF;
		return -1;
	}
	*(void **)&real = dlsym(RTLD_NEXT, "epoll_wait");
	return real(epoll_fd, events, max_events, timeout_ms);
}
