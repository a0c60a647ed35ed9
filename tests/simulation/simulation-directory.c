/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/reservation-record.h"
#include "tests/simulation/driver.h"
#include "tests/simulation/host.h"
#include "tests/simulation/issued.h"

/*
 * Tests the guarantees of docs/explanation/uniqueness.md for state directories: each fault and each
 * operator error that the page names, on a simulated disk.
 */

static HostServer *const first = &host_servers[0], *const second = &host_servers[1];

/* Changes of a state directory, between two starts and while its server runs */

#define IDENTITY HOST_DIRECTORY "/directory.json"
#define LOCK     HOST_DIRECTORY "/worker-0-0.lock"
#define RECORD   HOST_DIRECTORY "/worker-0-0.json"
#define AWAY     "/var/lib/away"

#define MAX_BYTES 4096
#define NOTICE_US MS(100) /* a server checks its directory ten times a second */

typedef struct {
	void (*change)(void); /* (nullable) */
	const char *path;     /* (nullable): this file is removed ... */
	const char *text;     /* ... or contains this text ... */
	mode_t mode;          /* ... or is created with this mode ... */
	gboolean is_foreign;  /* ... or belongs to another user */
	gint64 ahead_ticks;   /* the record of another owner ends then; 0 if it stays */

	const char *refusal; /* error that the server ends with; NULL if it serves again */
	/* for a change between two starts: */
	gboolean takes_any; /* the next start accepts any worker ID ... */
	gint worker_id;     /* ... and gets this one */
	/* for a change while the server runs: */
	gboolean is_lost;        /* the server detects that its record was replaced ... */
	gint64 within_us;        /* ... within this time; 0 for its next check */
	gboolean is_new_history; /* the next lease ignores the IDs issued so far */
	gboolean is_idle;        /* no IDs are drawn before this time */
} Change;

static gint64 now_tick(void)
{
	return layout_tick_at(&LAYOUT_TWITTER, world_true_ms());
}

/* Returns: (transfer full) */
static char *record_text(gint64 end_tick, const char *owner)
{
	const ReservationRecord record = {end_tick, (char *)owner, (char *)"other:1"};

	return reservation_record_to_json(&record);
}

static void put_record(gint64 end_tick)
{
	g_autofree char *text = record_text(end_tick, "other");

	disk_put_text(RECORD, text);
}

static void change_layout(void)
{
	static const Layout OTHER = {.epoch_ms = 1288834974657,
				     .tick_ms = 1,
				     .time_bits = 41,
				     .datacenter_bits = 5,
				     .worker_bits = 4,
				     .sequence_bits = 13};

	first->server.config.layout = &OTHER;
}

static void change_machine(void)
{
	first->machine_id = 2;
}

static void lose_machine_id(void)
{
	first->machine_id = 0;
}

static void cut_record(void)
{
	g_autofree char *text = record_text(now_tick(), "other");

	text[strlen(text) / 2] = '\0';
	disk_put_text(RECORD, text);
}

static void zero_record(void)
{
	Inode *inode = disk_put(RECORD, S_IFREG | 0600);

	g_byte_array_set_size(inode->data, 100);
	memset(inode->data->data, 0, 100);
}

static void put_record_past_layout(void)
{
	put_record(layout_max_tick(&LAYOUT_TWITTER) + 1);
}

static void put_record_at_end_of_layout(void)
{
	put_record(layout_max_tick(&LAYOUT_TWITTER));
}

static void put_large_record(void)
{
	g_byte_array_set_size(disk_put(RECORD, S_IFREG | 0600)->data, MAX_BYTES + 1);
}

static void open_directory(void)
{
	disk_find(disk_root(), HOST_DIRECTORY)->mode |= S_IWGRP;
}

static void move_away(void)
{
	disk_move(HOST_DIRECTORY, AWAY);
}

static void put_file_as_directory(void)
{
	move_away();
	disk_put(HOST_DIRECTORY, S_IFREG | 0600);
}

static void replace_with_copy(void)
{
	move_away();
	disk_copy(AWAY, HOST_DIRECTORY, FALSE);
}

static void take_snapshot(void)
{
	disk_copy(HOST_DIRECTORY, AWAY, TRUE);
}

static void fill_disk(void)
{
	files_disk()->is_full = TRUE;
}

static void make_disk_read_only(void)
{
	files_disk()->is_read_only = TRUE;
}

static void start_second(void)
{
	host_start_second();
	world_run_for(MS(50));
}

static void start_second_and_forget_its_name(void)
{
	start_second();
	disk_edit_text(LOCK, "");
}

/* Its reservation has not passed yet when the first server starts. */
static void start_and_kill_second(void)
{
	start_second();
	server_kill(&second->server, WORLD_NEVER_US);
}

static void move_away_and_start_second(void)
{
	move_away();
	start_second();
}

static void remove_lock_and_start_second(void)
{
	disk_remove_all(LOCK);
	start_second();
}

/* No check detects a copy, as docs/explanation/uniqueness.md says. */
static void copy_and_use_both(void)
{
	disk_copy(HOST_DIRECTORY, AWAY, FALSE);
	host_begin_history();
	first->directory = AWAY;
}

/* Restores the record from a backup of its file. */
static void set_record_back(void)
{
	g_autofree char *text = record_text(now_tick() - 500, first->server.nonce);

	disk_put_text(RECORD, text);
}

/* The file stays, so the change is detected when the server reads the file. */
static void edit_record_back(void)
{
	g_autofree char *text = record_text(now_tick() - 500, first->server.nonce);

	disk_edit_text(RECORD, text);
}

static void make_change(const Change *self)
{
	if (self->change != NULL)
		self->change();
	if (self->ahead_ticks != 0)
		put_record(now_tick() + self->ahead_ticks);
	if (self->path == NULL)
		return;
	if (self->is_foreign)
		disk_find(disk_root(), self->path)->uid = geteuid() + 1;
	else if (self->text != NULL)
		disk_put_text(self->path, self->text);
	else if (self->mode != 0)
		disk_put(self->path, self->mode);
	else
		disk_remove_all(self->path);
}

static const Change STARTS[] = {
	{.worker_id = 0}, /* no change */
	{.change = change_layout, .refusal = "is for the layout"},
	{.change = change_machine, .refusal = "is from another machine"},
	{.change = lose_machine_id, .refusal = "is from another machine"},
	{.path = IDENTITY, .refusal = "is there without directory.json"},
	{.change = change_layout, .path = IDENTITY, .refusal = "is there without directory.json"},
	{.path = IDENTITY, .text = "{\"format\":1,", .refusal = "directory.json is damaged"},
	{.path = IDENTITY, .text = "{\"format\":2}", .refusal = "has format 2"},
	{.path = RECORD, .text = "", .refusal = "is damaged"},
	{.change = cut_record, .refusal = "is damaged"},
	{.change = zero_record, .refusal = "contains a NUL"},
	{.change = put_record_past_layout, .refusal = "past the end of the layout"},
	{.change = put_record_at_end_of_layout, .refusal = "the end of the layout"},
	{.ahead_ticks = 2000},
	{.change = put_large_record, .refusal = "it has 4097 bytes"},
	{.path = RECORD, .mode = S_IFLNK | 0777, .refusal = "it is a symbolic link"},
	{.path = RECORD, .mode = S_IFDIR | 0700, .refusal = "it is not a regular file"},
	{.path = LOCK, .mode = S_IFIFO | 0600, .refusal = "it is not a regular file"},
	{.path = RECORD, .is_foreign = TRUE, .refusal = "it belongs to user"},
	{.path = HOST_DIRECTORY, .is_foreign = TRUE, .refusal = "belongs to user"},
	{.change = open_directory, .refusal = "has mode 0720"},
	{.change = put_file_as_directory, .refusal = "is not a directory"},
	{.change = take_snapshot, .refusal = "it has 2 links"},
	{.change = fill_disk, .refusal = "No space left on device"},
	{.change = make_disk_read_only, .refusal = "Read-only file system"},
	{.change = start_second, .refusal = "is held by pid"},
	{.change = start_second_and_forget_its_name, .refusal = "is held by another process"},
	{.change = cut_record, .takes_any = TRUE, .worker_id = 1},
	{.change = start_second, .takes_any = TRUE, .worker_id = 1},
	{.change = start_and_kill_second, .takes_any = TRUE, .worker_id = 1},
	{.change = copy_and_use_both},
};

/* Runs the first server, so that its directory has a record. */
static void make_record(void)
{
	host_init(TRUE);
	first->draws_us = MS(20);
	first->server.stays_down = TRUE;
	server_start(&first->server);
	world_run_for(MS(600));
}

static gboolean step_start(guint step)
{
	const Change *change = &STARTS[step];
	KeeperStatus status;

	if (step >= G_N_ELEMENTS(STARTS))
		return FALSE;
	make_record();
	server_stop(&first->server, 1000, WORLD_NEVER_US);
	world_run_for(MS(10));
	make_change(change);
	if (change->takes_any)
		first->server.config.worker_id = -1;
	host_step_clock(-MS(200));
	server_start(&first->server);
	if (change->refusal != NULL) {
		host_expect_refusal(first, change->refusal);
	} else {
		host_expect_serving(first, SECONDS(3));
		keeper_get_status(first->server.keeper, &status);
		if (status.worker_id != change->worker_id)
			world_fail("worker ID %d instead of %d", status.worker_id,
				   change->worker_id);
	}
	host_clear();
	return TRUE;
}

static const Change RUNNING[] = {
	{.is_lost = FALSE}, /* no change */
	{.change = move_away, .is_lost = TRUE, .is_new_history = TRUE},
	{.change = move_away, .is_lost = TRUE, .is_new_history = TRUE, .is_idle = TRUE},
	{.change = move_away_and_start_second,
	 .is_lost = TRUE,
	 .is_new_history = TRUE,
	 .refusal = "is held by pid"},
	{.change = put_file_as_directory,
	 .is_lost = TRUE,
	 .is_new_history = TRUE,
	 .refusal = "is not a directory"},
	{.change = replace_with_copy, .is_lost = TRUE},
	{.path = RECORD, .is_lost = TRUE, .is_new_history = TRUE},
	{.ahead_ticks = 500, .is_lost = TRUE, .is_new_history = TRUE},
	{.change = set_record_back, .is_lost = TRUE, .is_new_history = TRUE},
	{.change = edit_record_back,
	 .is_lost = TRUE,
	 .within_us = SECONDS(1),
	 .is_new_history = TRUE},
	{.change = cut_record, .is_lost = TRUE, .is_new_history = TRUE, .refusal = "is damaged"},
	{.change = take_snapshot},
	/* the lease of the second server begins after the reservation of the first */
	{.change = remove_lock_and_start_second, .is_lost = TRUE, .refusal = "is held by pid"},
	{.change = start_second},
};

static gint64 lost_us; /* time of worker-lost; 0 if none */

static void note_lost(WorldMachine *machine, LogEvent event, const char *line G_GNUC_UNUSED)
{
	if (machine == &first->server.machine && event == LOG_WORKER_LOST && lost_us == 0)
		lost_us = world_now_us();
}

static gboolean step_change(guint step)
{
	const Change *change = &RUNNING[step];
	gint64 changed_us;

	if (step >= G_N_ELEMENTS(RUNNING))
		return FALSE;
	make_record();
	if (change->is_idle) {
		first->draws_us = 0;
		world_run_for(SECONDS(3));
	}
	lost_us = 0;
	world_set_logged(note_lost);
	/* a change at any time between two checks */
	world_run_for(world_between(0, NOTICE_US));
	changed_us = world_now_us();
	first->quiet_until_us = changed_us + MS(200);
	make_change(change);
	if (change->is_new_history)
		host_begin_history();
	world_run_for(SECONDS(2));
	if (change->is_lost != (lost_us != 0) ||
	    lost_us > changed_us + MAX(change->within_us, NOTICE_US))
		world_fail_machine(&first->server.machine, "has detected the change after %.3f s",
				   (gdouble)(lost_us - changed_us) / G_TIME_SPAN_SECOND);
	if (change->refusal != NULL)
		host_expect_refusal(first, change->refusal);
	else
		host_expect_serving(first, SECONDS(2));
	host_clear();
	return TRUE;
}

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
	if (disk_find(disk_root(), LOCK) != NULL)
		disk_remove_all(LOCK);
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
	/* all checks of an idle directory are alike, so try two of them */
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
		/* on a local disk only reads and writes may fail with EINTR */
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
		{.name = "start", .step = step_start}, {.name = "change", .step = step_change},
		{.name = "idle", .step = step_idle},   {.name = "call", .step = step_call},
		{.name = "lives", .draw = draw_lives}, {0},
	};

	return driver_main(argc, argv, "simulation-directory", scenarios);
}
