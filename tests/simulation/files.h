/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

#include "tests/simulation/disk.h"
#include "tests/simulation/world.h"

/*
 * Processes that use the disk of disk.h. The linker puts files.c in the place of the system calls
 * that worker/file/ makes, and of the GLib functions that make some for it.
 *
 * Before each system call a hook decides what happens there: the call fails, time passes and other
 * processes run, or the process is killed in the middle of what it does.
 *
 * A mutex of pthread does nothing: all processes of a world share one thread and one memory.
 */
typedef struct {
	WorldMachine *machine;
	int pid;
	guint machine_id; /* what /etc/machine-id says; 0: there is none */
	guint64 n_calls;  /* system calls so far */
	gboolean has_ended;
	gpointer user_data;
	/* private */
	gpointer life;
} FilesProcess;

/* What becomes of a system call. */
typedef enum {
	FILES_WORKS,
	FILES_FAILS,       /* nothing is done */
	FILES_FAILS_AFTER, /* it is done, and reported as failed */
} FilesOutcome;

/* @out_errno: (out): of a call that fails */
typedef FilesOutcome (*FilesHook)(FilesProcess *process, const char *call, int *out_errno);

void files_init(gboolean is_ordered);
void files_clear(void);

/* (nullable) */
void files_set_hook(FilesHook hook);

/* The state of the disk, which no call passes by. */
typedef struct {
	gboolean is_full;
	gboolean is_read_only;
	int sync_errno; /* an fsync() fails; 0: it works */
	gint64 sync_us; /* how long it takes */
} FilesDisk;
FilesDisk *files_disk(void);

/* (transfer full) */
FilesProcess *files_process_new(WorldMachine *machine, guint machine_id);
void files_process_free(FilesProcess *process);

/* Runs @call as @process. Returns %FALSE if it has been killed, maybe in the middle of it: what it
 * had in memory is then as it was at that moment, and must not be used. */
gboolean files_run(FilesProcess *process, void (*call)(gpointer data), gpointer data);

/* Kills it: its descriptors are closed, and its locks gone. Within files_run() it ends at the
 * system call that it has reached. */
void files_kill(FilesProcess *process);

/* Lets time pass within a system call; the events of that time run meanwhile. */
void files_wait_us(gint64 us);
