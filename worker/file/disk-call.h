/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/*
 * System calls that can wait for a disk without a limit. During such a call, fork() does not wait
 * for the thread (common/fork-guard.h), and other threads can see the call.
 *
 * The state belongs to the process: only the call that began last is visible. In a server, only the
 * keeper's thread makes such calls. With several nodes in a process, a hanging call is no longer
 * visible after another call has ended.
 */

/**
 * disk_call_begin:
 * @operation: the verb for messages, for example "sync"; static
 * @directory: (nullable): borrowed until disk_call_end()
 * @name: (nullable): file in the directory, or a path below it; borrowed until disk_call_end()
 */
void disk_call_begin(const char *operation, const char *directory, const char *name);

/* Ends the call. Keeps errno. */
void disk_call_end(void);

/* Evaluates the expression @call, which makes a system call, and has its value. */
#define DISK_CALL(operation, directory, name, call)                                                \
	({                                                                                         \
		__typeof__(call) result_;                                                          \
		disk_call_begin(operation, directory, name);                                       \
		result_ = call;                                                                    \
		disk_call_end();                                                                   \
		result_;                                                                           \
	})

/* A call in progress. */
typedef struct {
	guint64 number;        /* number of the call, from 1 */
	const char *operation; /* static */
	char *path;            /* "": unknown */
	gint64 began_us;       /* monotonic time of its start */
} DiskCall;

void disk_call_clear(DiskCall *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(DiskCall, disk_call_clear)

/* Any thread. Finds the call in progress. @out_call: untouched unless %TRUE. Returns: %FALSE if
 * there is none */
gboolean disk_call_find(DiskCall *out_call);

/* Any thread: returns: (transfer full) (nullable): describes the call if it has taken @least_us or
 * longer. */
char *disk_call_describe_hanging(gint64 least_us);

/* Handlers for pthread_atfork(): before the fork, and after it in the parent and in the child. In
 * the child, no call is in progress. */
void disk_call_hold(void);
void disk_call_go_on(void);
void disk_call_go_on_in_child(void);
