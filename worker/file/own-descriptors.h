/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Descriptors that a child of fork() must not keep: a lock taken with flock() is let go of when the
 * last descriptor of it is closed, in whatever process, so a child that has one would hold a worker
 * ID for a parent that is dead. A child closes them, and unlocks nothing: that would unlock the
 * parent's.
 *
 * Any thread. Process-wide, as fork() is.
 */

/* Between these two no fork() takes place, if own_descriptors_hold() is a handler of it. For as
 * long as it takes to make a descriptor and add it. */
void own_descriptors_begin(void);
void own_descriptors_end(void);

/* After own_descriptors_begin(). */
void own_descriptors_add(int fd);

/* Closes one that was added. */
void own_descriptors_close(int fd);

/* For handlers of pthread_atfork(): before, and in the parent and in the child after it. */
void own_descriptors_hold(void);
void own_descriptors_go_on(void);
void own_descriptors_close_all(void);
