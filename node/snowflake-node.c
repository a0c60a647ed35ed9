/* SPDX-License-Identifier: Apache-2.0 */
#include "node/snowflake-node.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "common/fork-guard.h"
#include "common/log.h"
#include "core/text.h"
#include "issuer/issuer.h"
#include "options/options.h"
#include "worker/file/disk-call.h"

#define PROGRAM_MAX_BYTES 64

struct _SnowflakeNode {
	ForkMark *mark; /* NULL: not made yet */
	Options *options;
	Issuer issuer;
	/* Events of the keeper. A thread that reads n_events, finds no lease and waits until
	 * n_events is another number misses none. */
	_Atomic guint64 n_events;
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* n_events */
};

G_DEFINE_QUARK(snowflake_node_error_quark, snowflake_node_error)

/* Passes @from on with a code that callers know. Returns: %FALSE */
static gboolean pass_failure_on(GError **error, SnowflakeNodeError code, GError *from)
{
	g_set_error_literal(error, SNOWFLAKE_NODE_ERROR, (gint)code, from->message);
	g_error_free(from);
	return FALSE;
}

/* The program's name */

static gboolean is_allowed_in_program(char c)
{
	return g_ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
}

/* Returns: (transfer full): the name of the program's file, with a hyphen for each character that a
 * record must not contain */
static char *default_program(void)
{
	char *name = g_strndup(program_invocation_short_name, PROGRAM_MAX_BYTES);

	for (char *c = name; *c != '\0'; c++)
		if (!is_allowed_in_program(*c))
			*c = '-';
	if (*name != '\0')
		return name;
	g_free(name);
	return g_strdup("unknown");
}

static gboolean check_program(const char *program, GError **error)
{
	gsize length = strlen(program);
	gboolean is_good = length >= 1 && length <= PROGRAM_MAX_BYTES;

	for (gsize i = 0; is_good && i < length; i++)
		is_good = is_allowed_in_program(program[i]);
	if (!is_good) {
		g_autofree char *escaped = text_escape(program, length);

		g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT,
			    "the program's name \"%s\" is not 1 to %d letters, digits, dots, "
			    "underscores and hyphens",
			    escaped, PROGRAM_MAX_BYTES);
	}
	return is_good;
}

/* Events of the keeper */

static void note_event(gpointer user_data)
{
	SnowflakeNode *self = user_data;

	pthread_mutex_lock(&self->mutex);
	atomic_fetch_add(&self->n_events, 1);
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

/* Waits until there were more than @n_seen events, or until @until_us, monotonic. */
static void wait_for_event(SnowflakeNode *self, guint64 n_seen, gint64 until_us)
{
	const struct timespec until = {
		.tv_sec = until_us / G_USEC_PER_SEC,
		.tv_nsec = until_us % G_USEC_PER_SEC * 1000,
	};

	pthread_mutex_lock(&self->mutex);
	while (atomic_load(&self->n_events) == n_seen && g_get_monotonic_time() < until_us)
		pthread_cond_clockwait(&self->changed, &self->mutex, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&self->mutex);
}

/* fork(): a node of a child must find no lock locked by a thread that the child does not have. */

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

/* Starting */

/* A thread that is cancelled while it waits would leave a lock locked, and all other threads would
 * wait for it. Returns: the state to restore with pthread_setcancelstate() */
static int begin_uncancelled(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static gboolean make_parts(SnowflakeNode *self, const char *program, GError **error)
{
	g_autofree char *own_name = program == NULL ? default_program() : NULL;
	const IssuerMember member = {
		.version = SNOWFLAKE_VERSION,
		.program = program != NULL ? program : own_name,
	};
	GError *local = NULL;

	self->mark = fork_mark_new(&local);
	if (self->mark == NULL || !issuer_init(&self->issuer, self->options, &local) ||
	    !issuer_join(&self->issuer, &member, note_event, self, &local))
		return pass_failure_on(error, SNOWFLAKE_NODE_ERROR_FAILED, local);
	return TRUE;
}

/* Blocks all signals for the keeper's thread, and for threads that it starts: they are the
 * program's to handle. */
static void start_keeper(SnowflakeNode *self)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	keeper_start(self->issuer.keeper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static gboolean refuse_start(SnowflakeNode *self, guint timeout_ms, GError **error)
{
	g_autofree char *why = keeper_waiting_why(self->issuer.keeper);

	g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_UNAVAILABLE,
		    "no worker ID within %u ms: %s", timeout_ms,
		    why != NULL ? why : "its registry has not answered yet");
	return FALSE;
}

static gboolean await_lease(SnowflakeNode *self, guint timeout_ms, GError **error)
{
	gint64 until_us = g_get_monotonic_time() + timeout_ms * G_TIME_SPAN_MILLISECOND;

	for (;;) {
		guint64 n_seen = atomic_load(&self->n_events);
		GError *failure = keeper_error(self->issuer.keeper);
		KeeperStatus status;

		if (failure != NULL)
			return pass_failure_on(error, SNOWFLAKE_NODE_ERROR_FAILED, failure);
		keeper_get_status(self->issuer.keeper, &status);
		if (status.state == KEEPER_SERVING)
			return TRUE;
		if (g_get_monotonic_time() >= until_us)
			return refuse_start(self, timeout_ms, error);
		wait_for_event(self, n_seen, until_us);
	}
}

static gboolean check_config(const SnowflakeNodeConfig *config, GError **error)
{
	if (config == NULL) {
		g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT,
			    "there is no configuration: one that is all 0 will do");
		return FALSE;
	}
	return config->program == NULL || check_program(config->program, error);
}

static SnowflakeNode *make_node(const SnowflakeNodeConfig *config, GError **error)
{
	g_autoptr(SnowflakeNode) self = NULL;
	GError *local = NULL;
	Options *options;
	guint timeout_ms;

	if (!check_config(config, error))
		return NULL;
	options = options_embedded_new(config->options, &local);
	if (options == NULL) {
		pass_failure_on(error, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT, local);
		return NULL;
	}
	timeout_ms = config->start_timeout_ms != 0 ? config->start_timeout_ms
						   : SNOWFLAKE_NODE_DEFAULT_START_TIMEOUT_MS;
	log_set_format(LOG_FORMAT_GLIB);
	log_set_level(options->log_level);
	fork_guard_install(&locks);
	self = g_new0(SnowflakeNode, 1);
	self->options = options;
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->changed, NULL);
	if (!make_parts(self, config->program, error))
		return NULL;
	start_keeper(self);
	return await_lease(self, timeout_ms, error) ? g_steal_pointer(&self) : NULL;
}

SnowflakeNode *snowflake_node_new(const SnowflakeNodeConfig *config, GError **error)
{
	int state = begin_uncancelled();
	SnowflakeNode *self = make_node(config, error);

	pthread_setcancelstate(state, NULL);
	return self;
}

static void end_node(SnowflakeNode *self)
{
	/* a thread that hangs may still use all of it */
	if (self->issuer.keeper != NULL &&
	    !keeper_stop(self->issuer.keeper, self->options->stop_timeout_ms))
		return;
	issuer_clear(&self->issuer);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
	options_free(self->options);
	fork_mark_free(self->mark);
	g_free(self);
}

void snowflake_node_free(SnowflakeNode *self)
{
	int state;

	if (self == NULL || (self->mark != NULL && !fork_mark_is_mine(self->mark)))
		return;
	state = begin_uncancelled();
	end_node(self);
	pthread_setcancelstate(state, NULL);
}

/* Why there is no ID */

static gboolean refuse_forked(GError **error)
{
	g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_FORKED,
		    "this process is a child of the one whose node this is, and its IDs would be "
		    "the parent's: make a node here, after fork()");
	return FALSE;
}

static gboolean refuse_clock_back(gint64 behind_ms, GError **error)
{
	g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_CLOCK,
		    "the clock is %" G_GINT64_FORMAT " ms behind the last ID: set it right, or "
		    "wait as long",
		    behind_ms);
	return FALSE;
}

static gboolean refuse_clock_outside(const Layout *layout, GError **error)
{
	g_autofree char *first = text_time_ms(layout->epoch_ms);
	g_autofree char *last = layout_tick_text(layout, layout_max_tick(layout));

	g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_CLOCK,
		    "the clock is outside the layout's range, %s to %s", first, last);
	return FALSE;
}

static gboolean refuse_for_now(DrawStatus status, gint64 wait_us, GError **error)
{
	g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_UNAVAILABLE,
		    "%s, retry after %" G_GINT64_FORMAT " ms",
		    status == DRAW_WAIT ? "every ID of the present time is issued"
					: "no worker ID is reserved for the present time",
		    wait_us / G_TIME_SPAN_MILLISECOND + 1);
	return FALSE;
}

/* Drawing */

/* A wait for IDs. */
typedef struct {
	gint64 until_us; /* monotonic: it is over */
	guint64 n_seen;  /* events before the draw */
	DrawStatus status;
	DrawRefusal refusal;
} Wait;

static gboolean wait_for_ids(SnowflakeNode *self, const Wait *wait, GError **error)
{
	gint64 now_us = g_get_monotonic_time();
	/* until another try makes sense; 0: until the next event */
	gint64 wait_us = wait->refusal.wait_ns > 0
				 ? wait->refusal.wait_ns / 1000 + 1
				 : keeper_demand(self->issuer.keeper) * G_TIME_SPAN_MILLISECOND;
	GError *failure = keeper_error(self->issuer.keeper);

	if (failure != NULL && wait->refusal.wait_ns == 0)
		return pass_failure_on(error, SNOWFLAKE_NODE_ERROR_FAILED, failure);
	g_clear_error(&failure);
	if (now_us >= wait->until_us || now_us + wait_us > wait->until_us)
		return refuse_for_now(wait->status, wait_us, error);
	wait_for_event(self, wait->n_seen, wait_us > 0 ? now_us + wait_us : wait->until_us);
	return TRUE;
}

static gboolean wait_or_refuse(SnowflakeNode *self, const Wait *wait, GError **error)
{
	switch (wait->status) {
	case DRAW_CLOCK_BACK:
		return refuse_clock_back(wait->refusal.behind_ms, error);
	case DRAW_CLOCK_OUTSIDE:
		return refuse_clock_outside(&self->options->layout, error);
	case DRAW_OK:
	case DRAW_WAIT:
	case DRAW_UNRESERVED:
		break;
	}
	return wait_for_ids(self, wait, error);
}

static gboolean draw_and_wait(SnowflakeNode *self, guint most, IdRun *out_run, GError **error)
{
	Generator *generator = self->issuer.generator;
	Wait wait = {.until_us = g_get_monotonic_time() +
				 self->options->max_wait_ms * G_TIME_SPAN_MILLISECOND};

	while (fork_mark_is_mine(self->mark)) {
		wait.n_seen = atomic_load(&self->n_events);
		wait.status = generator_draw(generator, generator_room_in_tick(generator, most),
					     out_run, &wait.refusal);
		if (wait.status == DRAW_OK)
			return fork_mark_is_mine(self->mark) || refuse_forked(error);
		if (!wait_or_refuse(self, &wait, error))
			return FALSE;
	}
	return refuse_forked(error);
}

static G_GNUC_NO_INLINE gboolean await_run(SnowflakeNode *self, guint most, IdRun *out_run,
					   GError **error)
{
	int state = begin_uncancelled();
	gboolean drawn = draw_and_wait(self, most, out_run, error);

	pthread_setcancelstate(state, NULL);
	return drawn;
}

gboolean snowflake_node_next(SnowflakeNode *self, gint64 *out_id, GError **error)
{
	DrawRefusal refusal;
	IdRun run;

	/* the mark last, of what was drawn already: see common/fork-guard.h */
	if ((G_UNLIKELY(generator_draw(self->issuer.generator, 1, &run, &refusal) != DRAW_OK) ||
	     !fork_mark_is_mine(self->mark)) &&
	    !await_run(self, 1, &run, error))
		return FALSE;
	*out_id = id_run_get(&run, 0);
	return TRUE;
}

/* What of the run lies in the tick of its first ID. The rest is a gap, which is rare: another
 * thread, or the clock, was in between. */
static guint count_in_first_tick(const Layout *layout, const IdRun *run)
{
	gint64 tick = cursor_tick(layout, run->first_cursor);

	return (guint)MIN(run->count, cursor_first(layout, tick + 1) - run->first_cursor);
}

gboolean snowflake_node_next_run(SnowflakeNode *self, guint most, gint64 *out_first,
				 guint *out_count, GError **error)
{
	IdRun run;

	if (most == 0) {
		g_set_error(error, SNOWFLAKE_NODE_ERROR, SNOWFLAKE_NODE_ERROR_INVALID_ARGUMENT,
			    "a run has 1 ID at least, 0 are asked for");
		return FALSE;
	}
	if (!await_run(self, most, &run, error))
		return FALSE;
	*out_first = id_run_get(&run, 0);
	*out_count = count_in_first_tick(&self->options->layout, &run);
	return TRUE;
}
