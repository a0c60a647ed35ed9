/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <fcntl.h>
#include <glib.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Returns the number of open descriptors, including the one for the count itself. A test uses it to
 * detect a leak. */
static inline guint count_open_fds(void)
{
	g_autoptr(GDir) dir = g_dir_open("/proc/self/fd", 0, NULL);
	guint count = 0;

	while (g_dir_read_name(dir) != NULL)
		count++;
	return count;
}

/* Returns the number of open sockets. */
static inline guint count_open_sockets(void)
{
	g_autoptr(GDir) dir = g_dir_open("/proc/self/fd", 0, NULL);
	const char *name;
	guint count = 0;

	while ((name = g_dir_read_name(dir)) != NULL) {
		struct stat status;

		if (fstat(atoi(name), &status) == 0 && S_ISSOCK(status.st_mode))
			count++;
	}
	return count;
}

/* Descriptors that fill the table, so that no more can be opened, and the earlier limit. */
typedef struct {
	struct rlimit limit;
	GArray *fds;
} TakenFds;

/* Takes all descriptors below 128 except @n_left. */
static inline TakenFds take_fds(guint n_left)
{
	TakenFds self = {.fds = g_array_new(FALSE, FALSE, sizeof(int))};
	struct rlimit low;
	int fd;

	g_assert_cmpint(getrlimit(RLIMIT_NOFILE, &self.limit), ==, 0);
	low = (struct rlimit){MIN(self.limit.rlim_cur, 128), self.limit.rlim_max};
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &low), ==, 0);
	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		g_array_append_val(self.fds, fd);
	for (guint i = 0; i < n_left; i++)
		close(g_array_index(self.fds, int, i));
	g_array_remove_range(self.fds, 0, n_left);
	return self;
}

static inline void give_back_fds(TakenFds *self)
{
	for (guint i = 0; i < self->fds->len; i++)
		close(g_array_index(self->fds, int, i));
	g_array_unref(self->fds);
	g_assert_cmpint(setrlimit(RLIMIT_NOFILE, &self->limit), ==, 0);
}
