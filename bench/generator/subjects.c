/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each subject has a loop of its own, so that what is measured is called directly. The loop is
 * written once and made twice, with and without room for the IDs.
 */
#include "bench/generator/subjects.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/generator/original.h"
#include "core/generator.h"

#define EPOCH_MS G_GINT64_CONSTANT(1288834974657)

/* So many IDs a tick that the layout is no wall, or nearly so: two threads with batches of 1,000
 * can reach the 4,194 million a second of the first. */
static const Layout milliseconds = {.epoch_ms = EPOCH_MS,
				    .tick_ms = 1,
				    .time_bits = 41,
				    .datacenter_bits = 0,
				    .worker_bits = 0,
				    .sequence_bits = 22};
static const Layout seconds = {.epoch_ms = EPOCH_MS,
			       .tick_ms = 1000,
			       .time_bits = 32,
			       .datacenter_bits = 0,
			       .worker_bits = 0,
			       .sequence_bits = 31};

struct _Subject {
	SubjectKind kind;
	SystemClock clock;
	Generator *generator;
	Original original;
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
	return self;
}

void subject_free(Subject *self)
{
	if (self == NULL)
		return;
	generator_free(self->generator);
	original_clear(&self->original);
	g_free(self);
}

static void refused(const char *what)
{
	fprintf(stderr, "bench-generator: %s\n", what);
	exit(1);
}

/* Spins at the wall of the layout, as the original does. */
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

static inline guint64 take(Subject *self, guint batch, guint64 n_ids, gint64 *out_ids)
{
	if (self->kind == SUBJECT_CLOCK)
		return read_clock(&self->clock.clock, n_ids, out_ids);
	if (self->generator != NULL)
		return draw(self->generator, batch, n_ids, out_ids);
	return ask_original(&self->original, n_ids, out_ids);
}

guint64 subject_sum(Subject *self, guint batch, guint64 n_ids)
{
	return take(self, batch, n_ids, NULL);
}

void subject_collect(Subject *self, guint batch, guint64 n_ids, gint64 *out_ids)
{
	take(self, batch, n_ids, out_ids);
}
