/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>
#include <sys/types.h>

/*
 * The file of a local socket that listens. It outlives a process that is killed, and nobody can
 * listen there before it is removed. So whoever finds one connects to it: refused, it is stale, and
 * is taken over. Between that and the end of listen() another could do the same, or take a socket
 * for stale that does not listen yet. So all of it is done under a lock on the directory (flock),
 * which leaves no file behind.
 */
typedef struct {
	char *path; /* NULL: none, or it was removed */
	dev_t device;
	ino_t inode;
} SocketFile;

typedef struct {
	mode_t mode; /* of 0777; whoever may write the file may connect */
	gid_t gid;   /* (gid_t)-1: as the directory has it for a new file */
} SocketFileAccess;

/**
 * socket_file_listen:
 * @path: a whole one
 * @out_file: (out): to be removed in the end
 *
 * May wait, for some seconds, for others that start in the directory.
 *
 * Returns: a socket that does not block; or -1 with a GIOError set, which says what to do
 */
int socket_file_listen(const char *path, const SocketFileAccess *access, SocketFile *out_file,
		       GError **error);

/* Removes the file, unless another is in its place by now. Nothing, if there is none. While the
 * socket listens: a file that is stale may be somebody else's the next moment. */
void socket_file_remove(SocketFile *self);
