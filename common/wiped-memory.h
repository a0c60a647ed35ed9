/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * Memory that the kernel fills with zeros in every child of this process, however the child was
 * made: by fork(), _Fork() or clone() (MADV_WIPEONFORK, Linux 4.14). What stands in it is then in
 * one process only.
 */

/* @bytes: rounded up to pages. Filled with zeros; the pages are taken when they are written to.
 * Returns: (nullable): %NULL, with G_FILE_ERROR set, if the kernel does not wipe memory, or an
 * emulator takes every advice and does nothing, as qemu-user does */
void *wiped_memory_new(gsize bytes, GError **error);

/* @self: (nullable); @bytes: as they were asked for */
void wiped_memory_free(void *self, gsize bytes);
