/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/simulation/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_US     1000
#define NS_PER_MS     1000000
#define NS_PER_SECOND G_GINT64_CONSTANT(1000000000)

#define N_NOTES    20000
#define N_SHOWN    120 /* notes printed after a failure */
#define NOTE_BYTES 200

typedef struct {
	gint64 at_us;
	guint64 order;
	WorldCall call;
	gpointer data;
	guint64 tag;
} Event;

typedef struct {
	gint64 at_us;
	const WorldMachine *machine;
	char text[NOTE_BYTES];
} Note;

static struct {
	guint64 seed;
	gboolean trace;
	gint64 now_us;
	guint64 chance;
	guint64 n_events;
	guint64 order;
	GArray *heap; /* (element-type Event): the next event first */
	WorldMachine *machine;
	WorldLogged logged;
	WorldCheckpointHook stepped;
	Note *notes;
	guint64 n_notes;
} world;

/* Chance: SplitMix64 (Steele, Lea, Flood 2014), which gives the same numbers on every platform. */
static guint64 next_number(void)
{
	guint64 z = world.chance += G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * G_GUINT64_CONSTANT(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * G_GUINT64_CONSTANT(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static gdouble next_fraction(void)
{
	return (gdouble)(next_number() >> 11) / (gdouble)(G_GUINT64_CONSTANT(1) << 53);
}

gboolean world_odds(gdouble probability)
{
	return next_fraction() < probability;
}

gint64 world_between(gint64 least, gint64 most)
{
	g_assert_cmpint(least, <=, most);
	return least + (gint64)(next_number() % ((guint64)(most - least) + 1));
}

gint64 world_scaled(gint64 least, gint64 most)
{
	gint64 upper = least;

	g_assert_cmpint(least, >=, 1);
	for (gint64 steps = 0, n = 1; n < most / least; n *= 4)
		if (world_between(0, ++steps) > 0)
			upper = MIN(upper * 4, most);
	return world_between(least, MAX(upper, least));
}

/* The world */

void world_init(guint64 seed, gboolean trace)
{
	memset(&world, 0, sizeof(world));
	world.seed = world.chance = seed;
	world.trace = trace;
	world.now_us = WORLD_BEGIN_US;
	world.heap = g_array_new(FALSE, FALSE, sizeof(Event));
	world.notes = g_new(Note, N_NOTES);
	g_random_set_seed((guint32)next_number());
}

void world_clear(void)
{
	g_clear_pointer(&world.heap, g_array_unref);
	g_clear_pointer(&world.notes, g_free);
}

guint64 world_seed(void)
{
	return world.seed;
}

gint64 world_now_us(void)
{
	return world.now_us;
}

gint64 world_true_ms(void)
{
	return WORLD_EPOCH_MS + world.now_us / G_TIME_SPAN_MILLISECOND;
}

void world_spend_us(gint64 us)
{
	world.now_us += us;
}

/* Events: a binary heap */

static Event *event_at(guint place)
{
	return &g_array_index(world.heap, Event, place);
}

static gboolean comes_before(const Event *a, const Event *b)
{
	return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

static void swap_events(guint a, guint b)
{
	Event kept = *event_at(a);

	*event_at(a) = *event_at(b);
	*event_at(b) = kept;
}

void world_at(gint64 at_us, WorldCall call, gpointer data, guint64 tag)
{
	const Event event = {MAX(at_us, world.now_us), world.order++, call, data, tag};
	guint place = world.heap->len;

	g_array_append_val(world.heap, event);
	for (; place > 0 && comes_before(event_at(place), event_at((place - 1) / 2));
	     place = (place - 1) / 2)
		swap_events(place, (place - 1) / 2);
}

void world_after(gint64 delay_us, WorldCall call, gpointer data, guint64 tag)
{
	world_at(world.now_us + delay_us, call, data, tag);
}

static void remove_first_event(void)
{
	guint length = world.heap->len - 1, place = 0, least = 0;

	*event_at(0) = *event_at(length);
	g_array_set_size(world.heap, length);
	do {
		place = least;
		for (guint child = 2 * place + 1; child <= 2 * place + 2 && child < length; child++)
			if (comes_before(event_at(child), event_at(least)))
				least = child;
		if (least != place)
			swap_events(place, least);
	} while (least != place);
}

gboolean world_run_next(gint64 until_us)
{
	Event next;

	if (world.heap->len == 0 || event_at(0)->at_us > until_us)
		return FALSE;
	next = *event_at(0);
	remove_first_event();
	world.now_us = MAX(world.now_us, next.at_us);
	world.n_events++;
	next.call(next.data, next.tag);
	return TRUE;
}

void world_run_until(gint64 until_us)
{
	while (world_run_next(until_us))
		;
	world.now_us = MAX(world.now_us, until_us);
}

void world_run_for(gint64 us)
{
	world_run_until(world.now_us + us);
}

guint64 world_n_events(void)
{
	return world.n_events;
}

/* Machines */

void world_enter(WorldMachine *machine)
{
	world.machine = machine;
}

WorldMachine *world_machine(void)
{
	return world.machine;
}

gint64 world_boottime_ns(const WorldMachine *machine)
{
	return (world.now_us + machine->uptime_us) * NS_PER_US;
}

gint64 world_monotonic_us(const WorldMachine *machine)
{
	return world.now_us + machine->uptime_us - machine->suspended_us;
}

gint64 world_wall_ns(const WorldMachine *machine)
{
	gint64 drifting_us = world.now_us - machine->drift_from_us;

	return WORLD_EPOCH_MS * NS_PER_MS + world.now_us * NS_PER_US + machine->wall_offset_ns +
	       drifting_us * machine->drift_ppm / 1000;
}

gint64 world_when_us(const WorldMachine *machine, gint64 monotonic_us)
{
	if (monotonic_us == G_MAXINT64)
		return WORLD_NEVER_US;
	return monotonic_us + machine->suspended_us - machine->uptime_us;
}

void world_set_checkpoint_hook(WorldCheckpointHook stepped)
{
	world.stepped = stepped;
}

void world_pass_checkpoint(WorldCheckpoint step)
{
	WorldMachine *machine = world.machine;

	if (world.stepped != NULL && machine != NULL)
		world.stepped(machine, step);
	world.machine = machine;
}

void world_set_drift(WorldMachine *machine, gint64 ppm)
{
	machine->wall_offset_ns +=
		(world.now_us - machine->drift_from_us) * machine->drift_ppm / 1000;
	machine->drift_from_us = world.now_us;
	machine->drift_ppm = ppm;
}

/* Replacements of system and GLib functions. Only the linker refers to them, so no header declares
 * them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

gint64 __wrap_g_get_monotonic_time(void)
{
	g_assert_nonnull(world.machine);
	world_pass_checkpoint(WORLD_CHECKPOINT_CLOCK);
	return world_monotonic_us(world.machine);
}

gint64 __wrap_g_get_real_time(void)
{
	g_assert_nonnull(world.machine);
	return world_wall_ns(world.machine) / NS_PER_US;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *out_time)
{
	gint64 ns;

	g_assert_nonnull(world.machine);
	world_pass_checkpoint(WORLD_CHECKPOINT_CLOCK);
	if (id == CLOCK_REALTIME)
		ns = world_wall_ns(world.machine);
	else if (id == CLOCK_BOOTTIME)
		ns = world_boottime_ns(world.machine);
	else
		ns = world_monotonic_us(world.machine) * NS_PER_US;
	*out_time = (struct timespec){ns / NS_PER_SECOND, ns % NS_PER_SECOND};
	return 0;
}

int __wrap_getentropy(void *buffer, size_t length)
{
	guint8 *bytes = buffer;

	for (size_t i = 0; i < length; i++)
		bytes[i] = (guint8)next_number();
	return 0;
}

/* The log */

void world_set_logged(WorldLogged logged)
{
	world.logged = logged;
}

void __wrap_log_event_fields(LogEvent event, const LogField *fields)
{
	g_autoptr(GString) line = g_string_new(log_event_name(event));

	if (!log_shows(event))
		return;
	for (const LogField *field = fields; field->key != NULL; field++) {
		if (field->text != NULL)
			g_string_append_printf(line, " %s=\"%s\"", field->key, field->text);
		else
			g_string_append_printf(line, " %s=%" G_GINT64_FORMAT, field->key,
					       field->number);
	}
	world_note(world.machine, "%s", line->str);
	if (world.logged != NULL)
		world.logged(world.machine, event, line->str);
}

/* Notes */

static void print_note(FILE *file, const Note *note)
{
	fprintf(file, "%14.6f  %-12s %s\n", (gdouble)note->at_us / G_TIME_SPAN_SECOND,
		note->machine != NULL ? note->machine->name : "", note->text);
}

void world_note(const WorldMachine *machine, const char *format, ...)
{
	Note *note = &world.notes[world.n_notes++ % N_NOTES];
	va_list arguments;

	note->at_us = world.now_us;
	note->machine = machine;
	va_start(arguments, format);
	g_vsnprintf(note->text, sizeof(note->text), format, arguments);
	va_end(arguments);
	if (world.trace)
		print_note(stdout, note);
}

static guint64 first_note_shown(gboolean (*is_shown)(const Note *note))
{
	guint64 oldest = world.n_notes > N_NOTES ? world.n_notes - N_NOTES : 0;
	guint64 first = world.n_notes;

	for (guint n = 0; first > oldest && n < N_SHOWN; first--)
		n += is_shown(&world.notes[(first - 1) % N_NOTES]);
	return first;
}

static gboolean is_note_involved(const Note *note)
{
	return note->machine == NULL || note->machine->is_involved;
}

static gboolean is_any_note(const Note *note G_GNUC_UNUSED)
{
	return TRUE;
}

static gboolean has_involved_machine(void)
{
	for (guint64 i = 0; i < MIN(world.n_notes, N_NOTES); i++)
		if (world.notes[i].machine != NULL && world.notes[i].machine->is_involved)
			return TRUE;
	return FALSE;
}

/* @name: (nullable): of the machine that fails */
static void G_GNUC_NORETURN end_with_notes(const char *name, const char *what)
{
	gboolean (*is_shown)(const Note *note) =
		has_involved_machine() ? is_note_involved : is_any_note;

	fflush(stdout);
	for (guint64 i = first_note_shown(is_shown); i < world.n_notes; i++)
		if (is_shown(&world.notes[i % N_NOTES]))
			print_note(stderr, &world.notes[i % N_NOTES]);
	fprintf(stderr, "FAILED at %.6f s: %s%s%s\n", (gdouble)world.now_us / G_TIME_SPAN_SECOND,
		name != NULL ? name : "", name != NULL ? " " : "", what);
	exit(WORLD_FAILED);
}

void world_fail(const char *format, ...)
{
	g_autofree char *what = NULL;
	va_list arguments;

	va_start(arguments, format);
	what = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	end_with_notes(NULL, what);
}

void world_fail_machine(WorldMachine *machine, const char *format, ...)
{
	g_autofree char *what = NULL;
	va_list arguments;

	va_start(arguments, format);
	what = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	machine->is_involved = TRUE;
	end_with_notes(machine->name, what);
}
