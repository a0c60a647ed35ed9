/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "tests/simulation/directory-changes.h"
#include "tests/simulation/driver.h"
#include "tests/simulation/host.h"

/*
 * The promises of docs/uniqueness.md for state directories: each fault and each operator error that
 * it names, on a simulated disk.
 */

static HostServer *const first = &host_servers[0], *const second = &host_servers[1];

/* A fault at one system call of the first server's first process */

typedef enum {
	KILL,
	POWER_FAILURE,
	ERROR,
	ERROR_AFTER,
	PAUSE,             /* the second server starts meanwhile */
	PAUSE_AND_REPLACE, /* the second server starts on a new directory */
	PAUSE_AND_UNLOCK,  /* the second server starts after the lock file is removed */
	DISK_FULL,
	DISK_READ_ONLY,
	DISK_SLOW,
	SYNCS_FAIL, /* all syncs fail; later a power failure loses unsynced changes */
} Fault;

typedef struct {
	Fault fault;
	gboolean is_ordered;
	int value; /* an errno, a DiskLoss, or a pause in ms */
} CallFault;

static const CallFault CALL_FAULTS[] = {
	{KILL, TRUE, 0},
	{POWER_FAILURE, TRUE, DISK_KEEPS_ALL},
	{POWER_FAILURE, TRUE, DISK_LOSES_ALL},
	{POWER_FAILURE, FALSE, DISK_LOSES_ALL},
	{POWER_FAILURE, TRUE, DISK_DRAWS},
	{POWER_FAILURE, FALSE, DISK_DRAWS},
	{ERROR, TRUE, ENOSPC},
	{ERROR, TRUE, EIO},
	{ERROR, TRUE, EROFS},
	{ERROR, TRUE, EMFILE},
	{ERROR_AFTER, TRUE, EIO},
	{PAUSE, TRUE, 3000},
	{PAUSE_AND_REPLACE, TRUE, 3000},
	{PAUSE_AND_UNLOCK, TRUE, 3000},
	/* the second server issues IDs, and the end that the first one requests is in the future */
	{PAUSE_AND_UNLOCK, TRUE, 800},
	{DISK_FULL, TRUE, 0},
	{DISK_READ_ONLY, TRUE, 0},
	{DISK_SLOW, TRUE, 0},
	{SYNCS_FAIL, FALSE, EIO},
};

#define SLOW_US       SECONDS(3)
#define STEPS_BACK_US SECONDS(3)

static struct {
	CallFault what;
	guint64 at_call;
	guint64 n_calls;
	guint n_looks; /* stat calls in a row */
	gboolean happened;
} planned;

static void on_disk_healthy(gpointer data G_GNUC_UNUSED, guint64 tag G_GNUC_UNUSED)
{
	*files_disk() = (FilesDisk){0};
}

static void on_power_failure(gpointer data G_GNUC_UNUSED, guint64 tag G_GNUC_UNUSED)
{
	*files_disk() = (FilesDisk){0};
	host_fail_power(DISK_LOSES_ALL, MS(10));
	host_step_clock(-STEPS_BACK_US);
}

static void replace_directory(void)
{
	disk_remove_all(HOST_DIRECTORY);
	host_begin_history();
}

static void remove_locks(void)
{
	if (disk_find(disk_root(), HOST_DIRECTORY "/worker-0-0.lock") != NULL)
		disk_remove_all(HOST_DIRECTORY "/worker-0-0.lock");
}

static FilesOutcome do_planned(int *out_errno)
{
	switch (planned.what.fault) {
	case KILL:
		server_kill(&first->server, MS(10));
		host_step_clock(-STEPS_BACK_US);
		break;
	case POWER_FAILURE:
		host_fail_power((DiskLoss)planned.what.value, MS(10));
		host_step_clock(-STEPS_BACK_US);
		break;
	case ERROR:
		*out_errno = planned.what.value;
		return FILES_FAILS;
	case ERROR_AFTER:
		*out_errno = planned.what.value;
		return FILES_FAILS_AFTER;
	case PAUSE_AND_REPLACE:
		if (disk_find(disk_root(), HOST_DIRECTORY) != NULL)
			replace_directory();
		host_start_second();
		server_pause(&first->server, MS(planned.what.value));
		break;
	case PAUSE_AND_UNLOCK:
		remove_locks();
		host_start_second();
		server_pause(&first->server, MS(planned.what.value));
		break;
	case PAUSE:
		host_start_second();
		server_pause(&first->server, MS(planned.what.value));
		break;
	case DISK_FULL:
		files_disk()->is_full = TRUE;
		break;
	case DISK_READ_ONLY:
		files_disk()->is_read_only = TRUE;
		break;
	case DISK_SLOW:
		files_disk()->sync_us = SLOW_US;
		break;
	case SYNCS_FAIL:
		files_disk()->sync_errno = planned.what.value;
		break;
	}
	if (planned.what.fault == SYNCS_FAIL)
		world_after(SECONDS(2), on_power_failure, NULL, 0);
	else if (planned.what.fault >= DISK_FULL)
		world_after(SECONDS(2), on_disk_healthy, NULL, 0);
	return FILES_WORKS;
}

static FilesOutcome fail_at_call(FilesProcess *process, const char *call, int *out_errno)
{
	/* the checks of an idle directory are all alike: try two of them */
	planned.n_looks = g_str_equal(call, "stat") ? planned.n_looks + 1 : 0;
	if (planned.happened || process != first->process || first->server.n_starts > 1 ||
	    planned.n_looks > 2 || ++planned.n_calls != planned.at_call)
		return FILES_WORKS;
	planned.happened = TRUE;
	return do_planned(out_errno);
}

/* Fails unless the first server, which is started until it succeeds, or the second serves. */
static void expect_one_serving(gint64 limit_us)
{
	gint64 by_us = world_now_us() + limit_us;

	while (world_now_us() <= by_us) {
		server_start(&first->server);
		for (guint i = 0; i < HOST_SERVERS; i++)
			if (server_draw(&host_servers[i].server, 1) == DRAW_OK)
				return;
		world_run_for(MS(50));
	}
	host_expect_serving(first, 0);
}

/* Runs the first server: draws, none for longer than a reservation, draws, stop. */
static void run_first_server(void)
{
	first->draws_us = MS(20);
	server_start(&first->server);
	world_run_for(MS(1200));
	first->draws_us = 0;
	world_run_for(MS(1300));
	first->draws_us = MS(20);
	world_run_for(MS(300));
	server_stop(&first->server, 1000, MS(1));
	world_run_for(MS(50));
}

static gboolean step_call(guint step)
{
	memset(&planned, 0, sizeof(planned));
	planned.what = CALL_FAULTS[step % G_N_ELEMENTS(CALL_FAULTS)];
	planned.at_call = step / G_N_ELEMENTS(CALL_FAULTS) + 1;
	host_init(planned.what.is_ordered);
	files_set_hook(fail_at_call);
	run_first_server();
	host_step_clock(-MS(500));
	expect_one_serving(SLOW_US + STEPS_BACK_US + SECONDS(4));
	world_run_for(SECONDS(5));
	expect_one_serving(SECONDS(2));
	if (!second->server.is_up)
		host_expect_tidy(HOST_DIRECTORY);
	host_clear();
	return planned.happened;
}

/* A server without draws */

#define IDLE_US SECONDS(3600)

static guint64 n_writes;

static FilesOutcome count_writes(FilesProcess *process G_GNUC_UNUSED, const char *call,
				 int *out_errno G_GNUC_UNUSED)
{
	n_writes += g_str_equal(call, "make") || g_str_equal(call, "write") ||
		    g_str_equal(call, "sync");
	return FILES_WORKS;
}

static gboolean step_idle(guint step)
{
	if (step > 0)
		return FALSE;
	host_init(TRUE);
	server_start(&first->server);
	host_expect_serving(first, SECONDS(1));
	world_run_for(SECONDS(2));
	n_writes = first->server.n_rounds = 0;
	files_set_hook(count_writes);
	world_run_for(IDLE_US);
	if (n_writes > 0 || first->server.n_rounds > 11 * (IDLE_US / G_TIME_SPAN_SECOND))
		world_fail("an idle server wrote %" G_GUINT64_FORMAT " times in %" G_GUINT64_FORMAT
			   " rounds",
			   n_writes, first->server.n_rounds);
	host_expect_serving(first, MS(5));
	host_clear();
	return TRUE;
}

/* Random faults of a host for two minutes, then recovery */

#define FAULTS_US    SECONDS(120)
#define MAX_OFF_US   SECONDS(8) /* clock error, either way */
#define RECOVERY_US  (2 * MAX_OFF_US + SECONDS(12))
#define MAX_PAUSE_US SECONDS(4)
#define CALLS_AHEAD  200
#define SLOW_CALLS   0.02
#define SLOW_CALL_US MS(20)

static struct {
	gint64 end_us;
	gboolean has_rivals; /* the first two servers want the same worker ID */
	gboolean has_slow_calls;
	const HostServer *victim; /* server with a fault at a system call ... */
	gint64 n_calls_left;      /* ... that is this many calls ahead */
} drawn;

static const int ERRORS[] = {ENOSPC, EIO, EROFS, EMFILE, EINTR};

static HostServer *draw_server(void)
{
	return &host_servers[world_between(0, HOST_SERVERS - 1)];
}

static gint64 draw_pause_us(void)
{
	return world_scaled(MS(1), MAX_PAUSE_US);
}

static FilesOutcome draw_outcome(HostServer *victim, const char *call, int *out_errno)
{
	switch (world_between(0, 4)) {
	case 0:
		server_kill(&victim->server, draw_pause_us());
		return FILES_WORKS;
	case 1:
		host_fail_power((DiskLoss)world_between(0, DISK_DRAWS), draw_pause_us());
		return FILES_WORKS;
	case 2:
		server_pause(&victim->server, draw_pause_us());
		return FILES_WORKS;
	default:
		*out_errno = ERRORS[world_between(0, G_N_ELEMENTS(ERRORS) - 1)];
		/* on a local disk only reads and writes can fail with EINTR */
		if (*out_errno == EINTR && !g_str_equal(call, "read") &&
		    !g_str_equal(call, "write"))
			*out_errno = EIO;
		return world_odds(0.5) || *out_errno == EINTR ? FILES_FAILS : FILES_FAILS_AFTER;
	}
}

static FilesOutcome draw_fault_at_call(FilesProcess *process, const char *call, int *out_errno)
{
	HostServer *self = host_server_of(process);

	if (drawn.has_slow_calls && world_odds(SLOW_CALLS))
		files_wait_us(world_scaled(1, SLOW_CALL_US));
	if (process->has_ended || self != drawn.victim || --drawn.n_calls_left > 0)
		return FILES_WORKS;
	drawn.victim = NULL;
	return draw_outcome(self, call, out_errno);
}

static void draw_disk(void)
{
	FilesDisk *disk = files_disk();

	*disk = (FilesDisk){0};
	switch (world_between(0, 3)) {
	case 0:
		disk->is_full = TRUE;
		break;
	case 1:
		disk->is_read_only = TRUE;
		break;
	case 2:
		disk->sync_errno = EIO;
		break;
	default:
		disk->sync_us = world_scaled(MS(1), SECONDS(3));
	}
	world_after(world_scaled(MS(10), SECONDS(8)), on_disk_healthy, NULL, 0);
}

static void draw_fault(void)
{
	HostServer *server = draw_server();

	switch (world_between(0, 9)) {
	case 0:
		server_kill(&server->server, draw_pause_us());
		break;
	case 1:
		host_fail_power((DiskLoss)world_between(0, DISK_DRAWS), draw_pause_us());
		break;
	case 2:
		server_stop(&server->server, world_between(0, 1000), draw_pause_us());
		break;
	case 3:
		server_pause(&server->server, draw_pause_us());
		break;
	case 4:
		server_suspend(&server->server, draw_pause_us());
		break;
	case 5:
		host_correct_clock();
		host_step_clock((world_odds(0.5) ? 1 : -1) * world_scaled(MS(1), MAX_OFF_US));
		break;
	case 6:
		draw_disk();
		break;
	case 7:
		remove_locks();
		break;
	case 8:
		drawn.has_slow_calls = !drawn.has_slow_calls;
		break;
	default:
		drawn.victim = server;
		drawn.n_calls_left = world_scaled(1, CALLS_AHEAD);
	}
}

static void on_fault(gpointer data G_GNUC_UNUSED, guint64 tag G_GNUC_UNUSED)
{
	if (world_now_us() >= drawn.end_us)
		return;
	draw_fault();
	world_after(world_scaled(MS(1), SECONDS(8)), on_fault, NULL, 0);
}

static void start_drawn_servers(void)
{
	gboolean is_any_worker_id = world_odds(0.4);

	drawn.has_rivals = !is_any_worker_id && world_odds(0.3);
	for (guint i = 0; i < HOST_SERVERS; i++) {
		HostServer *self = &host_servers[i];

		self->server.config.worker_id = is_any_worker_id ? -1 : (gint64)i;
		self->draws_us = world_scaled(MS(2), SECONDS(3));
		server_start(&self->server);
	}
	if (drawn.has_rivals)
		second->server.config.worker_id = 0;
}

static void draw_lives(void)
{
	memset(&drawn, 0, sizeof(drawn));
	host_init(world_odds(0.5));
	drawn.end_us = world_now_us() + FAULTS_US;
	files_set_hook(draw_fault_at_call);
	start_drawn_servers();
	world_after(MS(1), on_fault, NULL, 0);
	world_run_until(drawn.end_us);
	files_set_hook(NULL);
	*files_disk() = (FilesDisk){0};
	host_correct_clock();
	world_run_for(MAX_PAUSE_US);
	if (drawn.has_rivals) {
		server_kill(&second->server, WORLD_NEVER_US);
		second->server.stays_down = TRUE;
	}
	for (guint i = 0; i < HOST_SERVERS; i++)
		if (!host_servers[i].server.stays_down) {
			server_start(&host_servers[i].server);
			host_expect_serving(&host_servers[i], RECOVERY_US);
		}
	host_clear();
}

int main(int argc, char **argv)
{
	static const DriverScenario scenarios[] = {
		{.name = "start", .step = directory_changes_start},
		{.name = "change", .step = directory_changes_run},
		{.name = "idle", .step = step_idle},
		{.name = "call", .step = step_call},
		{.name = "lives", .draw = draw_lives},
		{0},
	};

	return driver_main(argc, argv, "simulation-directory", scenarios);
}
