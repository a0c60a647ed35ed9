/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

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
