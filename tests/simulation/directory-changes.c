/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/directory-changes.h"

#include <string.h>
#include <unistd.h>

#include "common/reservation-record.h"
#include "tests/simulation/host.h"
#include "tests/simulation/issued.h"

#define IDENTITY  HOST_DIRECTORY "/directory.json"
#define LOCK      HOST_DIRECTORY "/worker-0-0.lock"
#define RECORD    HOST_DIRECTORY "/worker-0-0.json"
#define AWAY      "/var/lib/away"
#define MAX_BYTES 4096

/* A server checks its directory ten times a second. */
#define NOTICE_US MS(100)

static HostServer *const first = &host_servers[0], *const second = &host_servers[1];

static gint64 now_tick(void)
{
	return layout_tick_at(&LAYOUT_TWITTER, world_true_ms());
}

/* (transfer full) */
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

/* Between two starts */

static void change_nothing(void)
{
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

static void remove_identity(void)
{
	disk_remove_all(IDENTITY);
}

static void remove_identity_and_change_layout(void)
{
	remove_identity();
	change_layout();
}

static void cut_identity(void)
{
	disk_put_text(IDENTITY, "{\"format\":1,");
}

static void put_newer_identity(void)
{
	disk_put_text(IDENTITY, "{\"format\":2}");
}

static void empty_record(void)
{
	disk_put_text(RECORD, "");
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

static void put_record_ahead(void)
{
	put_record(now_tick() + 2000);
}

static void put_large_record(void)
{
	g_byte_array_set_size(disk_put(RECORD, S_IFREG | 0600)->data, MAX_BYTES + 1);
}

static void put_link(void)
{
	disk_put(RECORD, S_IFLNK | 0777);
}

static void put_directory(void)
{
	disk_remove_all(RECORD);
	disk_put(RECORD, S_IFDIR | 0700);
}

static void put_fifo_as_lock(void)
{
	disk_put(LOCK, S_IFIFO | 0600);
}

static void give_record_away(void)
{
	disk_find(disk_root(), RECORD)->uid = geteuid() + 1;
}

static void give_directory_away(void)
{
	disk_find(disk_root(), HOST_DIRECTORY)->uid = geteuid() + 1;
}

static void open_directory(void)
{
	disk_find(disk_root(), HOST_DIRECTORY)->mode |= S_IWGRP;
}

static void put_file_as_directory(void)
{
	disk_move(HOST_DIRECTORY, AWAY);
	disk_put(HOST_DIRECTORY, S_IFREG | 0600);
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

static void cut_record_and_take_any(void)
{
	cut_record();
	first->server.config.worker_id = -1;
}

static void start_second_and_take_any(void)
{
	start_second();
	first->server.config.worker_id = -1;
}

/* The reservation of the second server has not passed yet. */
static void kill_second_and_take_any(void)
{
	start_second_and_take_any();
	server_kill(&second->server, WORLD_NEVER_US);
}

/* No check detects a copy, as docs/uniqueness.md says. */
static void copy_and_use_both(void)
{
	disk_copy(HOST_DIRECTORY, AWAY, FALSE);
	host_begin_history();
	first->directory = AWAY;
}

typedef struct {
	void (*change)(void);
	const char *refusal; /* error of the next start; NULL: it succeeds ... */
	gint worker_id;      /* ... with this worker ID */
} Change;

static const Change STARTS[] = {
	{change_nothing, NULL, 0},
	{change_layout, "is for layout", 0},
	{change_machine, "is of another machine", 0},
	{lose_machine_id, "is of another machine", 0},
	{remove_identity, "is there without directory.json", 0},
	{remove_identity_and_change_layout, "is there without directory.json", 0},
	{cut_identity, "directory.json is damaged", 0},
	{put_newer_identity, "is of format 2", 0},
	{empty_record, "is damaged", 0},
	{cut_record, "is damaged", 0},
	{zero_record, "holds a NUL", 0},
	{put_record_past_layout, "past the end of the layout", 0},
	{put_record_at_end_of_layout, "the end of the layout", 0},
	{put_record_ahead, NULL, 0},
	{put_large_record, "it has 4097 bytes", 0},
	{put_link, "it is a symbolic link", 0},
	{put_directory, "it is not a regular file", 0},
	{put_fifo_as_lock, "it is not a regular file", 0},
	{give_record_away, "it belongs to user", 0},
	{give_directory_away, "belongs to user", 0},
	{open_directory, "has mode 0720", 0},
	{put_file_as_directory, "is not a directory", 0},
	{take_snapshot, "it has 2 links", 0},
	{fill_disk, "No space left on device", 0},
	{make_disk_read_only, "Read-only file system", 0},
	{start_second, "is held by pid", 0},
	{start_second_and_forget_its_name, "is held by another process", 0},
	{cut_record_and_take_any, NULL, 1},
	{start_second_and_take_any, NULL, 1},
	{kill_second_and_take_any, NULL, 1},
	{copy_and_use_both, NULL, 0},
};

/* Runs a server, so that its directory has a record. */
static void run_first_server(void)
{
	host_init(TRUE);
	first->draws_us = MS(20);
	first->server.stays_down = TRUE;
	server_start(&first->server);
	world_run_for(MS(600));
}

gboolean directory_changes_start(guint step)
{
	const Change *change;
	KeeperStatus status;

	if (step >= G_N_ELEMENTS(STARTS))
		return FALSE;
	change = &STARTS[step];
	run_first_server();
	server_stop(&first->server, 1000, WORLD_NEVER_US);
	world_run_for(MS(10));
	change->change();
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

/* While a server runs */

static void move_away(void)
{
	disk_move(HOST_DIRECTORY, AWAY);
}

static void move_away_and_start_second(void)
{
	move_away();
	start_second();
}

static void replace_with_copy(void)
{
	move_away();
	disk_copy(AWAY, HOST_DIRECTORY, FALSE);
}

static void remove_record(void)
{
	disk_remove_all(RECORD);
}

static void take_record(void)
{
	put_record(now_tick() + 500);
}

/* Restores the record from a backup of its file. */
static void set_record_back(void)
{
	g_autofree char *text = record_text(now_tick() - 500, first->server.nonce);

	disk_put_text(RECORD, text);
}

/* The file stays: seen when the server reads it. */
static void edit_record_back(void)
{
	g_autofree char *text = record_text(now_tick() - 500, first->server.nonce);

	disk_edit_text(RECORD, text);
}

static void remove_lock_and_start_second(void)
{
	disk_remove_all(LOCK);
	start_second();
}

typedef struct {
	void (*change)(void);
	gboolean is_lost;        /* the server detects that its record was replaced ... */
	gint64 within_us;        /* ... within this time; 0: at its next check */
	gboolean is_new_history; /* the next lease ignores the IDs issued so far */
	const char *refusal;     /* error that the server ends with; NULL: it serves again */
	gboolean is_idle;        /* no IDs are drawn before */
} RunningChange;

static const RunningChange RUNNING[] = {
	{.change = change_nothing},
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
	{.change = remove_record, .is_lost = TRUE, .is_new_history = TRUE},
	{.change = take_record, .is_lost = TRUE, .is_new_history = TRUE},
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

static gint64 lost_us; /* time of worker-lost; 0: none */

static void note_lost(WorldMachine *machine, LogEvent event, const char *line G_GNUC_UNUSED)
{
	if (machine == &first->server.machine && event == LOG_WORKER_LOST && lost_us == 0)
		lost_us = world_now_us();
}

gboolean directory_changes_run(guint step)
{
	const RunningChange *change;
	gint64 changed_us;

	if (step >= G_N_ELEMENTS(RUNNING))
		return FALSE;
	change = &RUNNING[step];
	run_first_server();
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
	change->change();
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
