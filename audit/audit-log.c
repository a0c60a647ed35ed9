/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/audit-log.h"

#include "audit/file-sink.h"
#include "audit/scribe-sink.h"
#include "audit/target.h"
#include "audit/writer.h"
#include "core/random.h"

struct _AuditProducer {
	guint64 next_tags; /* tags of the next draw, see lines.h */
	guint n_rings;
	AuditRing *rings[]; /* one for each sink */
};

struct _AuditLog {
	GPtrArray *writers;   /* of AuditWriter, one for each sink */
	GPtrArray *producers; /* of AuditProducer */
	gsize queue_bytes;
};

static AuditSink *sink_new(const AuditTarget *target, GError **error)
{
	if (target->path != NULL)
		return file_sink_new(target->path, error);
	return scribe_sink_new(target->address, target->category);
}

AuditLog *audit_log_new(const GPtrArray *targets, gsize queue_bytes, GError **error)
{
	g_autoptr(AuditLog) self = g_new(AuditLog, 1);

	*self = (AuditLog){
		.writers = g_ptr_array_new_with_free_func((GDestroyNotify)audit_writer_free),
		.producers = g_ptr_array_new_with_free_func(g_free),
		.queue_bytes = queue_bytes,
	};
	for (guint i = 0; i < targets->len; i++) {
		const AuditTarget *target = targets->pdata[i];
		AuditSink *sink = sink_new(target, error);

		if (sink == NULL)
			return NULL;
		g_ptr_array_add(self->writers, audit_writer_new(sink, target->text));
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
	for (guint i = 0; i < n; i++)
		producer->rings[i] =
			audit_writer_add_ring(self->writers->pdata[i], self->queue_bytes);
	g_ptr_array_add(self->producers, producer);
	return producer;
}

gboolean audit_log_start(AuditLog *self, GError **error)
{
	for (guint i = 0; i < self->writers->len; i++)
		if (!audit_writer_start(self->writers->pdata[i], error))
			return FALSE;
	return TRUE;
}

void audit_log_reopen(AuditLog *self)
{
	for (guint i = 0; i < self->writers->len; i++)
		audit_writer_reopen(self->writers->pdata[i]);
}

void audit_log_finish(AuditLog *self, gint64 by_us)
{
	for (guint i = 0; i < self->writers->len; i++)
		audit_writer_finish(self->writers->pdata[i], by_us);
}

void audit_log_join(AuditLog *self)
{
	for (guint i = 0; i < self->writers->len; i++)
		audit_writer_join(self->writers->pdata[i]);
}

guint64 audit_log_queued_ids(const AuditLog *self)
{
	guint64 sum = 0;

	for (guint i = 0; i < self->writers->len; i++)
		sum += audit_writer_queued_ids(self->writers->pdata[i]);
	return sum;
}

guint64 audit_log_dropped_ids(const AuditLog *self)
{
	guint64 sum = 0;

	for (guint i = 0; i < self->writers->len; i++)
		sum += audit_writer_dropped_ids(self->writers->pdata[i]);
	return sum;
}

gboolean audit_log_get_sink(const AuditLog *self, guint nth, AuditSinkStatus *out_status)
{
	const AuditWriter *writer;

	if (nth >= self->writers->len)
		return FALSE;
	writer = self->writers->pdata[nth];
	*out_status = (AuditSinkStatus){
		.sink = audit_writer_name(writer),
		.queued_ids = audit_writer_queued_ids(writer),
		.dropped_ids = audit_writer_dropped_ids(writer),
		.failing = audit_writer_is_failing(writer),
	};
	return TRUE;
}

void audit_producer_issued(AuditProducer *self, const IdRun *run, const char *agent, gsize length)
{
	for (guint i = 0; i < self->n_rings; i++)
		audit_ring_put(self->rings[i], run, self->next_tags, agent, length);
	self->next_tags += run->count;
}
