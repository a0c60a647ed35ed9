/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ulid.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/core/scripted-clock.h"
#include "tests/unit/core/vectors.h"
#include "tests/unit/unit-test.h"

#define T0_MS  G_GINT64_CONSTANT(1700000000000)
#define LENGTH (ULID_TEXT_SIZE - 1)

static void assert_equal(Ulid a, Ulid b)
{
	g_assert_cmphex(a.high, ==, b.high);
	g_assert_cmphex(a.low, ==, b.low);
}

static Ulid parse(const char *text)
{
	g_autoptr(GError) error = NULL;
	Ulid ulid = {0};

	g_assert_true(ulid_parse(text, &ulid, &error));
	g_assert_no_error(error);
	return ulid;
}

static void assert_refused(const char *text)
{
	const Ulid untouched = {1, 2};
	g_autoptr(GError) error = NULL;
	Ulid ulid = untouched;

	g_assert_false(ulid_parse(text, &ulid, &error));
	g_assert_error(error, ULID_ERROR, ULID_ERROR_INVALID);
	assert_equal(ulid, untouched);
}

typedef struct {
	ScriptedClock clock;
	UlidGenerator generator;
} Source;

static void source_init(Source *self, gint64 now_ms)
{
	scripted_clock_init(&self->clock, now_ms);
	ulid_generator_init(&self->generator, &self->clock.clock);
}

static void source_clear(Source *self)
{
	ulid_generator_clear(&self->generator);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Source, source_clear)

/* As if @last had been drawn. */
static void source_set_last(Source *self, Ulid last)
{
	self->generator.last_ms = ulid_time_ms(last);
	self->generator.last = last;
}

static Ulid source_draw(Source *self)
{
	g_autoptr(GError) error = NULL;
	Ulid ulid;

	g_assert_true(ulid_generator_draw(&self->generator, 1, &ulid, &error));
	g_assert_no_error(error);
	return ulid;
}

/* A draw that has to be refused, and to change nothing. */
static void source_refuses(Source *self, gsize count, UlidError code)
{
	const Ulid untouched = {1, 2};
	const UlidGenerator before = self->generator;
	g_autoptr(GError) error = NULL;
	Ulid ulids[4] = {untouched, untouched, untouched, untouched};

	g_assert_false(ulid_generator_draw(&self->generator, count, ulids, &error));
	g_assert_error(error, ULID_ERROR, (gint)code);
	for (gsize i = 0; i < G_N_ELEMENTS(ulids); i++)
		assert_equal(ulids[i], untouched);
	g_assert_cmpint(self->generator.last_ms, ==, before.last_ms);
	assert_equal(self->generator.last, before.last);
	g_assert_cmpuint(self->generator.fork_generation, ==, before.fork_generation);
}

static void test_vectors_decode(JsonArray *vectors)
{
	for (guint i = 0; i < json_array_get_length(vectors); i++) {
		JsonObject *vector = json_array_get_object_element(vectors, i);
		const char *text = json_object_get_string_member(vector, "ulid");
		g_autoptr(GError) error = NULL;
		Ulid ulid = parse(text);
		char shown[ULID_TEXT_SIZE];
		char uuid[UUID_TEXT_SIZE];
		Uuid from_uuid;

		g_assert_cmpint(ulid_time_ms(ulid), ==,
				json_object_get_int_member(vector, "timestamp_ms"));
		ulid_to_text(ulid, shown);
		g_assert_cmpstr(shown, ==, text);
		uuid_to_text(ulid, uuid);
		g_assert_cmpstr(uuid, ==, json_object_get_string_member(vector, "uuid"));
		g_assert_true(uuid_parse(uuid, &from_uuid, &error));
		assert_equal(from_uuid, ulid);
	}
}

static void test_vectors_encode(JsonArray *vectors)
{
	for (guint i = 0; i < json_array_get_length(vectors); i++) {
		JsonObject *vector = json_array_get_object_element(vectors, i);
		gint64 time_ms = json_object_get_int_member(vector, "timestamp_ms");
		g_autofree char *hex =
			g_strdup_printf("%012" G_GINT64_MODIFIER "x%s", (guint64)time_ms,
					json_object_get_string_member(vector, "randomness_hex"));
		guint8 bytes[UUID_BYTES];
		char text[ULID_TEXT_SIZE];

		for (guint j = 0; j < UUID_BYTES; j++)
			bytes[j] = (guint8)(g_ascii_xdigit_value(hex[2 * j]) << 4 |
					    g_ascii_xdigit_value(hex[2 * j + 1]));
		ulid_to_text(uuid_from_bytes(bytes), text);
		g_assert_cmpstr(text, ==, json_object_get_string_member(vector, "ulid"));
	}
}

static void test_vectors_monotonic(JsonArray *vectors)
{
	for (guint i = 0; i < json_array_get_length(vectors); i++) {
		JsonObject *vector = json_array_get_object_element(vectors, i);
		Ulid previous = parse(json_object_get_string_member(vector, "previous"));
		g_auto(Source) source;

		source_init(&source, ulid_time_ms(previous));
		source_draw(&source); /* for the fork generation */
		source_set_last(&source, previous);
		if (json_object_get_null_member(vector, "same_millisecond_next"))
			source_refuses(&source, 1, ULID_ERROR_OVERFLOW);
		else
			assert_equal(source_draw(&source),
				     parse(json_object_get_string_member(vector,
									 "same_millisecond_next")));
	}
}

TEST("/ulid/vectors", test_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("ulid.json");
	JsonObject *vectors = json_node_get_object(root);
	JsonArray *accept = json_object_get_array_member(vectors, "accept");
	JsonArray *reject = json_object_get_array_member(vectors, "reject");
	Ulid max = parse(json_object_get_string_member(vectors, "max"));

	g_assert_cmpint(ULID_MAX_TIME_MS, ==,
			json_object_get_int_member(vectors, "max_timestamp_ms"));
	assert_equal(max, (Ulid){G_MAXUINT64, G_MAXUINT64});
	test_vectors_decode(json_object_get_array_member(vectors, "decode"));
	test_vectors_encode(json_object_get_array_member(vectors, "encode_time"));
	test_vectors_monotonic(json_object_get_array_member(vectors, "monotonic"));
	for (guint i = 0; i < json_array_get_length(accept); i++) {
		const char *text = json_array_get_string_element(accept, i);
		g_autofree char *upper = g_ascii_strup(text, -1);
		char shown[ULID_TEXT_SIZE];

		ulid_to_text(parse(text), shown);
		g_assert_cmpstr(shown, ==, upper);
	}
	for (guint i = 0; i < json_array_get_length(reject); i++)
		assert_refused(json_array_get_string_element(reject, i));
}

/* Every byte at every place: the digits are 0-9, A-Z and a-z, but for I, L, O and U. */
TEST("/ulid/digits", test_digits)
{
	for (guint place = 0; place < LENGTH; place++) {
		for (guint byte = 1; byte < 256; byte++) {
			char text[] = "01ARYZ6S41TSV4RRFFQ69G5FAV";
			gboolean valid = g_ascii_isalnum((char)byte) &&
					 strchr("ILOUilou", (int)byte) == NULL &&
					 (place > 0 || byte <= '7');
			char shown[ULID_TEXT_SIZE];

			text[place] = (char)byte;
			if (!valid) {
				assert_refused(text);
				continue;
			}
			ulid_to_text(parse(text), shown);
			text[place] = g_ascii_toupper(text[place]);
			g_assert_cmpstr(shown, ==, text);
		}
	}
}

/* Every bit comes through, and texts sort as the ULIDs do. */
TEST("/ulid/bits", test_bits)
{
	char last_text[ULID_TEXT_SIZE] = "";

	for (guint bit = 0; bit < 128; bit++) {
		Ulid ulid = {bit < 64 ? 0 : G_GUINT64_CONSTANT(1) << (bit - 64),
			     bit < 64 ? G_GUINT64_CONSTANT(1) << bit : 0};
		char text[ULID_TEXT_SIZE];

		ulid_to_text(ulid, text);
		assert_equal(parse(text), ulid);
		g_assert_cmpstr(text, >, last_text);
		strcpy(last_text, text);
	}
}

TEST("/ulid/draw", test_draw)
{
	static const gint64 times_ms[] = {0, T0_MS, ULID_MAX_TIME_MS};

	for (gsize i = 0; i < G_N_ELEMENTS(times_ms); i++) {
		Ulid ulids[1000];
		guint64 seen_high = 0;
		guint64 seen_low = 0;
		g_autoptr(GError) error = NULL;

		g_assert_true(ulid_draw(times_ms[i], G_N_ELEMENTS(ulids), ulids, &error));
		for (gsize j = 0; j < G_N_ELEMENTS(ulids); j++) {
			g_assert_cmpint(ulid_time_ms(ulids[j]), ==, times_ms[i]);
			seen_high |= ulids[j].high ^ ulids[0].high;
			seen_low |= ulids[j].low ^ ulids[0].low;
		}
		/* each of the 80 bits differs somewhere */
		g_assert_cmphex(seen_high, ==, 0xffff);
		g_assert_cmphex(seen_low, ==, G_MAXUINT64);
	}
}

TEST("/ulid/time-outside", test_time_outside)
{
	static const gint64 times_ms[] = {-1, ULID_MAX_TIME_MS + 1, G_MININT64, G_MAXINT64};

	for (gsize i = 0; i < G_N_ELEMENTS(times_ms); i++) {
		g_autoptr(GError) error = NULL;
		Ulid ulid = {1, 2};

		g_assert_false(ulid_draw(times_ms[i], 1, &ulid, &error));
		g_assert_error(error, ULID_ERROR, ULID_ERROR_OUT_OF_RANGE);
		assert_equal(ulid, (Ulid){1, 2});
	}
}

TEST("/ulid/clock-before-1970", test_clock_before_1970)
{
	g_auto(Source) source;

	source_init(&source, -1);
	source_refuses(&source, 1, ULID_ERROR_OUT_OF_RANGE);
	scripted_clock_set_ms(&source.clock, T0_MS);
	source_draw(&source);
	scripted_clock_set_ms(&source.clock, -1);
	source_refuses(&source, 1, ULID_ERROR_OUT_OF_RANGE);
}

/* Plus 1 within a millisecond and while the clock is back, new bits in a later one. */
TEST("/ulid/clock", test_clock)
{
	static const struct {
		gint64 clock_ms; /* after T0 */
		gint64 time_ms;  /* the draw's, after T0 */
		gboolean goes_on;
	} steps[] = {
		{0, 0, FALSE},       {0, 0, TRUE},      {1, 1, FALSE},      {1, 1, TRUE},
		{0, 1, TRUE},        {-T0_MS, 1, TRUE}, {1, 1, TRUE},       {2, 2, FALSE},
		{1000, 1000, FALSE}, {3, 1000, TRUE},   {1000, 1000, TRUE}, {1001, 1001, FALSE},
	};
	g_auto(Source) source;
	Ulid last = {0};

	source_init(&source, T0_MS);
	for (gsize i = 0; i < G_N_ELEMENTS(steps); i++) {
		scripted_clock_set_ms(&source.clock, T0_MS + steps[i].clock_ms);

		Ulid ulid = source_draw(&source);

		g_assert_cmpint(ulid_time_ms(ulid), ==, T0_MS + steps[i].time_ms);
		g_assert_cmpint(uuid_compare(ulid, last), >, 0);
		/* by chance two are in a row once in 2^80 */
		g_assert_cmpint(ulid.low == last.low + 1, ==, steps[i].goes_on);
		last = ulid;
	}
}

/* At the Unix epoch, too, the first one is random. */
TEST("/ulid/first", test_first)
{
	g_auto(Source) source;
	Ulid ulid;

	source_init(&source, 0);
	ulid = source_draw(&source);
	g_assert_cmpint(ulid_time_ms(ulid), ==, 0);
	g_assert_cmphex(ulid.low, >, 1000);
}

TEST("/ulid/batch", test_batch)
{
	g_auto(Source) source;
	g_autoptr(GError) error = NULL;
	Ulid ulids[1000];
	Ulid last;

	source_init(&source, T0_MS);
	last = source_draw(&source);
	/* over the end of the low half */
	last.low = G_MAXUINT64 - 500;
	last.high &= ~G_GUINT64_CONSTANT(1);
	source_set_last(&source, last);
	g_assert_true(ulid_generator_draw(&source.generator, 1000, ulids, &error));
	for (gsize i = 0; i < G_N_ELEMENTS(ulids); i++) {
		g_assert_cmphex(ulids[i].low, ==, last.low + 1 + i);
		g_assert_cmphex(ulids[i].high, ==, last.high + (i >= 500));
	}
	assert_equal(source_draw(&source), (Ulid){last.high + 1, 500});
}

/* As many as there is room for, and not one more; the next millisecond has room. */
TEST("/ulid/overflow", test_overflow)
{
	g_auto(Source) source;
	g_autoptr(GError) error = NULL;
	Ulid ulids[3];
	Ulid last;

	source_init(&source, T0_MS);
	last = source_draw(&source);
	last.high |= 0xffff;
	last.low = G_MAXUINT64 - 3;
	source_set_last(&source, last);
	source_refuses(&source, 4, ULID_ERROR_OVERFLOW);
	g_assert_true(ulid_generator_draw(&source.generator, 3, ulids, &error));
	assert_equal(ulids[2], (Ulid){last.high, G_MAXUINT64});
	source_refuses(&source, 1, ULID_ERROR_OVERFLOW);
	scripted_clock_set_ms(&source.clock, 0);
	source_refuses(&source, 1, ULID_ERROR_OVERFLOW);
	scripted_clock_set_ms(&source.clock, T0_MS + 1);
	g_assert_cmpint(ulid_time_ms(source_draw(&source)), ==, T0_MS + 1);
	/* nothing is after the largest of all */
	source_set_last(&source, (Ulid){G_MAXUINT64, G_MAXUINT64});
	source_refuses(&source, 1, ULID_ERROR_OVERFLOW);
}

/* The child has the parent's generator, and must not go on from the same place. */
TEST("/ulid/fork", test_fork)
{
	g_auto(Source) source;
	Ulid last;

	source_init(&source, T0_MS);
	last = source_draw(&source);

	pid_t pid = fork();

	g_assert_cmpint(pid, >=, 0);
	if (pid == 0) {
		Ulid first = source_draw(&source);
		Ulid second = source_draw(&source);

		_exit(ulid_time_ms(first) == T0_MS + 1 && first.low != last.low + 1 &&
				      second.low == first.low + 1
			      ? 0
			      : 1);
	}

	int status;

	g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
	g_assert_cmpint(status, ==, 0);
	assert_equal(source_draw(&source),
		     (Ulid){last.high + (last.low == G_MAXUINT64), last.low + 1});
}
