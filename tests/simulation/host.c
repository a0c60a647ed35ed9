/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/host.h"

#include <string.h>

#include "tests/simulation/issued.h"
#include "worker/file/registry.h"

/* A server detects within a tenth of a second that its directory was replaced: see
 * docs/explanation/uniqueness.md. */
#define NOTICE_US    MS(101)
#define MAX_AHEAD_MS 100
#define MAX_COUNT    20
#define STEP_US      MS(5)
#define REFUSAL_US   SECONDS(10)

HostServer host_servers[HOST_SERVERS];

/* A killed process frees nothing. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

static const RegistryOps *file_ops;

typedef struct {
	Registry *registry;
	gint64 now_tick, stop_by_us;
	RegistryReport *out_report;
	gboolean has_ended;
} Poll;

static void run_poll(gpointer data)
{
	Poll *poll = data;

	poll->has_ended =
		file_ops->poll(poll->registry, poll->now_tick, poll->stop_by_us, poll->out_report);
}

static gboolean poll_as_process(Registry *registry, gint64 now_tick, gint64 stop_by_us,
				RegistryReport *out_report)
{
	HostServer *self = registry->wake_data;
	Poll poll = {registry, now_tick, stop_by_us, out_report, FALSE};
	gint64 began_us = world_now_us();
	gboolean has_ended;

	*out_report =
		(RegistryReport){.poll_at_us = G_MAXINT64}; /* a killed process does not poll */
	has_ended = files_run(self->process, run_poll, &poll) && poll.has_ended;

	/* because time passed within the poll, the status of the server was not checked */
	if (world_now_us() != began_us)
		self->server.disagrees_since_us = 0;
	return has_ended;
}

static void run_free(gpointer data)
{
	file_ops->free(data);
}

/* Leaks the memory of a killed process: it may be in any state. */
static void free_as_process(Registry *registry)
{
	HostServer *self = registry->wake_data;

	files_run(self->process, run_free, registry);
	g_clear_pointer(&self->process, files_process_free);
}

static Registry *make_registry(Server *server)
{
	static RegistryOps ops;
	HostServer *self = (HostServer *)server;
	Registry *registry = file_registry_new(&(FileRegistryConfig){
		.directory = self->directory,
		.layout = server->config.layout,
		.datacenter_id = server->config.datacenter_id,
		.worker_id = server->config.worker_id,
		.nonce = server->nonce,
		.address = "127.0.0.1:7609",
	});

	file_ops = registry->ops;
	ops = *file_ops;
	ops.poll = poll_as_process;
	ops.free = free_as_process;
	registry->ops = &ops;
	self->process = files_process_new(&server->machine, self->machine_id);
	self->process->user_data = self;
	return registry;
}

static void kill_process(Server *server)
{
	files_kill(((HostServer *)server)->process);
}

/* A refused draw is retried soon. */
static void on_draw(gpointer data, guint64 tag G_GNUC_UNUSED)
{
	HostServer *self = data;
	gint64 pause_us = STEP_US;

	if (self->draws_us > 0 && world_now_us() >= self->quiet_until_us &&
	    server_draw(&self->server, (guint)world_between(1, MAX_COUNT)) == DRAW_OK)
		pause_us = world_scaled(MS(1), self->draws_us);
	/* in a long interval, the status is not compared with draws */
	if (pause_us >= SECONDS(1))
		self->server.disagrees_since_us = 0;
	world_after(pause_us, on_draw, self, 0);
}

void host_init(gboolean is_ordered)
{
	static const ServerConfig config = {
		.layout = &LAYOUT_TWITTER,
		.max_clock_skew_ms = 1000,
		.max_ahead_ms = MAX_AHEAD_MS,
		.make_registry = make_registry,
		.killed = kill_process,
	};

	files_init(is_ordered);
	issued_init(&LAYOUT_TWITTER);
	for (guint i = 0; i < HOST_SERVERS; i++) {
		HostServer *self = &host_servers[i];

		memset(self, 0, sizeof(*self));
		server_init(&self->server, i, &config);
		self->directory = HOST_DIRECTORY;
		self->machine_id = 1;
		world_after(STEP_US, on_draw, self, 0);
	}
}

void host_clear(void)
{
	files_set_hook(NULL);
	for (guint i = 0; i < HOST_SERVERS; i++)
		server_clear(&host_servers[i].server);
	issued_clear();
	files_clear();
}

void host_start_second(void)
{
	HostServer *second = &host_servers[1];

	second->draws_us = MS(20);
	second->server.stays_down = TRUE;
	server_start(&second->server);
}

HostServer *host_server_of(const FilesProcess *process)
{
	return process->user_data;
}

void host_fail_power(DiskLoss loss, gint64 restart_after_us)
{
	static const char *const LOSSES[] = {"nothing", "all that", "some of what"};

	/* a server on a suspended machine cannot be killed: see server.h */
	for (guint i = 0; i < HOST_SERVERS; i++)
		if (host_servers[i].server.is_up &&
		    world_now_us() < host_servers[i].server.asleep_until_us)
			return;
	world_note(NULL, "the power fails, and %s was not synced is lost", LOSSES[loss]);
	for (guint i = 0; i < HOST_SERVERS; i++)
		server_kill(&host_servers[i].server, restart_after_us);
	disk_fail_power(loss);
}

void host_step_clock(gint64 by_us)
{
	world_note(NULL, "the clock steps by %" G_GINT64_FORMAT " us", by_us);
	for (guint i = 0; i < HOST_SERVERS; i++)
		host_servers[i].server.machine.wall_offset_ns += by_us * 1000;
}

void host_correct_clock(void)
{
	host_step_clock(-host_servers[0].server.machine.wall_offset_ns / 1000);
}

void host_begin_history(void)
{
	world_note(NULL, "the directory is replaced");
	issued_clear();
	issued_init(&LAYOUT_TWITTER);
	for (guint i = 0; i < HOST_SERVERS; i++)
		host_servers[i].quiet_until_us = world_now_us() + NOTICE_US;
}

void host_expect_serving(HostServer *self, gint64 limit_us)
{
	gint64 by_us = world_now_us() + limit_us;
	g_autofree char *why = NULL;

	while (world_now_us() <= by_us) {
		g_free(why);
		why = server_why_not_serving(&self->server);
		if (why == NULL && server_draw(&self->server, 1) == DRAW_OK)
			return;
		world_run_for(STEP_US);
	}
	world_fail_machine(&self->server.machine, "does not serve after %.3f s: %s",
			   (gdouble)limit_us / G_TIME_SPAN_SECOND,
			   self->server.ended_why != NULL ? self->server.ended_why
			   : why != NULL                  ? why
							  : "its draws are refused");
}

void host_expect_refusal(HostServer *self, const char *text)
{
	gint64 by_us = world_now_us() + REFUSAL_US;

	self->server.stays_down = TRUE;
	while (self->server.is_up && world_now_us() <= by_us)
		world_run_for(STEP_US);
	if (!self->server.is_up && self->server.ended_why != NULL &&
	    strstr(self->server.ended_why, text) != NULL)
		return;
	world_fail_machine(&self->server.machine, "must end with \"%s\": %s", text,
			   self->server.ended_why != NULL ? self->server.ended_why
			   : self->server.is_up           ? "it is up"
							  : "it ended without an error");
}

void host_expect_tidy(const char *path)
{
	const Inode *directory = disk_find(disk_root(), path);

	for (guint i = 0; i < directory->entries->len; i++) {
		const DiskEntry *entry = directory->entries->pdata[i];

		if (g_str_has_suffix(entry->name, ".new") || entry->inode->mode != (S_IFREG | 0600))
			world_fail("a server has left %s, of mode %o", entry->name,
				   (guint)entry->inode->mode);
	}
	if (directory->mode != (S_IFDIR | 0700))
		world_fail("a server has made %s with mode %o", path, (guint)directory->mode);
}
