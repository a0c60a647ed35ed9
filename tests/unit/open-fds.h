/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <fcntl.h>
#include <glib.h>
#include <sys/resource.h>
#include <unistd.h>

/* How many descriptors this process has open, that of the count itself included: so a test sees
 * whether one was left. */
static inline guint count_open_fds(void)
{
	g_autoptr(GDir) dir = g_dir_open("/proc/self/fd", 0, NULL);
	guint count = 0;

	while (g_dir_read_name(dir) != NULL)
		count++;
	return count;
}

/* The descriptors that are taken, so that no more can be opened, and the limit that there was. */
typedef struct {
	struct rlimit limit;
	GArray *fds;
} TakenFds;

/* Takes all descriptors below 128 but @n_left. */
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
