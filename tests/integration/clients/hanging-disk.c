/* SPDX-License-Identifier: Apache-2.0 */

/* LD_PRELOAD: renames hang while the file named by DISK_HANGS_IF exists. */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	static int (*real)(int, const char *, int, const char *);
	const char *hangs_if = getenv("DISK_HANGS_IF");

	if (real == NULL)
		real = (int (*)(int, const char *, int, const char *))dlsym(RTLD_NEXT, "renameat");
	while (hangs_if != NULL && access(hangs_if, F_OK) == 0)
		poll(NULL, 0, 10);
	return real(from_fd, from, to_fd, to);
}
