/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * System calls that can wait for a disk, for as long as the disk takes. While a thread is in one,
 * fork() does not wait for that thread (common/fork-guard.h), and other threads can see the call.
 *
 * Process-wide: the call that began last is shown. In a server only the keeper's thread makes such
 * calls. With several nodes in a process, a call that hangs is not shown after another has ended.
 */

/**
 * disk_call_begin:
 * @operation: the verb for messages, for example "sync"; static
 * @directory: (nullable): borrowed until disk_call_end()
 * @name: (nullable): file in the directory, or a path below it; borrowed until disk_call_end()
 */
void disk_call_begin(const char *operation, const char *directory, const char *name);

/* Leaves errno as it is. */
void disk_call_end(void);

/* The value of the expression @call, which makes a system call. */
#define DISK_CALL(operation, directory, name, call)                                                \
	({                                                                                         \
		__typeof__(call) result_;                                                          \
		disk_call_begin(operation, directory, name);                                       \
		result_ = call;                                                                    \
		disk_call_end();                                                                   \
		result_;                                                                           \
	})

/* A call that is under way. */
typedef struct {
	guint64 number;        /* of the call, from 1 */
	const char *operation; /* static */
	char *path;            /* "": not known */
	gint64 began_us;       /* monotonic */
} DiskCall;

void disk_call_clear(DiskCall *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(DiskCall, disk_call_clear)

/* Any thread. @out_call: untouched unless %TRUE. Returns: %FALSE if no call is under way */
gboolean disk_call_find(DiskCall *out_call);

/* Any thread: (transfer full) (nullable): describes the call if it has taken @least_us or longer.
 */
char *disk_call_describe_hanging(gint64 least_us);

/* For handlers of pthread_atfork(): before, and in the parent and in the child after it. In the
 * child no call is under way. */
void disk_call_hold(void);
void disk_call_go_on(void);
void disk_call_go_on_in_child(void);
