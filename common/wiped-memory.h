/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Memory that the kernel fills with zeros in every child of this process, whether fork(), _Fork()
 * or clone() made it (MADV_WIPEONFORK, Linux 4.14). So only one process has its contents.
 */

/* @bytes: rounded up to pages. The memory is filled with zeros, and uses pages only once they are
 * written. Returns: (nullable): %NULL, with G_FILE_ERROR set, if the kernel cannot wipe memory, or
 * an emulator accepts every advice and ignores it, as qemu-user does */
void *wiped_memory_new(gsize bytes, GError **error);

/* @self: (nullable); @bytes: as given to wiped_memory_new() */
void wiped_memory_free(void *self, gsize bytes);
