/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/*
 * Descriptors that a child of fork() must not keep: a lock taken with flock() is let go of when the
 * last descriptor of it is closed, in whatever process, so a child that has one would hold a worker
 * ID for a parent that is dead. A child closes them, and unlocks nothing: that would unlock the
 * parent's.
 *
 * A fork() does not wait while a descriptor is opened or closed, because a disk can hang in it.
 *
 * Any thread. Process-wide, as fork() is.
 */

/* Calls openat() and notes the descriptor. If a fork() took place meanwhile, the child may have an
 * unnoted copy. Then the file is closed, removed if @flags has O_EXCL, and opened again; after
 * three tries with fork() kept waiting. */
int own_descriptors_open(int directory_fd, const char *path, int flags, mode_t mode);

/* Closes a descriptor of own_descriptors_open(). */
void own_descriptors_close(int fd);

/* Enclose another call that closes such a descriptor, for example closedir(). */
void own_descriptors_begin_close(int fd);
void own_descriptors_end_close(int fd);

/* For handlers of pthread_atfork(): before, and in the parent and in the child after it. */
void own_descriptors_hold(void);
void own_descriptors_go_on(void);
void own_descriptors_close_all(void);
