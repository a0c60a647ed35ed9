/* SPDX-License-Identifier: Apache-2.0 */

/* Loaded before the C library (LD_PRELOAD). Once the file named by EPOLL_FAILS_IF exists,
 * epoll_pwait(), which is called through syscall(), fails in the first thread that calls it, and in
 * no other thread. */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef long (*Syscall)(long, ...);

static bool fails(void)
{
	static _Atomic pid_t failing;
	const char *path = getenv("EPOLL_FAILS_IF");
	pid_t first = 0;

	if (path == NULL || access(path, F_OK) != 0)
		return false;
	return atomic_compare_exchange_strong(&failing, &first, gettid()) || first == gettid();
}

long syscall(long number, ...)
{
	long arguments[6];
	Syscall real;
	va_list list;

	if (number == SYS_epoll_pwait && fails()) {
		errno = EBADF;
		return -1;
	}
	va_start(list, number);
	for (unsigned i = 0; i < sizeof arguments / sizeof *arguments; i++)
		arguments[i] = va_arg(list, long);
	va_end(list);
	*(void **)&real = dlsym(RTLD_NEXT, "syscall");
	return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
		    arguments[5]);
}
