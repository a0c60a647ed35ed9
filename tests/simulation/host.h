/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tests/simulation/files.h"
#include "tests/simulation/server.h"

/*
 * A host: servers that keep their reservations in directories of one simulated disk (files.h), and
 * share its power and its clock. Their IDs are drawn from time to time.
 */
typedef struct {
	Server server; /* first */
	const char *directory;
	guint machine_id;
	FilesProcess *process; /* of this life */
	gint64 draws_us;       /* the longest pause between two draws; 0: nobody draws */
	gint64 quiet_until_us; /* nobody draws before */
} HostServer;

#define HOST_SERVERS   3
#define HOST_DIRECTORY "/var/lib/snowflaked"

extern HostServer host_servers[HOST_SERVERS];

/* @is_ordered: see disk.h. All servers are down, with worker ID 0 of HOST_DIRECTORY. */
void host_init(gboolean is_ordered);
void host_clear(void);

/* The server whose system call a hook is asked about. */
HostServer *host_server_of(const FilesProcess *process);

/* Kills all servers and loses what the disk does not keep. Those that were up start again after
 * @restart_after_us. Nothing happens while one of them sleeps. */
void host_fail_power(DiskLoss loss, gint64 restart_after_us);

/* Steps the clock of all servers. */
void host_step_clock(gint64 by_us);

/* Sets it right. */
void host_correct_clock(void);

/* The directory is another one from now on: what was issued before counts no longer. Servers that
 * have reserved in the one before get a tenth of a second to notice; nobody draws till then. */
void host_begin_history(void);

/* Runs the world until @server serves, and draws from it. Fails if that takes longer than
 * @limit_us. */
void host_expect_serving(HostServer *server, gint64 limit_us);

/* Runs the world until @server has ended with an error that says @text, within 10 s. It stays down.
 */
void host_expect_refusal(HostServer *server, const char *text);

/* Fails unless @path has only what a server leaves there, for its owner only. */
void host_expect_tidy(const char *path);
