/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

/* Functions for system calls that can wait for a disk without a time limit. During such a call,
 * fork() does not wait for the thread (common/fork-guard.h), and other threads can see the call.
 *
 * The state belongs to the process: only the call that began last is visible. In a server, only the
 * keeper's thread makes such calls. If a process contains several nodes, a hanging call is no
 * longer visible after another call has ended.
 */

/* @operation: the verb for messages, for example "sync"; static
 * @directory: (nullable): borrowed until disk_call_end()
 * @name: (nullable): file in the directory, or a path below it; borrowed until disk_call_end() */
void disk_call_begin(const char *operation, const char *directory, const char *name);

/* Ends the call. Preserves errno. */
void disk_call_end(void);

/* Evaluates the expression @call, which makes a system call. The result is its value. */
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
	guint64 number;        /* number of the call, counted from 1 */
	const char *operation; /* static */
	char *path;            /* "": unknown */
	gint64 began_us;       /* monotonic time of its start */
} DiskCall;

void disk_call_clear(DiskCall *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(DiskCall, disk_call_clear)

/* Finds the call in progress. Can be called from any thread. @out_call: untouched if there is none.
 * Returns: %FALSE if there is none */
gboolean disk_call_find(DiskCall *out_call);

/* Can be called from any thread. Returns: (transfer full) (nullable): a description of the call in
 * progress, if it has taken @least_us or longer. */
char *disk_call_describe_hanging(gint64 least_us);

/* Handlers for pthread_atfork(): before the fork, and after it in the parent and in the child. In
 * the child, no call is in progress. */
void disk_call_hold(void);
void disk_call_go_on(void);
void disk_call_go_on_in_child(void);
