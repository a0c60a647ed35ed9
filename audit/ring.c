/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/ring.h"

#include <stdatomic.h>
#include <string.h>

/* A draw in the ring, followed by the agent. Both are padded to whole words. */
typedef struct {
	guint64 first_cursor;
	guint64 fixed_bits;
	guint64 tags;
	guint64 dropped; /* the ring's dropped_ids at the time of the draw */
	guint32 count;
	guint8 sequence_bits;
	guint8 time_shift;
	guint16 agent_length;
} Head;

#define WORD       sizeof(guint64)
#define HEAD_WORDS (sizeof(Head) / WORD)

G_STATIC_ASSERT(sizeof(Head) % WORD == 0);

typedef struct {
	Head head;
	char agent[AUDIT_AGENT_MAX_BYTES];
} Record;

#define LINE_BYTES 64 /* size of a cache line */

/* Positions are in words since the start. */
struct _AuditRing {
	/* written by the thread that puts */
	_Alignas(LINE_BYTES) _Atomic guint64 end;
	_Atomic guint64 put_ids;
	_Atomic guint64 dropped_ids;
	guint64 begin_seen;
	/* written by the thread that takes */
	_Alignas(LINE_BYTES) _Atomic guint64 begin;
	guint64 end_seen;
	guint64 dropped_seen;
	/* read by both, and never changed */
	_Alignas(LINE_BYTES) guint64 *words;
	guint64 n_words; /* a power of two */
};

AuditRing *audit_ring_new(gsize bytes)
{
	AuditRing *self = g_aligned_alloc0(1, sizeof *self, _Alignof(AuditRing));

	self->n_words = G_GUINT64_CONSTANT(1) << (g_bit_storage(bytes / WORD) - 1);
	self->words = g_new(guint64, self->n_words);
	return self;
}

void audit_ring_free(AuditRing *self)
{
	g_free(self->words);
	g_aligned_free(self);
}

/* Adds to @value. Only the thread that owns @value calls this. */
static void publish_add(_Atomic guint64 *value, guint64 n)
{
	atomic_store_explicit(value, atomic_load_explicit(value, memory_order_relaxed) + n,
			      memory_order_release);
}

static guint64 words_of(gsize agent_length)
{
	return HEAD_WORDS + (agent_length + WORD - 1) / WORD;
}

/* Copies part of a record, which may wrap around the end of the ring. */
static void copy_out(const AuditRing *self, guint64 position, void *to, guint64 words)
{
	guint64 at = position & (self->n_words - 1);
	guint64 first = MIN(words, self->n_words - at);

	memcpy(to, self->words + at, first * WORD);
	memcpy((char *)to + first * WORD, self->words, (words - first) * WORD);
}

void audit_ring_put(AuditRing *self, const IdRun *run, guint64 tags, const char *agent,
		    gsize length)
{
	guint64 end = atomic_load_explicit(&self->end, memory_order_relaxed);
	guint64 words = words_of(length);
	guint64 at = end & (self->n_words - 1);
	guint64 first = MIN(words, self->n_words - at);
	Record record;

	if (end + words - self->begin_seen > self->n_words) {
		self->begin_seen = atomic_load_explicit(&self->begin, memory_order_acquire);
		if (end + words - self->begin_seen > self->n_words) {
			publish_add(&self->dropped_ids, run->count);
			return;
		}
	}
	record.head = (Head){
		.first_cursor = run->first_cursor,
		.fixed_bits = run->fixed_bits,
		.tags = tags,
		.dropped = atomic_load_explicit(&self->dropped_ids, memory_order_relaxed),
		.count = run->count,
		.sequence_bits = run->sequence_bits,
		.time_shift = run->time_shift,
		.agent_length = (guint16)length,
	};
	/* the unused bytes of its last word also go into the ring, but are never read */
	memcpy(record.agent, agent, length);
	memcpy(self->words + at, &record, first * WORD);
	memcpy(self->words, (const char *)&record + first * WORD, (words - first) * WORD);
	publish_add(&self->put_ids, run->count);
	publish_add(&self->end, words);
}

gboolean audit_ring_take(AuditRing *self, AuditDraw *out_draw)
{
	guint64 begin = atomic_load_explicit(&self->begin, memory_order_relaxed);
	Head head = {0};
	gboolean has_draw;

	if (begin == self->end_seen) {
		/* read this before the end: these IDs were dropped before any draw beyond that end
		 * was put */
		head.dropped = atomic_load_explicit(&self->dropped_ids, memory_order_acquire);
		self->end_seen = atomic_load_explicit(&self->end, memory_order_acquire);
		if (begin == self->end_seen && head.dropped == self->dropped_seen)
			return FALSE;
	}
	has_draw = begin != self->end_seen;
	if (has_draw)
		copy_out(self, begin, &head, HEAD_WORDS);
	out_draw->missing = head.dropped - self->dropped_seen;
	self->dropped_seen = head.dropped;
	out_draw->run = (IdRun){
		.first_cursor = head.first_cursor,
		.fixed_bits = head.fixed_bits,
		.count = head.count,
		.sequence_bits = head.sequence_bits,
		.time_shift = head.time_shift,
	};
	if (!has_draw)
		return TRUE;
	out_draw->tags = head.tags;
	out_draw->agent_length = head.agent_length;
	copy_out(self, begin + HEAD_WORDS, out_draw->agent,
		 words_of(head.agent_length) - HEAD_WORDS);
	publish_add(&self->begin, words_of(head.agent_length));
	return TRUE;
}

guint64 audit_ring_put_ids(const AuditRing *self)
{
	return atomic_load_explicit(&self->put_ids, memory_order_relaxed);
}

guint64 audit_ring_dropped_ids(const AuditRing *self)
{
	return atomic_load_explicit(&self->dropped_ids, memory_order_relaxed);
}
