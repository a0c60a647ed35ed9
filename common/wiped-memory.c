/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wiped-memory.h"

#include <errno.h>
#include <sys/mman.h>

#define NO_ADVICE (-1) /* Linux refuses it with EINVAL */

static gboolean advise(void *self, gsize bytes, GError **error)
{
	gboolean is_believed = madvise(self, bytes, NO_ADVICE) != 0;

	if (is_believed && madvise(self, bytes, MADV_WIPEONFORK) == 0)
		return TRUE;
	g_set_error(error, G_FILE_ERROR, G_FILE_ERROR_NOSYS,
		    "memory cannot be wiped on fork() (MADV_WIPEONFORK: %s), without which a child "
		    "would issue its parent's IDs: Linux 4.14 or later is needed%s",
		    is_believed ? g_strerror(errno) : "every advice is accepted and ignored",
		    is_believed ? "" : ", and no emulation of it, such as qemu-user");
	return FALSE;
}

void *wiped_memory_new(gsize bytes, GError **error)
{
	void *self = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (self == MAP_FAILED) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
			    "cannot map %zu bytes of memory: %s", bytes, g_strerror(errno));
		return NULL;
	}
	if (advise(self, bytes, error))
		return self;
	munmap(self, bytes);
	return NULL;
}

void wiped_memory_free(void *self, gsize bytes)
{
	if (self != NULL)
		munmap(self, bytes);
}
