/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/worker/keeper-fixture.h"

#include <pthread.h>
#include <string.h>

#include "common/log.h"

/* Replaces the log of the server: number of lines of each event, and the last line. */
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static guint logged[LOG_N_EVENTS];
static char last_line[LOG_N_EVENTS][512];

void log_event_fields(LogEvent event, const LogField *fields)
{
	g_autoptr(GString) line = g_string_new(NULL);

	log_line_append(line, &(LogLine){.event = "", .fields = fields}, FALSE,
			sizeof last_line[event] - 1);
	pthread_mutex_lock(&log_mutex);
	logged[event]++;
	g_strlcpy(last_line[event], line->str, sizeof last_line[event]);
	pthread_mutex_unlock(&log_mutex);
}

gboolean log_shows(LogEvent event G_GNUC_UNUSED)
{
	return TRUE;
}

guint times_logged(LogEvent event)
{
	guint n;

	pthread_mutex_lock(&log_mutex);
	n = logged[event];
	pthread_mutex_unlock(&log_mutex);
	return n;
}

void assert_logged(LogEvent event, guint times, const char *part)
{
	pthread_mutex_lock(&log_mutex);
	g_assert_cmpuint(logged[event], ==, times);
	g_assert_nonnull(strstr(last_line[event], part));
	pthread_mutex_unlock(&log_mutex);
}

gint64 logged_number(LogEvent event, const char *name)
{
	g_autofree char *field = g_strconcat(name, "=", NULL);
	const char *found;
	gint64 number;

	pthread_mutex_lock(&log_mutex);
	found = strstr(last_line[event], field);
	g_assert_nonnull(found);
	number = g_ascii_strtoll(found + strlen(field), NULL, 10);
	pthread_mutex_unlock(&log_mutex);
	return number;
}

static void count_change(gpointer user_data)
{
	Server *self = user_data;

	atomic_store(&self->told, server_state(self));
	atomic_fetch_add(&self->changes, 1);
}

void server_init_layout(Server *self, const Layout *layout)
{
	const GeneratorPolicy policy = {MAX_AHEAD_MS, 1, 1000};

	scripted_time_begin();
	pthread_mutex_lock(&log_mutex);
	memset(logged, 0, sizeof logged);
	pthread_mutex_unlock(&log_mutex);
	*self = (Server){0};
	system_clock_init(&self->clock);
	self->generator = generator_new(layout, &self->clock.clock, &policy);
	fake_registry_init(&self->fake, &self->clock.clock);
}

void server_init(Server *self)
{
	server_init_layout(self, &LAYOUT_TWITTER);
}

void server_start(Server *self)
{
	self->keeper = keeper_new(&self->fake.registry, self->generator, &self->clock,
				  &(KeeperConfig){
					  .max_clock_skew_ms = MAX_SKEW_MS,
					  .reclaim_on_step_back = self->reclaim,
					  .max_ahead_ms = MAX_AHEAD_MS,
					  .datacenter_id = 2,
					  .changed = count_change,
					  .user_data = self,
				  });
	keeper_start(self->keeper);
}

void server_start_serving(Server *self)
{
	server_start(self);
	WAIT_FOR(server_state(self) == KEEPER_SERVING);
}

void server_init_serving(Server *self)
{
	server_init(self);
	server_start_serving(self);
}

void server_stop(Server *self)
{
	g_assert_true(keeper_stop(self->keeper, HANG_GUARD_MS));
}

void server_clear(Server *self)
{
	server_stop(self);
	keeper_free(self->keeper);
	generator_free(self->generator);
	fake_registry_clear(&self->fake);
	scripted_time_end();
}

KeeperStatus server_status(Server *self)
{
	KeeperStatus status;

	keeper_get_status(self->keeper, &status);
	return status;
}

KeeperState server_state(Server *self)
{
	return server_status(self).state;
}

void server_go_round(Server *self)
{
	WAIT_FOR(keeper_round_age_ms(self->keeper) >= 50);
	WAIT_FOR(keeper_round_age_ms(self->keeper) < 50);
}

gint64 server_tick(Server *self)
{
	return layout_tick_at(&LAYOUT_TWITTER, clock_now_ms(&self->clock.clock));
}

DrawStatus server_draw(Server *self, gint64 *out_id)
{
	DrawRefusal refusal;
	IdRun run;
	DrawStatus status = generator_draw(self->generator, 1, &run, &refusal);

	if (status == DRAW_OK)
		*out_id = id_run_get(&run, 0);
	return status;
}

gint64 server_draw_in_time(Server *self)
{
	gint64 give_up_us = g_get_monotonic_time() + HANG_GUARD_US;
	gint64 id = -1;

	scripted_time_settle();
	while (server_draw(self, &id) != DRAW_OK) {
		keeper_demand(self->keeper);
		g_assert_cmpint(g_get_monotonic_time(), <, give_up_us);
		scripted_time_pass(G_TIME_SPAN_MILLISECOND);
	}
	return id;
}

void server_draw_until_extended(Server *self, guint times)
{
	guint extensions = FAKE_GET(&self->fake, extensions) + times;

	while (FAKE_GET(&self->fake, extensions) < extensions) {
		server_draw_in_time(self);
		scripted_time_pass(G_TIME_SPAN_MILLISECOND);
	}
}

gint64 tick_of_id(gint64 id)
{
	return layout_tick_at(&LAYOUT_TWITTER, layout_decode(&LAYOUT_TWITTER, id).time_ms);
}

RegistryClock registry_clock(gint64 offset_ns)
{
	return (RegistryClock){TRUE, offset_ns - CLOCK_NS_PER_MS, offset_ns + CLOCK_NS_PER_MS};
}
