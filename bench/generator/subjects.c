/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each subject has its own loop, so that the measured function is called directly. A macro makes
 * two versions of the loop: with and without an array for the IDs.
 */
#include "bench/generator/subjects.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/generator/original.h"
#include "core/generator.h"
#include "core/ulid.h"

#define EPOCH_MS G_GINT64_CONSTANT(1288834974657)

/* Layouts with so many IDs per tick that they hardly ever limit the rate. Two threads with batches
 * of 1,000 can reach the limit of the first layout, 4,194 million IDs a second. */
static const Layout milliseconds = {EPOCH_MS, 1, 41, 0, 0, 22};
static const Layout seconds = {EPOCH_MS, 1000, 32, 0, 0, 31};

struct _Subject {
	SubjectKind kind;
	SystemClock clock;
	Generator *generator;
	Original original;
	UuidGenerator ulid_generator;
};

static Generator *new_generator(const Clock *clock, const Layout *layout)
{
	const GeneratorPolicy policy = {
		.max_ahead_ms = 10, .sequence_start_range = 1, .max_batch = SUBJECT_MAX_BATCH};
	Generator *generator = generator_new(layout, clock, &policy);
	gint64 now_tick = layout_tick_at(layout, clock_now_ms(clock));

	generator_publish(generator, lease_new(layout, 0, 0, now_tick, layout_max_tick(layout)));
	return generator;
}

Subject *subject_new(SubjectKind kind)
{
	Subject *self = g_new0(Subject, 1);

	self->kind = kind;
	system_clock_init(&self->clock);
	if (kind == SUBJECT_GENERATOR)
		self->generator = new_generator(&self->clock.clock, &milliseconds);
	else if (kind == SUBJECT_SECONDS)
		self->generator = new_generator(&self->clock.clock, &seconds);
	original_init(&self->original, kind == SUBJECT_ORIGINAL_12BIT ? 12 : 22);
	uuid_generator_init(&self->ulid_generator, &self->clock.clock);
	return self;
}

void subject_free(Subject *self)
{
	if (self == NULL)
		return;
	generator_free(self->generator);
	original_clear(&self->original);
	uuid_generator_clear(&self->ulid_generator);
	g_free(self);
}

static void refused(const char *what)
{
	fprintf(stderr, "bench-generator: %s\n", what);
	exit(1);
}

/* Spins at the layout's limit, like the original. */
static G_GNUC_NO_INLINE void draw_again(Generator *generator, guint batch, IdRun *out_run)
{
	DrawRefusal refusal;
	DrawStatus status;

	do
		status = generator_draw(generator, batch, out_run, &refusal);
	while (status == DRAW_WAIT);
	if (status != DRAW_OK)
		refused("the generator refused a draw: did the clock step back?");
}

static inline guint64 draw(Generator *generator, guint batch, guint64 n_ids, gint64 *out_ids)
{
	guint64 sum = 0;
	DrawRefusal refusal;
	IdRun run;

	for (guint64 drawn = 0; drawn < n_ids; drawn += batch) {
		if (G_UNLIKELY(generator_draw(generator, batch, &run, &refusal) != DRAW_OK))
			draw_again(generator, batch, &run);
		for (guint i = 0; i < run.count; i++) {
			gint64 id = id_run_get(&run, i);

			sum += (guint64)id;
			if (out_ids != NULL)
				out_ids[drawn + i] = id;
		}
	}
	return sum;
}

static inline guint64 ask_original(Original *original, guint64 n_ids, gint64 *out_ids)
{
	guint64 sum = 0;

	for (guint64 i = 0; i < n_ids; i++) {
		gint64 id = original_next_id(original);

		if (G_UNLIKELY(id < 0))
			refused("the clock stepped back");
		sum += (guint64)id;
		if (out_ids != NULL)
			out_ids[i] = id;
	}
	return sum;
}

static inline guint64 read_clock(const Clock *clock, guint64 n_readings, gint64 *out_readings)
{
	guint64 sum = 0;

	for (guint64 i = 0; i < n_readings; i++) {
		gint64 now_ns = clock_now_ns(clock);

		sum += (guint64)now_ns;
		if (out_readings != NULL)
			out_readings[i] = now_ns;
	}
	return sum;
}

static inline void draw_ulids(Subject *self, gboolean monotonic, guint batch, Ulid *out_ulids)
{
	gboolean drawn =
		monotonic ? ulid_generator_draw(&self->ulid_generator, batch, out_ulids, NULL)
			  : ulid_draw(clock_now_ms(&self->clock.clock), batch, out_ulids, NULL);

	if (G_UNLIKELY(!drawn))
		refused("there is no ULID of this time");
}

static inline guint64 make_bytes(Ulid ulid, gint64 *out_id)
{
	guint8 bytes[UUID_BYTES];

	uuid_to_bytes(ulid, bytes);
	if (out_id != NULL)
		*out_id = (gint64)uuid_from_bytes(bytes).low;
	return bytes[UUID_BYTES - 1];
}

static inline guint64 make_text(Ulid ulid, gint64 *out_id)
{
	char text[ULID_TEXT_SIZE];

	ulid_to_text(ulid, text);
	if (out_id != NULL) {
		if (!ulid_parse(text, &ulid, NULL))
			refused("the text of a ULID does not parse");
		*out_id = (gint64)ulid.low;
	}
	return (guchar)text[ULID_TEXT_SIZE - 2];
}

static inline guint64 make_ulids(Subject *self, gboolean monotonic, gboolean text, guint batch,
				 guint64 n_ids, gint64 *out_ids)
{
	Ulid ulids[SUBJECT_MAX_BATCH];
	guint64 sum = 0;

	for (guint64 drawn = 0; drawn < n_ids; drawn += batch) {
		draw_ulids(self, monotonic, batch, ulids);
		for (guint i = 0; i < batch; i++) {
			gint64 *out_id = out_ids != NULL ? &out_ids[drawn + i] : NULL;

			sum += text ? make_text(ulids[i], out_id) : make_bytes(ulids[i], out_id);
		}
	}
	return sum;
}

static inline guint64 take(Subject *self, guint batch, guint64 n_ids, gint64 *out_ids)
{
	switch (self->kind) {
	case SUBJECT_CLOCK:
		return read_clock(&self->clock.clock, n_ids, out_ids);
	case SUBJECT_GENERATOR:
	case SUBJECT_SECONDS:
		return draw(self->generator, batch, n_ids, out_ids);
	case SUBJECT_ORIGINAL:
	case SUBJECT_ORIGINAL_12BIT:
		return ask_original(&self->original, n_ids, out_ids);
	case SUBJECT_ULID:
		return make_ulids(self, FALSE, FALSE, batch, n_ids, out_ids);
	case SUBJECT_ULID_TEXT:
		return make_ulids(self, FALSE, TRUE, batch, n_ids, out_ids);
	case SUBJECT_ULID_MONOTONIC:
		return make_ulids(self, TRUE, FALSE, batch, n_ids, out_ids);
	case SUBJECT_ULID_MONOTONIC_TEXT:
		return make_ulids(self, TRUE, TRUE, batch, n_ids, out_ids);
	}
	g_assert_not_reached();
}

guint64 subject_sum(Subject *self, guint batch, guint64 n_ids)
{
	return take(self, batch, n_ids, NULL);
}

void subject_collect(Subject *self, guint batch, guint64 n_ids, gint64 *out_ids)
{
	take(self, batch, n_ids, out_ids);
}

gboolean subject_increases(SubjectKind kind)
{
	return kind != SUBJECT_CLOCK && kind < SUBJECT_ULID;
}
