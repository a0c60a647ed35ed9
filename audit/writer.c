/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/writer.h"

#include <errno.h>
#include <gio/gio.h>
#include <pthread.h>
#include <stdatomic.h>

#include "audit/lines.h"
#include "common/log.h"

/* How long it sleeps after it has written all there was; and if there was nothing, twice as long
 * each time. A ring holds what comes meanwhile. */
#define BUSY_NAP_MS 10
#define IDLE_NAP_MS 200

/* The pauses between tries, each twice as long as the one before. */
#define RETRY_FIRST_MS 50
#define RETRY_MOST_MS  2000

/* One that has not failed for as long does take what it is given. Else a sink that fails now and
 * then would fill the log. */
#define RECOVERED_AFTER_MS 1000

/* Gaps are told of in sum: the first at once, what comes after it once in as long. */
#define GAPS_EVERY_MS 60000

/* What a write may take: as of 2010. */
#define WRITE_LIMIT_MS 5000

/* For a write whose limit is the end to tell that it has failed. */
#define END_SPARE_MS 100

/* A ring, and its draw at hand. */
typedef struct {
	AuditRing *ring;
	AuditDraw draw;
	guint at; /* the next of its IDs */
} Source;

typedef struct {
	gboolean reopen, finish;
	gint64 by_us; /* the end, monotonic time */
} Orders;

struct _AuditWriter {
	AuditSink *sink;
	char *name;         /* for the log */
	GPtrArray *sources; /* of Source; does not change once the thread runs */
	pthread_t thread;
	gboolean running;
	gboolean hangs; /* when it was to end: the thread uses all of this until the process ends */
	_Atomic guint64 written_ids;
	_Atomic gboolean failing; /* the log said last that it is; by the thread */
	_Atomic guint64 told_ids; /* of those that were dropped, what the sink was told of */
	/* of the thread */
	guint next_source;
	AuditLines lines;   /* at hand: what was not written is tried again */
	guint failures;     /* in a row */
	guint all_failures; /* since the log said that it fails */
	gint64 failed_since_us, failed_last_us;
	guint64 untold_missing; /* IDs; the sink has it, the log not yet */
	gint64 next_told_us;
	/* under the mutex */
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* monotonic */
	Orders orders;
	gboolean nudged; /* there are new orders */
	gboolean ended;
};

static void source_free(gpointer pointer)
{
	Source *self = pointer;

	audit_ring_free(self->ring);
	g_free(self);
}

AuditWriter *audit_writer_new(AuditSink *sink, const char *name)
{
	AuditWriter *self = g_new0(AuditWriter, 1);
	pthread_condattr_t monotonic;

	self->sink = sink;
	self->name = g_strdup(name);
	self->sources = g_ptr_array_new_with_free_func(source_free);
	audit_lines_init(&self->lines);
	pthread_mutex_init(&self->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&self->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return self;
}

void audit_writer_free(AuditWriter *self)
{
	if (self->hangs)
		return;
	if (self->running) {
		audit_writer_finish(self, 0);
		pthread_join(self->thread, NULL);
	}
	self->sink->ops->free(self->sink);
	g_free(self->name);
	g_ptr_array_unref(self->sources);
	audit_lines_clear(&self->lines);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
	g_free(self);
}

AuditRing *audit_writer_add_ring(AuditWriter *self, gsize bytes)
{
	Source *source = g_new0(Source, 1);

	g_assert(!self->running);
	source->ring = audit_ring_new(bytes);
	g_ptr_array_add(self->sources, source);
	return source->ring;
}

/* %FALSE at @by_us; the mutex is held. */
static gboolean wait_until(AuditWriter *self, gint64 by_us)
{
	const struct timespec by = {by_us / G_USEC_PER_SEC, by_us % G_USEC_PER_SEC * 1000};

	return pthread_cond_timedwait(&self->changed, &self->mutex, &by) != ETIMEDOUT;
}

/* The thread */

/* Until there are new orders at the latest. */
static void nap(AuditWriter *self, guint ms)
{
	gint64 by_us = g_get_monotonic_time() + ms * G_TIME_SPAN_MILLISECOND;

	pthread_mutex_lock(&self->mutex);
	if (self->orders.finish)
		by_us = MIN(by_us, self->orders.by_us);
	while (!self->nudged && wait_until(self, by_us))
		;
	self->nudged = FALSE;
	pthread_mutex_unlock(&self->mutex);
}

static Orders take_orders(AuditWriter *self)
{
	Orders orders;

	pthread_mutex_lock(&self->mutex);
	orders = self->orders;
	self->orders.reopen = FALSE;
	pthread_mutex_unlock(&self->mutex);
	return orders;
}

static void log_failure(const AuditWriter *self, LogEvent event, const GError *error)
{
	log_event(event, log_text("sink", self->name), log_text("error", error->message));
}

static void reopen(AuditWriter *self)
{
	g_autoptr(GError) error = NULL;

	if (self->sink->ops->reopen == NULL)
		return;
	if (self->sink->ops->reopen(self->sink, self->lines.bytes, &error))
		log_event(LOG_AUDIT_REOPENED, log_text("sink", self->name));
	else
		log_failure(self, LOG_AUDIT_REOPEN_FAILED, error);
}

static gboolean take_draw(AuditWriter *self, Source *source)
{
	if (!audit_ring_take(source->ring, &source->draw))
		return FALSE;
	source->at = 0;
	if (source->draw.missing > 0) {
		audit_lines_append_missing(&self->lines, source->draw.missing);
		self->untold_missing += source->draw.missing;
	}
	return TRUE;
}

static gboolean is_full(const AuditWriter *self)
{
	return self->lines.n_lines >= self->sink->ops->max_lines;
}

static void fill_from(AuditWriter *self, Source *source)
{
	while (!is_full(self) && (source->at < source->draw.run.count || take_draw(self, source)))
		source->at = audit_lines_append(&self->lines, &source->draw, source->at,
						self->sink->ops->max_lines);
}

/* Each time another ring is first: one that is never empty does not keep the others waiting. */
static void fill(AuditWriter *self)
{
	guint n = self->sources->len;

	for (guint i = 0; i < n && !is_full(self); i++)
		fill_from(self, self->sources->pdata[(self->next_source + i) % n]);
	self->next_source = (self->next_source + 1) % n;
}

static guint write_limit_ms(const Orders *orders)
{
	gint64 left_ms = (orders->by_us - g_get_monotonic_time()) / G_TIME_SPAN_MILLISECOND;

	return orders->finish ? (guint)CLAMP(left_ms, 1, WRITE_LIMIT_MS) : WRITE_LIMIT_MS;
}

/* By the only thread that changes it. */
static void add(_Atomic guint64 *value, guint64 n)
{
	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n,
			      memory_order_release);
}

static void note_success(AuditWriter *self)
{
	self->failures = 0;
	add(&self->written_ids, self->lines.n_ids);
	add(&self->told_ids, self->lines.n_missing);
	audit_lines_empty(&self->lines);
}

static void note_failure(AuditWriter *self, const GError *error)
{
	self->failed_last_us = g_get_monotonic_time();
	self->failures++;
	self->all_failures++;
	if (self->failing)
		return;
	self->failing = TRUE;
	self->all_failures = 1;
	self->failed_since_us = self->failed_last_us;
	log_failure(self, LOG_AUDIT_FAILED, error);
}

static void tell_recovery(AuditWriter *self)
{
	gint64 well_us = g_get_monotonic_time() - self->failed_last_us;

	if (!self->failing || self->failures > 0 ||
	    well_us < RECOVERED_AFTER_MS * G_TIME_SPAN_MILLISECOND)
		return;
	self->failing = FALSE;
	log_event(LOG_AUDIT_RECOVERED, log_text("sink", self->name),
		  log_number("failures", self->all_failures),
		  log_number("failed_ms", (self->failed_last_us - self->failed_since_us) /
						  G_TIME_SPAN_MILLISECOND));
}

static void tell_gaps(AuditWriter *self, gboolean at_the_end)
{
	gint64 now_us = g_get_monotonic_time();

	if (self->untold_missing == 0 || (now_us < self->next_told_us && !at_the_end))
		return;
	log_event(LOG_AUDIT_GAP, log_text("sink", self->name),
		  log_number("ids", (gint64)self->untold_missing));
	self->untold_missing = 0;
	self->next_told_us = now_us + GAPS_EVERY_MS * G_TIME_SPAN_MILLISECOND;
}

static gboolean write_lines(AuditWriter *self, const Orders *orders)
{
	g_autoptr(GError) error = NULL;

	if (self->sink->ops->write(self->sink, self->lines.bytes, write_limit_ms(orders), &error)) {
		note_success(self);
		return TRUE;
	}
	note_failure(self, error);
	return FALSE;
}

static gboolean is_over(const Orders *orders)
{
	return orders->finish && g_get_monotonic_time() >= orders->by_us;
}

typedef enum { ROUND_IDLE, ROUND_WROTE_ALL, ROUND_WROTE_SOME, ROUND_FAILED } Round;

static Round do_round(AuditWriter *self, const Orders *orders)
{
	gboolean full;

	if (orders->reopen)
		reopen(self);
	if (self->lines.n_lines == 0)
		fill(self);
	if (self->lines.n_lines == 0)
		return ROUND_IDLE;
	full = is_full(self);
	if (!write_lines(self, orders))
		return ROUND_FAILED;
	return full ? ROUND_WROTE_SOME : ROUND_WROTE_ALL;
}

/* @last_ms: the nap before */
static guint nap_ms(const AuditWriter *self, Round round, guint last_ms)
{
	switch (round) {
	case ROUND_IDLE:
		return MIN(MAX(last_ms, BUSY_NAP_MS) * 2, IDLE_NAP_MS);
	case ROUND_WROTE_ALL:
		return BUSY_NAP_MS;
	case ROUND_FAILED:
		return MIN(RETRY_FIRST_MS << MIN(self->failures - 1, 16), RETRY_MOST_MS);
	case ROUND_WROTE_SOME:
	default:
		return 0;
	}
}

static void sync_sink(AuditWriter *self)
{
	g_autoptr(GError) error = NULL;

	if (self->sink->ops->sync != NULL && !self->sink->ops->sync(self->sink, &error))
		log_failure(self, LOG_AUDIT_FAILED, error);
}

static gpointer writer_thread(gpointer user_data)
{
	AuditWriter *self = user_data;
	guint ms = 0;

	for (;;) {
		/* first: what was put before an order to finish is seen after it */
		Orders orders = take_orders(self);
		Round round = do_round(self, &orders);

		tell_recovery(self);
		tell_gaps(self, FALSE);
		if (orders.finish && (round == ROUND_IDLE || is_over(&orders)))
			break;
		ms = nap_ms(self, round, ms);
		if (ms > 0)
			nap(self, ms);
	}
	tell_gaps(self, TRUE);
	sync_sink(self);
	pthread_mutex_lock(&self->mutex);
	self->ended = TRUE;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
	return NULL;
}

/* The main thread */

gboolean audit_writer_start(AuditWriter *self, GError **error)
{
	int failure = pthread_create(&self->thread, NULL, writer_thread, self);

	if (failure != 0) {
		g_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure),
			    "cannot start a thread: %s", g_strerror(failure));
		return FALSE;
	}
	self->running = TRUE;
	pthread_setname_np(self->thread, "audit");
	return TRUE;
}

/* The mutex is held. */
static void nudge(AuditWriter *self)
{
	self->nudged = TRUE;
	pthread_cond_broadcast(&self->changed);
}

void audit_writer_reopen(AuditWriter *self)
{
	pthread_mutex_lock(&self->mutex);
	self->orders.reopen = TRUE;
	nudge(self);
	pthread_mutex_unlock(&self->mutex);
}

void audit_writer_finish(AuditWriter *self, gint64 by_us)
{
	pthread_mutex_lock(&self->mutex);
	self->orders.finish = TRUE;
	self->orders.by_us = by_us;
	nudge(self);
	pthread_mutex_unlock(&self->mutex);
}

static gboolean await_end(AuditWriter *self)
{
	gint64 by_us;
	gboolean ended;

	pthread_mutex_lock(&self->mutex);
	by_us = self->orders.by_us + END_SPARE_MS * G_TIME_SPAN_MILLISECOND;
	while (!self->ended && wait_until(self, by_us))
		;
	ended = self->ended;
	pthread_mutex_unlock(&self->mutex);
	return ended;
}

/* What the sink has no entry of, and no word that it is missing. */
static guint64 lost_ids(const AuditWriter *self)
{
	/* first, as in audit_writer_queued_ids(): a thread that hangs may go on */
	guint64 told = atomic_load_explicit(&self->told_ids, memory_order_acquire);

	return audit_writer_queued_ids(self) + audit_writer_dropped_ids(self) - told;
}

void audit_writer_join(AuditWriter *self)
{
	guint64 lost;

	self->hangs = self->running && !await_end(self);
	lost = lost_ids(self);
	if (lost > 0)
		log_event(LOG_AUDIT_LOST, log_text("sink", self->name),
			  log_number("ids", (gint64)lost));
	if (self->hangs)
		pthread_detach(self->thread);
	else if (self->running)
		pthread_join(self->thread, NULL);
	self->running = FALSE;
}

/* Any thread */

const char *audit_writer_name(const AuditWriter *self)
{
	return self->name;
}

gboolean audit_writer_is_failing(const AuditWriter *self)
{
	return atomic_load_explicit(&self->failing, memory_order_relaxed);
}

guint64 audit_writer_queued_ids(const AuditWriter *self)
{
	/* first, so that it is not ahead of what was put */
	guint64 written = atomic_load_explicit(&self->written_ids, memory_order_acquire);
	guint64 put = 0;

	for (guint i = 0; i < self->sources->len; i++)
		put += audit_ring_put_ids(((const Source *)self->sources->pdata[i])->ring);
	return put - written;
}

guint64 audit_writer_dropped_ids(const AuditWriter *self)
{
	guint64 dropped = 0;

	for (guint i = 0; i < self->sources->len; i++)
		dropped += audit_ring_dropped_ids(((const Source *)self->sources->pdata[i])->ring);
	return dropped;
}
