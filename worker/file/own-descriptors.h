/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <sys/types.h>

/*
 * Descriptors that a child of fork() must not keep: a lock taken with flock() is let go of when the
 * last descriptor of it is closed, in whatever process, so a child that has one would hold a worker
 * ID for a parent that is dead. A child closes them, and unlocks nothing: that would unlock the
 * parent's.
 *
 * A fork() does not wait while one is opened or closed: that can take as long as a disk hangs.
 *
 * Any thread. Process-wide, as fork() is.
 */

/* As openat(). A file that was opened while a fork() took place, which the child may have without
 * knowing of it, is closed, removed if @flags has O_EXCL, and opened again: after some tries with
 * fork() kept waiting. */
int own_descriptors_open(int directory_fd, const char *path, int flags, mode_t mode);

/* Closes one that was opened so. */
void own_descriptors_close(int fd);

/* Around something else that closes one, such as closedir(). */
void own_descriptors_begin_close(int fd);
void own_descriptors_end_close(int fd);

/* For handlers of pthread_atfork(): before, and in the parent and in the child after it. */
void own_descriptors_hold(void);
void own_descriptors_go_on(void);
void own_descriptors_close_all(void);
