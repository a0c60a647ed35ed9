/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/server.h"

#include "tests/simulation/driver.h"
#include "tests/simulation/issued.h"

/* How long a server's status can contradict its draws: it detects an operation that hangs after a
 * second, and runs ten rounds a second. */
#define DISAGREEMENT_US    (2500 * G_TIME_SPAN_MILLISECOND)
#define MAX_ROUNDS_AT_ONCE 1000
#define MAX_BATCH          1000

static void on_round(gpointer data, guint64 tag);

static void plan_round(Server *self, gint64 at_us)
{
	at_us = MAX(at_us, world_now_us());
	if (at_us == WORLD_NEVER_US ||
	    (self->next_round_us <= at_us && self->next_round_us >= world_now_us()))
		return;
	self->next_round_us = at_us;
	world_at(at_us, on_round, self, ++self->rounds_tag);
}

/* Registry.wake */
static void wake_server(gpointer data)
{
	Server *self = data;

	if (self->is_up)
		plan_round(self, MAX(world_now_us(), self->resumes_at_us));
}

void server_init(Server *self, guint number, const ServerConfig *config)
{
	*self = (Server){.number = number, .config = *config, .next_round_us = -1};
	g_snprintf(self->machine.name, sizeof(self->machine.name), "server %u", number);
	self->machine.uptime_us = world_between(0, 1000) * G_TIME_SPAN_SECOND;
}

static void on_restart(gpointer data, guint64 n_starts)
{
	Server *self = data;

	if (self->n_starts == n_starts && !self->stays_down)
		server_start(self);
}

static void take_down(Server *self)
{
	world_enter(&self->machine);
	self->is_up = self->is_stopping = self->is_dying = FALSE;
	self->rounds_tag++;
	g_clear_pointer(&self->keeper, keeper_free);
	g_clear_pointer(&self->generator, generator_free);
	self->registry = NULL;
	self->last_id = 0;
	self->resumes_at_us = 0;
	if (self->restart_after_us != WORLD_NEVER_US)
		world_after(self->restart_after_us, on_restart, self, self->n_starts);
}

void server_clear(Server *self)
{
	if (self->is_up) {
		self->config.killed(self);
		take_down(self);
	}
	g_clear_pointer(&self->ended_why, g_free);
}

void server_start(Server *self)
{
	const GeneratorPolicy policy = {
		.max_ahead_ms = self->config.max_ahead_ms,
		.sequence_start_range = 1,
		.max_batch = MAX_BATCH,
	};
	const KeeperConfig config = {
		.max_clock_skew_ms = self->config.max_clock_skew_ms,
		.reclaim_on_step_back = self->config.reclaims,
		.max_ahead_ms = self->config.max_ahead_ms,
		.datacenter_id = (gint)self->config.datacenter_id,
	};

	if (self->is_up)
		return;
	world_enter(&self->machine);
	self->n_starts++;
	g_snprintf(self->nonce, sizeof(self->nonce),
		   "%08x-%04x-4000-8000-%012" G_GINT64_MODIFIER "x", self->number,
		   self->n_starts & 0xffff, world_seed() & 0xffffffffffff);
	world_note(&self->machine, "starts, number %u", self->n_starts);
	g_clear_pointer(&self->ended_why, g_free);
	self->is_up = TRUE;
	self->is_stopping = FALSE;
	self->resumes_at_us = 0;
	self->disagrees_since_us = 0;
	self->has_served = FALSE;
	self->n_refused = 0;
	self->depth++;
	system_clock_init(&self->clock);
	self->generator = generator_new(self->config.layout, &self->clock.clock, &policy);
	self->registry = self->config.make_registry(self);
	self->keeper = keeper_new(self->registry, self->generator, &self->clock, &config);
	self->registry->wake = wake_server;
	self->registry->wake_data = self;
	issuer_source_init(&self->source, self->generator);
	self->source.keeper = self->keeper;
	self->service = (ServiceConfig){.source = &self->source.source};
	health_init(&self->health, &self->service);
	self->depth--;
	self->next_round_us = -1;
	if (self->is_dying)
		take_down(self);
	else
		plan_round(self, world_now_us());
}

void server_kill(Server *self, gint64 restart_after_us)
{
	WorldMachine *before = world_machine();

	if (!self->is_up || self->is_dying || world_now_us() < self->asleep_until_us)
		return;
	world_note(&self->machine, "is killed");
	self->config.killed(self);
	self->restart_after_us = restart_after_us;
	if (self->depth > 0)
		self->is_dying = TRUE;
	else
		take_down(self);
	world_enter(before);
}

static void on_stop_again(gpointer data, guint64 n_starts)
{
	Server *self = data;

	if (self->n_starts == n_starts)
		server_stop(self, self->stop_timeout_ms, self->restart_after_us);
}

void server_stop(Server *self, gint64 timeout_ms, gint64 restart_after_us)
{
	if (!self->is_up || self->is_dying || self->is_stopping)
		return;
	if (self->keeper == NULL) { /* it is starting */
		server_kill(self, restart_after_us);
		return;
	}
	self->restart_after_us = restart_after_us;
	if (self->depth > 0) { /* the signal arrives when the server runs again */
		self->stop_timeout_ms = timeout_ms;
		world_at(MAX(self->resumes_at_us, world_now_us() + G_TIME_SPAN_MILLISECOND),
			 on_stop_again, self, self->n_starts);
		return;
	}
	world_note(&self->machine, "is asked to stop within %" G_GINT64_FORMAT " ms", timeout_ms);
	self->is_stopping = TRUE;
	keeper_ask_to_stop(self->keeper, world_monotonic_us(&self->machine) +
						 timeout_ms * G_TIME_SPAN_MILLISECOND);
	wake_server(self);
}

gboolean server_is_paused(const Server *self)
{
	return world_now_us() < self->resumes_at_us || self->is_paused_within;
}

void server_pause(Server *self, gint64 for_us)
{
	if (!self->is_up || self->is_dying)
		return;
	world_note(&self->machine, "is paused for %.6f s%s", (gdouble)for_us / G_TIME_SPAN_SECOND,
		   self->depth > 0 ? ", within its code" : "");
	if (!server_is_paused(self))
		self->paused_since_us = world_now_us();
	self->resumes_at_us = MAX(self->resumes_at_us, world_now_us() + for_us);
	self->disagrees_since_us = 0;
	if (self->depth > 0 && !self->is_paused_within) {
		self->is_paused_within = TRUE;
		while (world_now_us() < self->resumes_at_us)
			world_run_until(self->resumes_at_us);
		self->is_paused_within = FALSE;
		world_enter(&self->machine);
	} else if (self->depth == 0) {
		self->next_round_us = -1;
		plan_round(self, self->resumes_at_us);
	}
}

void server_suspend(Server *self, gint64 for_us)
{
	if (!self->is_up || self->is_dying || self->depth > 0 || server_is_paused(self))
		return;
	world_note(&self->machine, "is suspended");
	server_pause(self, for_us);
	self->asleep_until_us = world_now_us() + for_us;
	self->machine.suspended_us += for_us; /* at once: no code reads the clock meanwhile */
}

/* Rounds of the keeper */

static void end_by_itself(Server *self)
{
	world_note(&self->machine, "ends%s%s", self->ended_why != NULL ? ": " : "",
		   self->ended_why != NULL ? self->ended_why : "");
	take_down(self);
}

/* Runs rounds until none is due at once. Returns: when the next round is due */
static gint64 run_rounds(Server *self)
{
	gint64 due_us = 0;
	guint n = 0;

	self->depth++;
	while (due_us == 0 && !self->is_dying && !keeper_has_stopped(self->keeper)) {
		due_us = keeper_run_round(self->keeper);
		self->n_rounds++;
		if (++n > MAX_ROUNDS_AT_ONCE)
			world_fail_machine(&self->machine, "runs %u rounds without a pause", n);
	}
	self->depth--;
	return due_us;
}

static void on_round(gpointer data, guint64 tag)
{
	Server *self = data;
	g_autoptr(GError) error = NULL;
	gint64 due_us;

	if (!self->is_up || tag != self->rounds_tag)
		return;
	self->next_round_us = -1;
	if (server_is_paused(self) || self->depth > 0) {
		plan_round(self,
			   MAX(self->resumes_at_us, world_now_us() + G_TIME_SPAN_MILLISECOND));
		return;
	}
	world_enter(&self->machine);
	health_note(&self->health, 0);
	due_us = run_rounds(self);
	if (self->is_dying) {
		take_down(self);
		return;
	}
	if (keeper_has_stopped(self->keeper)) {
		end_by_itself(self);
		return;
	}
	error = keeper_error(self->keeper);
	if (error != NULL && !self->is_stopping) {
		self->ended_why = g_strdup(error->message);
		server_stop(self, 0,
			    world_between(G_TIME_SPAN_MILLISECOND * 100, 5 * G_TIME_SPAN_SECOND));
		return;
	}
	plan_round(self, MAX(world_when_us(&self->machine, due_us), world_now_us() + 1));
}

/* Draws */

char *server_why_not_serving(Server *self)
{
	char *why;

	if (!self->is_up || self->is_dying || server_is_paused(self))
		return g_strdup(self->is_up ? "it is paused" : "it is down");
	world_enter(&self->machine);
	self->depth++;
	health_note(&self->health, 0);
	why = health_why_not_ready(&self->health);
	self->depth--;
	return why;
}

/* A draw that must wait for the clock is answered soon, so it counts as answered. */
static gboolean is_answered(DrawStatus status)
{
	return status == DRAW_OK || status == DRAW_WAIT;
}

static void check_agreement(Server *self, DrawStatus status)
{
	g_autofree char *why = server_why_not_serving(self);
	gboolean is_soon =
		why != NULL && g_str_has_prefix(why, "the reservation cannot be extended");

	/* a server reports itself as not ready before its reservation ends */
	if (is_answered(status) == (why == NULL) || is_soon || self->is_stopping) {
		self->disagrees_since_us = 0;
		return;
	}
	if (self->disagrees_since_us == 0)
		self->disagrees_since_us = world_now_us();
	if (world_now_us() - self->disagrees_since_us < DISAGREEMENT_US)
		return;
	self->machine.is_involved = TRUE;
	world_fail("%s says that %s, and its draws %s", self->machine.name,
		   why != NULL ? why : "it serves", status == DRAW_OK ? "succeed" : "do not");
}

/* @began_ms: the server's clock before the draw; @was_paused: the server was paused during it */
static void check_run(Server *self, const IdRun *run, gint64 began_ms, gboolean was_paused)
{
	const Layout *layout = self->config.layout;
	const Lease *lease = generator_lease(self->generator);
	gint64 first = id_run_get(run, 0), last = id_run_get(run, run->count - 1);
	gint64 now_tick = layout_tick_at(layout, clock_now_ms(&self->clock.clock));
	gint64 ahead = self->config.max_ahead_ms / layout->tick_ms;
	gint64 first_tick = layout_tick_at(layout, layout_decode(layout, first).time_ms);
	gint64 last_tick = layout_tick_at(layout, layout_decode(layout, last).time_ms);

	issued_add(&self->machine,
		   (guint64)self->number << 48 | (guint64)self->n_starts << 32 |
			   (lease != NULL ? lease->first_tick : 0) % G_MAXUINT32,
		   run);
	if (!self->config.reclaims && first <= self->last_id)
		world_fail_machine(&self->machine,
				   "issues %" G_GINT64_FORMAT " after %" G_GINT64_FORMAT, first,
				   self->last_id);
	self->last_id = last;
	if (was_paused)
		return;
	if (first_tick < layout_tick_at(layout, began_ms) || last_tick > now_tick + ahead)
		world_fail_machine(&self->machine,
				   "issues %" G_GINT64_FORMAT " at another time of its clock",
				   first);
}

DrawStatus server_draw(Server *self, guint count)
{
	DrawRefusal refusal;
	DrawStatus status;
	gint64 began_ms, began_us = world_now_us();
	guint n_starts = self->n_starts;
	IdRun run;

	if (!self->is_up || self->is_dying || server_is_paused(self) || self->depth > 0)
		return DRAW_UNRESERVED;
	world_enter(&self->machine);
	self->depth++;
	began_ms = clock_now_ms(&self->clock.clock);
	status = generator_draw(self->generator, MIN(count, self->generator->max_batch), &run,
				&refusal);
	if (status == DRAW_UNRESERVED && !self->is_dying)
		keeper_demand(self->keeper);
	if (status == DRAW_OK && !self->is_dying)
		check_run(self, &run, began_ms, world_now_us() != began_us);
	self->depth--;
	if (self->is_dying) {
		take_down(self);
		return DRAW_UNRESERVED;
	}
	g_assert_cmpuint(n_starts, ==, self->n_starts);
	if (is_answered(status))
		self->has_served = TRUE;
	else if (self->has_served)
		self->n_refused++;
	driver_count(status == DRAW_OK ? "draws" : "refused draws", 1);
	if (status == DRAW_UNRESERVED)
		wake_server(self);
	check_agreement(self, status);
	return status;
}
