/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit-log.h"

#include <gio/gio.h>
#include <stdatomic.h>

#include "audit/entry.h"
#include "audit/sink-report.h"
#include "audit/sink.h"
#include "common/log.h"
#include "common/thread.h"
#include "core/clock.h"
#include "core/random.h"
#include "core/text.h"

/* How long the thread pauses after it has written all draws. While there are no draws, the pause
 * doubles up to a maximum. The rings hold the draws that arrive in the meantime. */
#define BUSY_NAP_MS 10
#define IDLE_NAP_MS 200

/* The backoff after a failed write. It doubles with each failure. */
#define RETRY_FIRST_MS 50
#define RETRY_MOST_MS  2000

/* The time limit of a write, as in the original service. */
#define WRITE_LIMIT_MS 5000

/* Within audit_log_finish(), a write times out this long before the function's own time limit, so
 * that its error can still be reported. */
#define END_SPARE_MS 100

/* A ring, and the last draw that was taken from it. */
typedef struct {
	AuditRing *ring;
	AuditDraw draw;
	guint at; /* index of the draw's next ID to write */
} Source;

typedef struct {
	gboolean reopen, finish;
	gint64 finish_at_us; /* monotonic time */
} Orders;

/* The thread of one sink: takes draws from rings and writes their lines. Lines that the sink does
 * not accept are kept, and are written again later. Meanwhile, the rings fill up, and then drop
 * draws. So memory is bounded, and producers do not wait.
 *
 * Draws do not wake the thread: it polls 100 times a second while there are draws, and 5 times a
 * second when there are none. */
typedef struct {
	AuditSink *sink;
	char *name;         /* name in the log */
	GPtrArray *sources; /* (element-type Source): does not change while the thread runs */
	pthread_t thread;
	gboolean running;
	/* the thread did not end in time, and uses this object until the process ends */
	gboolean hangs;
	_Atomic guint64 written_ids;
	_Atomic guint64 reported_ids; /* dropped IDs that are reported by lines in the sink */
	AuditSinkReport report;       /* used by the thread only, except failing */
	/* used only by the thread */
	guint next_source;
	AuditLines lines; /* lines to write or to retry */
	/* protected by the mutex */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	Orders orders;
	gboolean has_orders; /* a request was made since the last pause */
	gboolean ended;
} Writer;

struct _AuditProducer {
	guint64 next_tags; /* the first tag of the next draw, see entry.h */
	guint n_rings;
	AuditRing *rings[]; /* one for each sink */
};

struct _AuditLog {
	GPtrArray *writers;   /* (element-type Writer): one for each sink */
	GPtrArray *producers; /* (element-type AuditProducer) */
	gsize queue_bytes;
};

/* The thread of a writer */

/* Starts with another ring in each round, so that a ring that is never empty does not block the
 * others. */
static void fill_lines(Writer *self)
{
	guint max_lines = self->sink->ops->max_lines;
	guint n = self->sources->len;

	for (guint i = 0; i < n; i++) {
		Source *source = self->sources->pdata[(self->next_source + i) % n];

		while (self->lines.n_lines < max_lines) {
			if (source->at == source->draw.run.count) {
				if (!audit_ring_take(source->ring, &source->draw))
					break;
				source->at = 0;
				if (source->draw.missing > 0)
					audit_lines_append_missing(&self->lines,
								   source->draw.missing);
				self->report.unlogged_missing += source->draw.missing;
			}
			source->at = audit_lines_append(&self->lines, &source->draw, source->at,
							max_lines);
		}
	}
	self->next_source = (self->next_source + 1) % n;
}

/* Returns the number of IDs that were dropped since the start. Can be called from any thread. */
static guint64 count_dropped_ids(const Writer *self)
{
	guint64 sum = 0;

	for (guint i = 0; i < self->sources->len; i++)
		sum += audit_ring_dropped_ids(((const Source *)self->sources->pdata[i])->ring);
	return sum;
}

static gboolean write_lines(Writer *self, const Orders *orders)
{
	gint64 left_ms = (orders->finish_at_us - g_get_monotonic_time()) / G_TIME_SPAN_MILLISECOND;
	guint limit_ms = orders->finish ? (guint)CLAMP(left_ms, 1, WRITE_LIMIT_MS) : WRITE_LIMIT_MS;
	g_autoptr(GError) error = NULL;

	if (self->sink->ops->write(self->sink, self->lines.bytes, limit_ms, &error)) {
		self->report.n_consecutive_failures = 0;
		atomic_fetch_add_explicit(&self->written_ids, self->lines.n_ids,
					  memory_order_release);
		atomic_fetch_add_explicit(&self->reported_ids, self->lines.n_missing,
					  memory_order_release);
		audit_lines_empty(&self->lines);
		return TRUE;
	}
	audit_sink_report_failure(&self->report, error->message, count_dropped_ids(self),
				  g_get_monotonic_time());
	return FALSE;
}

typedef enum { ROUND_IDLE, ROUND_WROTE_ALL, ROUND_WROTE_SOME, ROUND_FAILED } Round;

static Round do_round(Writer *self, const Orders *orders)
{
	gboolean was_full;

	if (orders->reopen && self->sink->ops->reopen != NULL) {
		g_autoptr(GError) error = NULL;

		if (self->sink->ops->reopen(self->sink, self->lines.bytes, &error))
			log_event(LOG_AUDIT_REOPENED, log_text("sink", self->name));
		else
			log_event(LOG_AUDIT_REOPEN_FAILED, log_text("sink", self->name),
				  log_text("error", error->message));
	}
	if (self->lines.n_lines == 0)
		fill_lines(self);
	if (self->lines.n_lines == 0)
		return ROUND_IDLE;
	was_full = self->lines.n_lines >= self->sink->ops->max_lines;
	if (!write_lines(self, orders))
		return ROUND_FAILED;
	return was_full ? ROUND_WROTE_SOME : ROUND_WROTE_ALL;
}

static gpointer writer_thread(gpointer user_data)
{
	Writer *self = user_data;
	g_autoptr(GError) error = NULL;
	guint ms = 0; /* the last pause */

	for (;;) {
		Orders orders;
		Round round;
		gint64 until_us;

		/* read the requests first, so that the round includes every draw that was made
		 * before a request to finish */
		pthread_mutex_lock(&self->mutex);
		orders = self->orders;
		self->orders.reopen = FALSE;
		pthread_mutex_unlock(&self->mutex);
		round = do_round(self, &orders);
		audit_sink_report_log(&self->report, count_dropped_ids(self),
				      g_get_monotonic_time(), FALSE);
		if (orders.finish &&
		    (round == ROUND_IDLE || g_get_monotonic_time() >= orders.finish_at_us))
			break;
		if (round == ROUND_IDLE)
			ms = MIN(MAX(ms, BUSY_NAP_MS) * 2, IDLE_NAP_MS);
		else if (round == ROUND_FAILED)
			ms = MIN(RETRY_FIRST_MS << MIN(self->report.n_consecutive_failures - 1, 16),
				 RETRY_MOST_MS);
		else
			ms = round == ROUND_WROTE_ALL ? BUSY_NAP_MS : 0;
		until_us = g_get_monotonic_time() + ms * G_TIME_SPAN_MILLISECOND;
		pthread_mutex_lock(&self->mutex);
		if (self->orders.finish)
			until_us = MIN(until_us, self->orders.finish_at_us);
		while (ms > 0 && !self->has_orders &&
		       clock_wait_until(&self->changed, &self->mutex, until_us) == 0)
			;
		self->has_orders = FALSE;
		pthread_mutex_unlock(&self->mutex);
	}
	audit_sink_report_log(&self->report, count_dropped_ids(self), g_get_monotonic_time(), TRUE);
	if (self->sink->ops->sync != NULL && !self->sink->ops->sync(self->sink, &error))
		log_event(LOG_AUDIT_FAILED, log_text("sink", self->name),
			  log_text("error", error->message));
	pthread_mutex_lock(&self->mutex);
	self->ended = TRUE;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
	return NULL;
}

/* The main thread */

static void give_orders(Writer *self, const Orders *orders)
{
	pthread_mutex_lock(&self->mutex);
	self->orders.reopen |= orders->reopen;
	if (orders->finish) {
		self->orders.finish = TRUE;
		self->orders.finish_at_us = orders->finish_at_us;
	}
	self->has_orders = TRUE;
	pthread_cond_broadcast(&self->changed);
	pthread_mutex_unlock(&self->mutex);
}

/* Ends the thread, even if some lines are not written. If the thread hangs, the writer is not
 * freed. */
static void writer_free(gpointer pointer)
{
	Writer *self = pointer;

	if (self->hangs)
		return;
	if (self->running) {
		give_orders(self, &(Orders){.finish = TRUE});
		pthread_join(self->thread, NULL);
	}
	self->sink->ops->free(self->sink);
	for (guint i = 0; i < self->sources->len; i++)
		audit_ring_free(((Source *)self->sources->pdata[i])->ring);
	g_free(self->report.last_error);
	g_free(self->name);
	g_ptr_array_unref(self->sources);
	audit_lines_clear(&self->lines);
	pthread_cond_destroy(&self->changed);
	pthread_mutex_destroy(&self->mutex);
	g_free(self);
}

void audit_log_add_sink(AuditLog *self, AuditSink *sink, const char *name)
{
	Writer *writer = g_new0(Writer, 1);

	writer->sink = sink;
	writer->name = g_strdup(name);
	writer->report.sink = writer->name;
	writer->sources = g_ptr_array_new_with_free_func(g_free);
	audit_lines_init(&writer->lines);
	pthread_mutex_init(&writer->mutex, NULL);
	pthread_cond_init(&writer->changed, NULL);
	g_ptr_array_add(self->writers, writer);
}

AuditLog *audit_log_new(const GPtrArray *targets, gsize queue_bytes, GError **error)
{
	g_autoptr(AuditLog) self = g_new(AuditLog, 1);

	*self = (AuditLog){
		.writers = g_ptr_array_new_with_free_func(writer_free),
		.producers = g_ptr_array_new_with_free_func(g_free),
		.queue_bytes = queue_bytes,
	};
	for (guint i = 0; i < targets->len; i++) {
		const AuditTarget *target = targets->pdata[i];
		AuditSink *sink = target->path != NULL ? audit_sink_new_file(target->path, error)
						       : audit_sink_new_scribe(target->address,
									       target->category);

		if (sink == NULL)
			return NULL;
		audit_log_add_sink(self, sink, target->text);
	}
	return g_steal_pointer(&self);
}

void audit_log_free(AuditLog *self)
{
	if (self == NULL)
		return;
	g_ptr_array_unref(self->writers);
	g_ptr_array_unref(self->producers);
	g_free(self);
}

AuditProducer *audit_log_add_producer(AuditLog *self)
{
	guint n = self->writers->len;
	AuditProducer *producer;

	if (n == 0)
		return NULL;
	producer = g_malloc(sizeof *producer + n * sizeof producer->rings[0]);
	producer->next_tags = random_u64();
	producer->n_rings = n;
	for (guint i = 0; i < n; i++) {
		Writer *writer = self->writers->pdata[i];
		Source *source = g_new0(Source, 1);

		g_assert(!writer->running);
		source->ring = audit_ring_new(self->queue_bytes);
		g_ptr_array_add(writer->sources, source);
		producer->rings[i] = source->ring;
	}
	g_ptr_array_add(self->producers, producer);
	return producer;
}

gboolean audit_log_start(AuditLog *self, GError **error)
{
	for (guint i = 0; i < self->writers->len; i++) {
		Writer *writer = self->writers->pdata[i];
		int failure = thread_start(&writer->thread, "audit", writer_thread, writer);

		if (failure != 0)
			return text_set_error(error, G_IO_ERROR, g_io_error_from_errno(failure),
					      "cannot start a thread: %s", g_strerror(failure));
		writer->running = TRUE;
	}
	return TRUE;
}

void audit_log_reopen(AuditLog *self)
{
	for (guint i = 0; i < self->writers->len; i++)
		give_orders(self->writers->pdata[i], &(Orders){.reopen = TRUE});
}

void audit_log_finish(AuditLog *self, gint64 by_us)
{
	for (guint i = 0; i < self->writers->len; i++)
		give_orders(self->writers->pdata[i],
			    &(Orders){.finish = TRUE, .finish_at_us = by_us});
}

void audit_log_join(AuditLog *self)
{
	for (guint i = 0; i < self->writers->len; i++) {
		Writer *writer = self->writers->pdata[i];
		AuditSinkStatus status;
		guint64 reported, lost;
		gint64 until_us;

		pthread_mutex_lock(&writer->mutex);
		until_us = writer->orders.finish_at_us + END_SPARE_MS * G_TIME_SPAN_MILLISECOND;
		while (writer->running && !writer->ended &&
		       clock_wait_until(&writer->changed, &writer->mutex, until_us) == 0)
			;
		writer->hangs = writer->running && !writer->ended;
		pthread_mutex_unlock(&writer->mutex);
		/* read this before the other values, because a hanging thread may continue in
		 * between */
		reported = atomic_load_explicit(&writer->reported_ids, memory_order_acquire);
		audit_log_get_sink(self, i, &status);
		/* IDs that have no entry and that no line reports as missing */
		lost = status.queued_ids + status.dropped_ids - reported;
		if (lost > 0)
			log_event(LOG_AUDIT_LOST, log_text("sink", writer->name),
				  log_number("ids", (gint64)lost));
		if (writer->hangs)
			pthread_detach(writer->thread);
		else if (writer->running)
			pthread_join(writer->thread, NULL);
		writer->running = FALSE;
	}
}

/* Any thread */

gboolean audit_log_get_sink(const AuditLog *self, guint nth, AuditSinkStatus *out_status)
{
	const Writer *writer;
	guint64 written, put = 0;

	if (nth >= self->writers->len)
		return FALSE;
	writer = self->writers->pdata[nth];
	/* read this first, so that it cannot exceed the number of IDs that were put */
	written = atomic_load_explicit(&writer->written_ids, memory_order_acquire);
	for (guint i = 0; i < writer->sources->len; i++)
		put += audit_ring_put_ids(((const Source *)writer->sources->pdata[i])->ring);
	*out_status = (AuditSinkStatus){
		.sink = writer->name,
		.queued_ids = put - written,
		.dropped_ids = count_dropped_ids(writer),
		.is_failing =
			atomic_load_explicit(&writer->report.is_failing, memory_order_relaxed),
	};
	return TRUE;
}

AuditSinkStatus audit_log_sum(const AuditLog *self)
{
	AuditSinkStatus status, sum = {0};

	for (guint i = 0; audit_log_get_sink(self, i, &status); i++) {
		sum.queued_ids += status.queued_ids;
		sum.dropped_ids += status.dropped_ids;
		sum.is_failing |= status.is_failing;
	}
	return sum;
}

void audit_producer_issued(AuditProducer *self, const IdRun *run, const char *agent, gsize length)
{
	for (guint i = 0; i < self->n_rings; i++)
		audit_ring_put(self->rings[i], run, self->next_tags, agent, length);
	self->next_tags += run->count;
}
