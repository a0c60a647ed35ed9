/* SPDX-License-Identifier: Apache-2.0 */
#include "core/uuid7.h"

#include <sys/wait.h>
#include <unistd.h>

#include "core/layout.h"
#include "core/random.h"

#include "tests/unit/core/scripted-clock.h"
#include "tests/unit/core/vectors.h"
#include "tests/unit/unit-test.h"

#define T0_MS       G_GINT64_CONSTANT(1700000000000)
#define MAX_COUNTER ((G_GUINT64_CONSTANT(1) << UUID7_COUNTER_BITS) - 1)
#define N_RANDOM    100000

static Uuid parse(const char *text)
{
	g_autoptr(GError) error = NULL;
	Uuid uuid = {0};

	g_assert_true(uuid_parse(text, &uuid, &error));
	g_assert_no_error(error);
	return uuid;
}

static guint version_of(Uuid uuid)
{
	return (guint)(uuid.high >> 12) & 15;
}

static guint variant_of(Uuid uuid)
{
	return (guint)(uuid.low >> 62);
}

static void assert_converts(Uuid uuid, gint64 id)
{
	g_autoptr(GError) error = NULL;
	gint64 converted = -1;

	g_assert_true(uuid7_to_id(uuid, &converted, &error));
	g_assert_no_error(error);
	g_assert_cmpint(converted, ==, id);
}

static void assert_refused(Uuid uuid, UuidError code)
{
	g_autoptr(GError) error = NULL;
	gint64 id = -7;

	g_assert_false(uuid7_to_id(uuid, &id, &error));
	g_assert_error(error, UUID_ERROR, (gint)code);
	g_assert_cmpint(id, ==, -7);
}

TEST("/uuid7/vectors", test_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("uuid7.json");
	JsonObject *vector = json_node_get_object(root);
	JsonObject *reserved = json_object_get_object_member(vector, "reserved");
	Uuid uuid = parse(json_object_get_string_member(vector, "uuid"));
	gint64 id = g_ascii_strtoll(json_object_get_string_member(reserved, "id"), NULL, 10);
	Uuid made = uuid7_from_id(id, 0);
	char text[UUID_TEXT_SIZE];

	g_assert_cmpint(uuid7_time_ms(uuid), ==, json_object_get_int_member(vector, "unix_ts_ms"));
	g_assert_cmpint(version_of(uuid), ==, json_object_get_int_member(vector, "version"));
	g_assert_cmpint(variant_of(uuid), ==, json_object_get_int_member(vector, "variant"));

	uuid_to_text(made, text);
	g_assert_cmpstr(text, ==,
			json_object_get_string_member(reserved, "uuid_with_52_random_bits_zero"));
	g_assert_cmpint(uuid7_time_ms(made), ==,
			json_object_get_int_member(reserved, "unix_ts_ms"));
	g_assert_cmpint(id & 0x3fffff, ==, json_object_get_int_member(reserved, "low_22_bits"));
	g_assert_cmpint(made.high & 0xfff, ==, json_object_get_int_member(reserved, "rand_a"));
	g_assert_cmpint(made.low >> 52 & 0x3ff, ==,
			json_object_get_int_member(reserved, "rand_b_top_10"));
	assert_converts(parse(text), id);
}

/* Of a kind that meets the edges often: @random's top bits say how many of the rest are used. */
static gint64 random_id(void)
{
	guint64 random = random_u64();

	return (gint64)(random_u64() >> (1 + random % 63) ^ (random >> 63 ? G_MAXINT64 : 0));
}

/* Each ID comes back, of any random bits, and UUIDs sort as their IDs do. */
TEST("/uuid7/reserved", test_reserved)
{
	static const gint64 edges[] = {0,        1,     0x3ff,          0x400,     0x3fffff,
				       0x400000, T0_MS, G_MAXINT64 - 1, G_MAXINT64};
	gint64 last_id = 0;
	Uuid last_uuid = uuid7_from_id(0, 0);

	for (gsize i = 0; i < G_N_ELEMENTS(edges) + N_RANDOM; i++) {
		gint64 id = i < G_N_ELEMENTS(edges) ? edges[i] : random_id();
		guint64 random = random_u64();
		Uuid uuid = uuid7_from_id(id, random);

		g_assert_cmpuint(version_of(uuid), ==, 7);
		g_assert_cmpuint(variant_of(uuid), ==, 2);
		g_assert_cmpint(uuid7_time_ms(uuid), ==,
				layout_decode(&LAYOUT_TWITTER, id).time_ms);
		g_assert_cmphex(uuid.low << 12, ==, random << 12);
		assert_converts(uuid, id);
		if (id != last_id)
			g_assert_cmpint(uuid_compare(uuid, last_uuid), ==, id > last_id ? 1 : -1);
		last_id = id;
		last_uuid = uuid;
	}
}

/* IDs next to each other, whatever their random bits: the largest and the smallest. */
TEST("/uuid7/order", test_order)
{
	for (guint i = 0; i < N_RANDOM; i++) {
		gint64 id = random_id() >> 1;

		g_assert_cmpint(
			uuid_compare(uuid7_from_id(id, G_MAXUINT64), uuid7_from_id(id + 1, 0)), <,
			0);
	}
}

TEST("/uuid7/refused", test_refused)
{
	const Uuid good = uuid7_from_id(G_GINT64_CONSTANT(1724551110456385539), G_MAXUINT64);
	const gint64 first_ms = LAYOUT_TWITTER.epoch_ms;
	const gint64 last_ms = first_ms + layout_max_tick(&LAYOUT_TWITTER);
	const struct {
		gint64 time_ms;
		gboolean valid;
	} times[] = {
		{0, FALSE},      {first_ms - 1, FALSE}, {first_ms, TRUE},
		{last_ms, TRUE}, {last_ms + 1, FALSE},  {(G_GINT64_CONSTANT(1) << 48) - 1, FALSE},
	};

	for (guint64 version = 0; version < 16; version++) {
		Uuid uuid = {(good.high & ~G_GUINT64_CONSTANT(0xf000)) | version << 12, good.low};

		if (version != 7)
			assert_refused(uuid, UUID_ERROR_INVALID);
	}
	for (guint64 variant = 0; variant < 4; variant++) {
		Uuid uuid = {good.high, (good.low & G_MAXUINT64 >> 2) | variant << 62};

		if (variant != 2)
			assert_refused(uuid, UUID_ERROR_INVALID);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(times); i++) {
		Uuid uuid = {(guint64)times[i].time_ms << 16 | (good.high & 0xffff), good.low};

		if (times[i].valid)
			assert_converts(uuid, (times[i].time_ms - first_ms) << 22 | 139267);
		else
			assert_refused(uuid, UUID_ERROR_OUT_OF_RANGE);
	}
}

typedef struct {
	ScriptedClock clock;
	Uuid7Generator generator;
} Source;

static void source_init(Source *self, gint64 now_ms)
{
	scripted_clock_init(&self->clock, now_ms);
	uuid7_generator_init(&self->generator, &self->clock.clock);
}

static void source_clear(Source *self)
{
	uuid7_generator_clear(&self->generator);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Source, source_clear)

static Uuid source_draw(Source *self)
{
	g_autoptr(GError) error = NULL;
	Uuid uuid;

	g_assert_true(uuid7_generator_draw(&self->generator, 1, &uuid, &error));
	g_assert_no_error(error);
	g_assert_cmpuint(version_of(uuid), ==, 7);
	g_assert_cmpuint(variant_of(uuid), ==, 2);
	return uuid;
}

static guint64 counter_of(Uuid uuid)
{
	return (uuid.high & 0xfff) << 30 | (uuid.low >> 32 & 0x3fffffff);
}

TEST("/uuid7/counter", test_counter)
{
	static const struct {
		gint64 clock_ms; /* after T0 */
		gint64 time_ms;  /* the draw's, after T0 */
		gboolean goes_on;
	} steps[] = {
		{0, 0, FALSE}, {0, 0, TRUE},      {0, 0, TRUE}, {1, 1, FALSE},
		{0, 1, TRUE},  {-T0_MS, 1, TRUE}, {1, 1, TRUE}, {2, 2, FALSE},
	};
	g_auto(Source) source;
	Uuid last = {0};

	source_init(&source, T0_MS);
	for (gsize i = 0; i < G_N_ELEMENTS(steps); i++) {
		scripted_clock_set_ms(&source.clock, T0_MS + steps[i].clock_ms);

		Uuid uuid = source_draw(&source);

		g_assert_cmpint(uuid7_time_ms(uuid), ==, T0_MS + steps[i].time_ms);
		g_assert_cmpint(uuid_compare(uuid, last), >, 0);
		g_assert_cmpint(counter_of(uuid) == counter_of(last) + 1, ==, steps[i].goes_on);
		last = uuid;
	}
}

/* What is random is: the bits that follow the counter in each, the counter's start but for its
 * highest bit in each millisecond. */
TEST("/uuid7/random-bits", test_random_bits)
{
	g_auto(Source) source;
	guint64 seen_counter = 0;
	guint64 seen_random = 0;
	Uuid first;

	source_init(&source, T0_MS);
	first = source_draw(&source);
	for (gint64 i = 1; i < 1000; i++) {
		Uuid uuid = source_draw(&source);

		seen_random |= uuid.low ^ first.low;
		scripted_clock_set_ms(&source.clock, T0_MS + i);
		uuid = source_draw(&source);
		g_assert_cmphex(counter_of(uuid), <=, MAX_COUNTER >> 1);
		seen_counter |= counter_of(uuid) ^ counter_of(first);
	}
	g_assert_cmphex(seen_random & G_MAXUINT32, ==, G_MAXUINT32);
	g_assert_cmphex(seen_counter, ==, MAX_COUNTER >> 1);
}

/* As many as there is room for; those after them are of the next millisecond, ahead of the clock.
 */
TEST("/uuid7/overflow", test_overflow)
{
	g_auto(Source) source;
	g_autoptr(GError) error = NULL;
	Uuid uuids[3];

	source_init(&source, T0_MS);
	source_draw(&source);
	source.generator.last_counter = MAX_COUNTER - 3;
	g_assert_true(uuid7_generator_draw(&source.generator, 3, uuids, &error));
	for (guint64 i = 0; i < G_N_ELEMENTS(uuids); i++) {
		g_assert_cmpint(uuid7_time_ms(uuids[i]), ==, T0_MS);
		g_assert_cmphex(counter_of(uuids[i]), ==, MAX_COUNTER - 2 + i);
	}

	Uuid ahead = source_draw(&source);

	g_assert_cmpint(uuid7_time_ms(ahead), ==, T0_MS + 1);
	g_assert_cmphex(counter_of(ahead), <=, MAX_COUNTER >> 1);
	/* a batch is not torn */
	source.generator.last_counter = MAX_COUNTER - 2;
	g_assert_true(uuid7_generator_draw(&source.generator, 3, uuids, &error));
	for (guint64 i = 0; i < G_N_ELEMENTS(uuids); i++) {
		g_assert_cmpint(uuid7_time_ms(uuids[i]), ==, T0_MS + 2);
		g_assert_cmphex(counter_of(uuids[i]), ==, counter_of(uuids[0]) + i);
	}
	/* the clock catches up */
	scripted_clock_set_ms(&source.clock, T0_MS + 3);
	g_assert_cmpint(uuid7_time_ms(source_draw(&source)), ==, T0_MS + 3);
}

TEST("/uuid7/clock-before-1970", test_clock_before_1970)
{
	g_auto(Source) source;
	g_autoptr(GError) error = NULL;
	Uuid uuid = {1, 2};

	source_init(&source, -1);
	g_assert_false(uuid7_generator_draw(&source.generator, 1, &uuid, &error));
	g_assert_error(error, UUID_ERROR, UUID_ERROR_OUT_OF_RANGE);
	g_assert_cmpint(uuid_compare(uuid, (Uuid){1, 2}), ==, 0);
	g_assert_cmpint(source.generator.last_ms, ==, -1);
}

/* The child has the parent's generator, and must not go on from the same place. */
TEST("/uuid7/fork", test_fork)
{
	g_auto(Source) source;
	Uuid last;

	source_init(&source, T0_MS);
	last = source_draw(&source);

	pid_t pid = fork();

	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		Uuid first = source_draw(&source);
		Uuid second = source_draw(&source);

		_exit(uuid7_time_ms(first) == T0_MS + 1 &&
				      counter_of(first) != counter_of(last) + 1 &&
				      counter_of(second) == counter_of(first) + 1
			      ? 0
			      : 1);
	}

	int status;

	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	g_assert_cmphex(counter_of(source_draw(&source)), ==, counter_of(last) + 1);
}
