/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/files.h"
#include "tests/simulation/server.h"

/*
 * A host: servers that share one simulated disk (files.h), its power and one clock. They keep their
 * reservations in state directories. IDs are drawn from them from time to time.
 */
typedef struct {
	Server server; /* first */
	const char *directory;
	guint machine_id;
	FilesProcess *process; /* its current process */
	gint64 draws_us;       /* maximum interval between two draws; 0 for no draws */
	gint64 quiet_until_us; /* no draws before this time */
} HostServer;

#define HOST_SERVERS   3
#define HOST_DIRECTORY "/var/lib/snowflaked"

extern HostServer host_servers[HOST_SERVERS];

/* Initializes servers that are down, with worker ID 0 of HOST_DIRECTORY. @is_ordered: see disk.h.
 */
void host_init(gboolean is_ordered);
void host_clear(void);

/* Starts the second server, and draws from it. It is not restarted after its end. */
void host_start_second(void);

/* Returns: the server of a process, for a hook */
HostServer *host_server_of(const FilesProcess *process);

/* Kills all servers and loses unsynced changes. Servers that were up start again after
 * @restart_after_us. Does nothing while a server's machine is suspended. */
void host_fail_power(DiskLoss loss, gint64 restart_after_us);

/* Steps the clock of all servers. */
void host_step_clock(gint64 by_us);

/* Sets the clock of all servers right. */
void host_correct_clock(void);

/* Forgets the IDs that were issued so far: the state directory has been replaced, so they can be
 * issued again. For a tenth of a second, in which servers detect the change, no IDs are drawn. */
void host_begin_history(void);

/* Runs the world until @server serves and a draw succeeds. Fails if that takes longer than
 * @limit_us. */
void host_expect_serving(HostServer *server, gint64 limit_us);

/* Runs the world until @server has ended with an error that contains @text, for 10 s at most. The
 * server stays down. */
void host_expect_refusal(HostServer *server, const char *text);

/* Fails if a server has left a temporary file in @path, or a mode that is not owner-only. */
void host_expect_tidy(const char *path);
