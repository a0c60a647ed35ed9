/* SPDX-License-Identifier: Apache-2.0 */
#include "node/snowflake-node.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/fork-guard.h"
#include "common/log.h"
#include "common/version.h"
#include "core/text.h"
#include "issuer/issuer.h"
#include "options/options.h"
#include "worker/file/disk-call.h"

#define PROGRAM_MAX_BYTES 64

struct _SnowflakeNode {
	ForkMark *mark; /* NULL if not created yet */
	Options *options;
	Issuer issuer;
	/* The keeper's events. A thread reads n_events, finds no lease, and then waits until
	 * n_events has changed, so it misses no event. */
	_Atomic guint64 n_events;
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* signals a change of n_events */
};

G_DEFINE_QUARK(snowflake_node_error_quark, snowflake_node_error)

/* Sets @error to the message of @from, with a code from the public header. Frees @from, and returns
 * %FALSE. */
static gboolean propagate_failure(GError **error, SnowflakeNodeError code, GError *from)
{
	g_set_error_literal(error, SNOWFLAKE_NODE_ERROR, (gint)code, from->message);
	g_error_free(from);
	return FALSE;
}

/* The keeper's events */

static void note_event(gpointer user_data)
{
	SnowflakeNode *self = user_data;

	pthread_mutex_lock(&self->mutex);
	atomic_fetch_add(&self->n_events, 1);
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

/* Waits until the keeper has reported more than @n_seen events, or until @until_us, a monotonic
 * time. */
static void wait_for_event(SnowflakeNode *self, guint64 n_seen, gint64 until_us)
{
	pthread_mutex_lock(&self->mutex);
	while (atomic_load(&self->n_events) == n_seen && g_get_monotonic_time() < until_us)
		clock_wait_until(&self->changed, &self->mutex, until_us);
	pthread_mutex_unlock(&self->mutex);
}

/* Releases locks in a child of fork(), so that no lock is held by a thread that the child does not
 * have. */

static void hold_locks(void)
{
	disk_call_hold();
	log_hold_for_fork();
}

static void release_locks(void)
{
	log_go_on_after_fork();
	disk_call_go_on();
}

static void release_locks_in_child(void)
{
	log_go_on_after_fork();
	disk_call_go_on_in_child();
}

static const ForkGuardLocks locks = {hold_locks, release_locks, release_locks_in_child};

/* Start */

/* Disables cancellation, because a thread that is cancelled while it waits would never unlock its
 * lock.
 * Returns: the state to restore with pthread_setcancelstate() */
static int begin_uncancelled(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static gboolean await_lease(SnowflakeNode *self, guint timeout_ms, GError **error)
{
	gint64 until_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;

	for (;;) {
		guint64 n_seen = atomic_load(&self->n_events);
		GError *failure = keeper_error(self->issuer.keeper);
		KeeperStatus status;

		if (failure != NULL)
			return propagate_failure(error, SNOWFLAKE_NODE_ERROR_FAILED, failure);
		keeper_get_status(self->issuer.keeper, &status);
		if (status.state == KEEPER_SERVING)
			return TRUE;
		if (g_get_monotonic_time() >= until_us) {
			g_autofree char *why = keeper_waiting_why(self->issuer.keeper);

			g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_UNAVAILABLE,
				    "no worker ID within %u ms: %s", timeout_ms,
				    why != NULL ? why : "its registry has not answered yet");
			return FALSE;
		}
		wait_for_event(self, n_seen, until_us);
	}
}

/* Returns: (transfer full) (nullable): the program's name for records: @given if it is valid, or
 * else the name of the program's file, with a hyphen in place of each invalid character */
static char *program_name(const char *given, GError **error)
{
	const char *file = program_invocation_short_name;
	g_autofree char *name = g_strndup(given != NULL ? given : file, PROGRAM_MAX_BYTES + 1);
	gsize length = strlen(name);
	gboolean is_valid = length >= 1 && length <= PROGRAM_MAX_BYTES;
	g_autofree char *escaped = NULL;

	for (char *c = name; *c != '\0'; c++)
		if (!g_ascii_isalnum(*c) && strchr("._-", *c) == NULL) {
			is_valid = FALSE;
			*c = '-';
		}
	if (given == NULL && length == 0)
		return g_strdup("unknown");
	if (given == NULL)
		return g_strndup(name, PROGRAM_MAX_BYTES);
	if (is_valid)
		return g_steal_pointer(&name);
	escaped = text_escape(given, strlen(given));
	g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT,
		    "invalid program name \"%s\"; use 1 to %d letters, digits, dots, underscores "
		    "and hyphens",
		    escaped, PROGRAM_MAX_BYTES);
	return NULL;
}

static SnowflakeNode *make_node(const SnowflakeNodeConfig *config, GError **error)
{
	g_autoptr(SnowflakeNode) self = NULL;
	g_autofree char *program = NULL;
	IssuerMember member = {.version = SNOWFLAKE_VERSION};
	GError *local = NULL;
	Options *options;

	if (config == NULL) {
		g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT,
			    "the configuration is NULL; pass one, which can be all zeros");
		return NULL;
	}
	program = program_name(config->program, error);
	if (program == NULL)
		return NULL;
	options = options_embedded_new(config->options, &local);
	if (options == NULL) {
		propagate_failure(error, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT, local);
		return NULL;
	}
	log_set_format(LOG_FORMAT_GLIB);
	log_set_level(options->log_level);
	fork_guard_install(&locks);
	self = g_new0(SnowflakeNode, 1);
	self->options = options;
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->changed, NULL);
	self->mark = fork_guard_new_memory(sizeof *self->mark, &local);
	if (self->mark != NULL)
		*self->mark = 1;
	member.program = program;
	if (self->mark == NULL || !issuer_init(&self->issuer, options, &local) ||
	    !issuer_join(&self->issuer, &member, note_event, self, &local)) {
		propagate_failure(error, SNOWFLAKE_NODE_ERROR_FAILED, local);
		return NULL;
	}
	keeper_start(self->issuer.keeper);
	if (!await_lease(self,
			 config->start_timeout_ms != 0 ? config->start_timeout_ms
						       : SNOWFLAKE_NODE_DEFAULT_START_TIMEOUT_MS,
			 error))
		return NULL;
	return g_steal_pointer(&self);
}

SnowflakeNode *snowflake_node_new(const SnowflakeNodeConfig *config, GError **error)
{
	int state = begin_uncancelled();
	SnowflakeNode *self = make_node(config, error);

	pthread_setcancelstate(state, NULL);
	return self;
}

void snowflake_node_free(SnowflakeNode *self)
{
	int state;

	if (self == NULL || (self->mark != NULL && !fork_mark_is_mine(self->mark)))
		return;
	state = begin_uncancelled();
	/* a hanging keeper thread still uses these objects */
	if (self->issuer.keeper == NULL ||
	    keeper_stop(self->issuer.keeper, self->options->stop_timeout_ms)) {
		issuer_clear(&self->issuer);
		pthread_cond_destroy(&self->changed);
		pthread_mutex_destroy(&self->mutex);
		options_free(self->options);
		fork_guard_free_memory((void *)self->mark, sizeof *self->mark);
		g_free(self);
	}
	pthread_setcancelstate(state, NULL);
}

/* Draws */

/* A draw that was refused. */
typedef struct {
	gint64 until_us; /* end of max-wait; monotonic */
	guint64 n_seen;  /* value of n_events before the draw */
	DrawStatus status;
	DrawRefusal refusal;
} RefusedDraw;

/* Waits until a retry can succeed. Returns: %FALSE if no retry can succeed within max-wait */
static gboolean wait_or_refuse(SnowflakeNode *self, const RefusedDraw *draw, GError **error)
{
	const Layout *layout = &self->options->layout;
	gint64 now_us = g_get_monotonic_time();
	/* how long until a retry can succeed; 0 to wait for the next event */
	gint64 wait_us = draw->refusal.wait_ns / 1000 + 1;
	g_autofree char *first = NULL, *last = NULL, *why = NULL;
	GError *failure;

	switch (draw->status) {
	case DRAW_CLOCK_BACK:
		g_set_error(
			error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_CLOCK,
			"the clock is %" G_GINT64_FORMAT
			" ms behind the last ID; correct the clock, or wait until it has caught "
			"up",
			draw->refusal.behind_ms);
		return FALSE;
	case DRAW_CLOCK_OUTSIDE:
		first = text_time_ms(layout->epoch_ms);
		last = layout_tick_text(layout, layout_max_tick(layout));
		g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_CLOCK,
			    "the clock is outside the layout's range, %s to %s", first, last);
		return FALSE;
	case DRAW_OK:
	case DRAW_WAIT:
	case DRAW_UNRESERVED:
		break;
	}
	if (draw->refusal.wait_ns <= 0) {
		wait_us = keeper_demand(self->issuer.keeper) * G_TIME_SPAN_MILLISECOND;
		failure = keeper_error(self->issuer.keeper);
		if (failure != NULL)
			return propagate_failure(error, SNOWFLAKE_NODE_ERROR_FAILED, failure);
	}
	if (now_us >= draw->until_us || now_us + wait_us > draw->until_us) {
		gboolean is_reserved = draw->status == DRAW_WAIT;

		why = is_reserved ? NULL : keeper_waiting_why(self->issuer.keeper);
		g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_UNAVAILABLE,
			    "%s, retry after %" G_GINT64_FORMAT " ms%s%s",
			    is_reserved ? "all IDs for the current time have been issued"
					: "no reservation for the current time",
			    wait_us / G_TIME_SPAN_MILLISECOND + 1, why != NULL ? ": " : "",
			    why != NULL ? why : "");
		return FALSE;
	}
	wait_for_event(self, draw->n_seen, wait_us > 0 ? now_us + wait_us : draw->until_us);
	return TRUE;
}

static G_GNUC_NO_INLINE gboolean await_run(SnowflakeNode *self, guint most, IdRun *out_run,
					   GError **error)
{
	Generator *generator = self->issuer.generator;
	RefusedDraw draw = {.until_us = g_get_monotonic_time() +
					self->options->max_wait_ms * G_TIME_SPAN_MILLISECOND};
	gboolean is_drawn = FALSE, is_refused = FALSE;
	int state = begin_uncancelled();

	while (!is_drawn && !is_refused && fork_mark_is_mine(self->mark)) {
		draw.n_seen = atomic_load(&self->n_events);
		draw.status = generator_draw(generator, generator_room_in_tick(generator, most),
					     out_run, &draw.refusal);
		is_drawn = draw.status == DRAW_OK;
		is_refused = !is_drawn && !wait_or_refuse(self, &draw, error);
	}
	/* the mark is read last, after the draw: see common/fork-guard.h */
	if (!is_refused && !fork_mark_is_mine(self->mark)) {
		is_drawn = FALSE;
		g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_FORKED,
			    "this node belongs to the parent process; create another one after "
			    "fork()");
	}
	pthread_setcancelstate(state, NULL);
	return is_drawn;
}

gboolean snowflake_node_next(SnowflakeNode *self, gint64 *out_id, GError **error)
{
	DrawRefusal refusal;
	IdRun run;

	/* the mark is read last, as in await_run() */
	if ((G_UNLIKELY(generator_draw(self->issuer.generator, 1, &run, &refusal) != DRAW_OK) ||
	     !fork_mark_is_mine(self->mark)) &&
	    !await_run(self, 1, &run, error))
		return FALSE;
	*out_id = id_run_get(&run, 0);
	return TRUE;
}

gboolean snowflake_node_next_run(SnowflakeNode *self, guint most, gint64 *out_first,
				 guint *out_count, GError **error)
{
	const Layout *layout = &self->options->layout;
	guint64 next_tick_cursor;
	IdRun run;

	if (most == 0) {
		g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT,
			    "the count is 0; it must be at least 1");
		return FALSE;
	}
	if (!await_run(self, most, &run, error))
		return FALSE;
	*out_first = id_run_get(&run, 0);
	/* drop IDs of the next tick. This is rare: another thread has drawn, or the clock has
	 * advanced since */
	next_tick_cursor = cursor_first(layout, cursor_tick(layout, run.first_cursor) + 1);
	*out_count = (guint)MIN(run.count, next_tick_cursor - run.first_cursor);
	return TRUE;
}
