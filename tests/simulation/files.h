/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "tests/simulation/disk.h"
#include "tests/simulation/world.h"

/*
 * Processes that use the disk of disk.h. The linker replaces the system calls of worker/file/, and
 * the GLib functions that make such calls, with functions of files.c.
 *
 * Before each system call a hook can make the call fail, let time pass while other processes run,
 * or kill the process.
 *
 * A pthread mutex does nothing: all processes of a world share one thread and one memory.
 */
typedef struct {
	WorldMachine *machine;
	int pid;
	guint machine_id; /* content of /etc/machine-id; 0 if there is no such file */
	guint64 n_calls;  /* system calls so far */
	gboolean has_ended;
	gpointer user_data;
	/* private */
	gpointer kill_point;
} FilesProcess;

/* The outcome of a system call. */
typedef enum {
	FILES_WORKS,
	FILES_FAILS,       /* without an effect */
	FILES_FAILS_AFTER, /* with its effect */
} FilesOutcome;

/* @out_errno: (out): the error, if the call fails */
typedef FilesOutcome (*FilesHook)(FilesProcess *process, const char *call, int *out_errno);

void files_init(gboolean is_ordered);
void files_clear(void);

/* (nullable) */
void files_set_hook(FilesHook hook);

/* Faults of the disk, for all processes. */
typedef struct {
	gboolean is_full;
	gboolean is_read_only;
	int sync_errno; /* error of fsync(); 0 if none */
	gint64 sync_us; /* duration of fsync() */
} FilesDisk;
FilesDisk *files_disk(void);

/* Returns: (transfer full) */
FilesProcess *files_process_new(WorldMachine *machine, guint machine_id);
void files_process_free(FilesProcess *process);

/* Runs @call as @process. Returns: %FALSE if the process has been killed, possibly during @call:
 * its memory may be in any state then, and must not be used */
gboolean files_run(FilesProcess *process, void (*call)(gpointer data), gpointer data);

/* Kills a process: closes its descriptors and releases its locks. Within files_run() it ends at the
 * current system call. */
void files_kill(FilesProcess *process);

/* Lets time pass within a system call. The events of that time run. */
void files_wait_us(gint64 us);
