/* SPDX-License-Identifier: Apache-2.0 */
#include "node/fork-mark.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

static gsize page_bytes(void)
{
	return (gsize)sysconf(_SC_PAGESIZE);
}

ForkMark *fork_mark_new(GError **error)
{
	void *page = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (page == MAP_FAILED) {
		g_set_error(error, G_FILE_ERROR, g_file_error_from_errno(errno),
			    "cannot map a page of memory: %s", g_strerror(errno));
		return NULL;
	}
	if (madvise(page, page_bytes(), MADV_WIPEONFORK) != 0) {
		g_set_error(
			error, G_FILE_ERROR, g_file_error_from_errno(errno),
			"the kernel cannot wipe memory on fork() (MADV_WIPEONFORK: %s), without "
			"which a child would issue its parent's IDs: Linux 4.14 or later is needed",
			g_strerror(errno));
		munmap(page, page_bytes());
		return NULL;
	}
	*(ForkMark *)page = 1;
	return page;
}

void fork_mark_free(ForkMark *self)
{
	if (self != NULL)
		munmap((void *)self, page_bytes());
}
