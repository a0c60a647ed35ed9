/* SPDX-License-Identifier: Apache-2.0 */

/* UUIDs, ULIDs, and the generators of both. */
#include "core/uuid.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/layout.h"
#include "core/random.h"
#include "core/text.h"
#include "core/ulid.h"

#include "tests/unit/core/scaled.h"
#include "tests/unit/core/scripted-clock.h"
#include "tests/unit/core/vectors.h"
#include "tests/unit/unit-test.h"

#define T0_MS       G_GINT64_CONSTANT(1700000000000)
#define ULID_LENGTH (ULID_TEXT_SIZE - 1)
#define MAX_COUNTER ((G_GUINT64_CONSTANT(1) << UUID_COUNTER_BITS) - 1)
#define N_RANDOM    100000
#define N_THREADS   4
#define MAX_BATCH   20

static void assert_equal(Uuid a, Uuid b)
{
	g_assert_cmphex(a.high, ==, b.high);
	g_assert_cmphex(a.low, ==, b.low);
}

static const Uuid sample = {0x017f22e279b07cc3, 0x98c4dc0c0c07398f}; /* RFC 9562, A.6 */

/* Draws in a child of _Fork(), in which no handler of pthread_atfork() runs. */
static Uuid draw_in_child(void)
{
	Uuid uuid = {0};
	int fds[2], status;
	pid_t child;

	g_assert_cmpint(pipe(fds), ==, 0);
	child = _Fork();
	if (child == 0) {
		uuid = uuid_random();
		_exit(write(fds[1], &uuid, sizeof(uuid)) == sizeof(uuid) ? 0 : 1);
	}
	g_assert_cmpint(waitpid(child, &status, 0), ==, child);
	g_assert_cmpint(status, ==, 0);
	g_assert_cmpint(read(fds[0], &uuid, sizeof(uuid)), ==, sizeof(uuid));
	close(fds[0]);
	close(fds[1]);
	return uuid;
}

static int uuid_compare(Uuid a, Uuid b)
{
	if (a.high != b.high)
		return a.high < b.high ? -1 : 1;
	return (a.low > b.low) - (a.low < b.low);
}

TEST("/uuids/uuid-random", test_uuid_random)
{
	Uuid before = uuid_random();
	Uuid first = draw_in_child(), second = draw_in_child(), after = uuid_random();

	g_assert_cmpint(uuid_compare(first, second), !=, 0);
	g_assert_cmpint(uuid_compare(first, after), !=, 0);
	g_assert_cmpint(uuid_compare(before, after), !=, 0);
	g_assert_cmphex(first.high >> 12 & 15, ==, 4); /* RFC 9562, 5.4 */
	g_assert_cmphex(first.low >> 62, ==, 2);
}

TEST("/uuids/uuid-text", test_uuid_text)
{
	static const struct {
		Uuid uuid;
		const char *text;
	} cases[] = {
		{{0, 0}, "00000000-0000-0000-0000-000000000000"},
		{{0x0123456789abcdef, 0xfedcba9876543210}, "01234567-89ab-cdef-fedc-ba9876543210"},
		{{G_MAXUINT64, G_MAXUINT64}, "ffffffff-ffff-ffff-ffff-ffffffffffff"},
		{{0x017f22e279b07cc3, 0x98c4dc0c0c07398f}, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *upper = g_ascii_strup(cases[i].text, -1);
		const char *texts[] = {cases[i].text, upper};
		char text[UUID_TEXT_SIZE];

		uuid_to_text(cases[i].uuid, text);
		g_assert_cmpstr(text, ==, cases[i].text);
		for (gsize j = 0; j < G_N_ELEMENTS(texts); j++) {
			g_autoptr(GError) error = NULL;
			Uuid uuid;

			g_assert_true(uuid_parse(texts[j], &uuid, &error));
			g_assert_no_error(error);
			assert_equal(uuid, cases[i].uuid);
		}
	}
}

TEST("/uuids/uuid-refused", test_uuid_refused)
{
	static const char *const texts[] = {
		"",
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398",
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
		"017f22e279b07cc398c4dc0c0c07398f",
		"017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
		"017f22e2-79b0-7cc3-98c4-dc0c0c0739\xc3\xa4",
		"017f22e2079b0-7cc3-98c4-dc0c0c07398f",
		"017f22e2-79b007cc3-98c4-dc0c0c07398f",
		"017f22e2-79b0-7cc3098c4-dc0c0c07398f",
		"017f22e2-79b0-7cc3-98c40dc0c0c07398f",
		"-17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
		" 17f22e2-79b0-7cc3-98c4-dc0c0c07398f",
		"017f22e27-9b0-7cc3-98c4-dc0c0c07398f",
		"{17f22e2-79b0-7cc3-98c4-dc0c0c07398}",
		"{017f22e2-79b0-7cc3-98c4-dc0c0c07398f}",
		"urn:uuid:017f22e2-79b0-7cc3-98c4-dc0c0c07398f",
	};

	for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
		g_autoptr(GError) error = NULL;
		Uuid uuid = sample;

		g_assert_false(uuid_parse(texts[i], &uuid, &error));
		g_assert_error(error, ID_ERROR, ID_ERROR_INVALID);
		g_assert_true(g_str_is_ascii(error->message));
		assert_equal(uuid, sample);
	}
}

TEST("/uuids/uuid-bytes", test_uuid_bytes)
{
	static const guint8 expected[UUID_BYTES] = {0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0, 0x7c, 0xc3,
						    0x98, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f};
	guint8 bytes[UUID_BYTES];

	uuid_to_bytes(sample, bytes);
	g_assert_cmpmem(bytes, UUID_BYTES, expected, UUID_BYTES);
	assert_equal(uuid_from_bytes(bytes), sample);
}

static Ulid parse_ulid(const char *text)
{
	g_autoptr(GError) error = NULL;
	Ulid ulid = {0};

	g_assert_true(ulid_parse(text, &ulid, &error));
	g_assert_no_error(error);
	return ulid;
}

static void assert_ulid_refused(const char *text)
{
	const Ulid untouched = {1, 2};
	g_autoptr(GError) error = NULL;
	Ulid ulid = untouched;

	g_assert_false(ulid_parse(text, &ulid, &error));
	g_assert_error(error, ID_ERROR, ID_ERROR_INVALID);
	assert_equal(ulid, untouched);
}

static void check_ulids_decode(JsonArray *vectors)
{
	for (guint i = 0; i < json_array_get_length(vectors); i++) {
		JsonObject *vector = json_array_get_object_element(vectors, i);
		const char *text = json_object_get_string_member(vector, "ulid");
		g_autoptr(GError) error = NULL;
		Ulid ulid = parse_ulid(text);
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

static void check_ulids_encode(JsonArray *vectors)
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

TEST("/uuids/ulid-vectors", test_ulid_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("ulid.json");
	JsonObject *vectors = json_node_get_object(root);
	JsonArray *accept = json_object_get_array_member(vectors, "accept");
	JsonArray *reject = json_object_get_array_member(vectors, "reject");
	Ulid max = parse_ulid(json_object_get_string_member(vectors, "max"));

	g_assert_cmpint(ULID_MAX_TIME_MS, ==,
			json_object_get_int_member(vectors, "max_timestamp_ms"));
	assert_equal(max, (Ulid){G_MAXUINT64, G_MAXUINT64});
	check_ulids_decode(json_object_get_array_member(vectors, "decode"));
	check_ulids_encode(json_object_get_array_member(vectors, "encode_time"));
	for (guint i = 0; i < json_array_get_length(accept); i++) {
		const char *text = json_array_get_string_element(accept, i);
		g_autofree char *upper = g_ascii_strup(text, -1);
		char shown[ULID_TEXT_SIZE];

		ulid_to_text(parse_ulid(text), shown);
		g_assert_cmpstr(shown, ==, upper);
	}
	for (guint i = 0; i < json_array_get_length(reject); i++)
		assert_ulid_refused(json_array_get_string_element(reject, i));
}

/* Every byte is tried at every place. The digits are 0-9, A-Z and a-z without I, L, O and U. */
TEST("/uuids/ulid-digits", test_ulid_digits)
{
	for (guint place = 0; place < ULID_LENGTH; place++) {
		for (guint byte = 1; byte < 256; byte++) {
			char text[] = "01ARYZ6S41TSV4RRFFQ69G5FAV";
			gboolean valid = g_ascii_isalnum((char)byte) &&
					 strchr("ILOUilou", (int)byte) == NULL &&
					 (place > 0 || byte <= '7');
			char shown[ULID_TEXT_SIZE];

			text[place] = (char)byte;
			if (!valid) {
				assert_ulid_refused(text);
				continue;
			}
			ulid_to_text(parse_ulid(text), shown);
			text[place] = g_ascii_toupper(text[place]);
			g_assert_cmpstr(shown, ==, text);
		}
	}
}

/* Every bit survives the conversion, and texts sort as the ULIDs do. */
TEST("/uuids/ulid-bits", test_ulid_bits)
{
	char last_text[ULID_TEXT_SIZE] = "";

	for (guint bit = 0; bit < 128; bit++) {
		Ulid ulid = {bit < 64 ? 0 : G_GUINT64_CONSTANT(1) << (bit - 64),
			     bit < 64 ? G_GUINT64_CONSTANT(1) << bit : 0};
		char text[ULID_TEXT_SIZE];

		ulid_to_text(ulid, text);
		assert_equal(parse_ulid(text), ulid);
		g_assert_cmpstr(text, >, last_text);
		strcpy(last_text, text);
	}
}

TEST("/uuids/ulid-draw", test_ulid_draw)
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

TEST("/uuids/ulid-time-outside", test_ulid_time_outside)
{
	static const gint64 times_ms[] = {-1, ULID_MAX_TIME_MS + 1, G_MININT64, G_MAXINT64};

	for (gsize i = 0; i < G_N_ELEMENTS(times_ms); i++) {
		g_autoptr(GError) error = NULL;
		Ulid ulid = {1, 2};

		g_assert_false(ulid_draw(times_ms[i], 1, &ulid, &error));
		g_assert_error(error, ID_ERROR, ID_ERROR_OUT_OF_RANGE);
		assert_equal(ulid, (Ulid){1, 2});
	}
}

static Uuid parse_uuid(const char *text)
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

	g_assert_true(uuid_to_id(uuid, &converted, &error));
	g_assert_no_error(error);
	g_assert_cmpint(converted, ==, id);
}

static void assert_uuid7_refused(Uuid uuid, IdError code)
{
	g_autoptr(GError) error = NULL;
	gint64 id = -7;

	g_assert_false(uuid_to_id(uuid, &id, &error));
	g_assert_error(error, ID_ERROR, (gint)code);
	g_assert_cmpint(id, ==, -7);
}

TEST("/uuids/uuid7-vectors", test_uuid7_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("uuid7.json");
	JsonObject *vector = json_node_get_object(root);
	JsonObject *reserved = json_object_get_object_member(vector, "reserved");
	Uuid uuid = parse_uuid(json_object_get_string_member(vector, "uuid"));
	gint64 id = g_ascii_strtoll(json_object_get_string_member(reserved, "id"), NULL, 10);
	Uuid made = uuid_from_id(id, 0);
	char text[UUID_TEXT_SIZE];

	g_assert_cmpint(uuid_time_ms(uuid), ==, json_object_get_int_member(vector, "unix_ts_ms"));
	g_assert_cmpint(version_of(uuid), ==, json_object_get_int_member(vector, "version"));
	g_assert_cmpint(variant_of(uuid), ==, json_object_get_int_member(vector, "variant"));

	uuid_to_text(made, text);
	g_assert_cmpstr(text, ==,
			json_object_get_string_member(reserved, "uuid_with_52_random_bits_zero"));
	g_assert_cmpint(uuid_time_ms(made), ==, json_object_get_int_member(reserved, "unix_ts_ms"));
	g_assert_cmpint(id & 0x3fffff, ==, json_object_get_int_member(reserved, "low_22_bits"));
	g_assert_cmpint(made.high & 0xfff, ==, json_object_get_int_member(reserved, "rand_a"));
	g_assert_cmpint(made.low >> 52 & 0x3ff, ==,
			json_object_get_int_member(reserved, "rand_b_top_10"));
	assert_converts(parse_uuid(text), id);
}

/* Returns an ID with a random number of bits, so that IDs are often close to the edges. */
static gint64 random_id(void)
{
	guint64 random = random_u64();

	return (gint64)(random_u64() >> (1 + random % 63) ^ (random >> 63 ? G_MAXINT64 : 0));
}

/* A UUID keeps its ID with any random bits, and UUIDs sort as their IDs do. */
TEST("/uuids/uuid7-reserved", test_uuid7_reserved)
{
	static const gint64 edges[] = {0,        1,     0x3ff,          0x400,     0x3fffff,
				       0x400000, T0_MS, G_MAXINT64 - 1, G_MAXINT64};
	gint64 last_id = 0;
	Uuid last_uuid = uuid_from_id(0, 0);

	for (gsize i = 0; i < G_N_ELEMENTS(edges) + N_RANDOM; i++) {
		gint64 id = i < G_N_ELEMENTS(edges) ? edges[i] : random_id();
		guint64 random = random_u64();
		Uuid uuid = uuid_from_id(id, random);

		g_assert_cmpuint(version_of(uuid), ==, 7);
		g_assert_cmpuint(variant_of(uuid), ==, 2);
		g_assert_cmpint(uuid_time_ms(uuid), ==, layout_decode(&LAYOUT_TWITTER, id).time_ms);
		g_assert_cmphex(uuid.low << 12, ==, random << 12);
		assert_converts(uuid, id);
		if (id != last_id)
			g_assert_cmpint(uuid_compare(uuid, last_uuid), ==, id > last_id ? 1 : -1);
		last_id = id;
		last_uuid = uuid;
	}
}

/* Adjacent IDs sort correctly even with the largest and the smallest random bits. */
TEST("/uuids/uuid7-order", test_uuid7_order)
{
	for (guint i = 0; i < N_RANDOM; i++) {
		gint64 id = random_id() >> 1;

		g_assert_cmpint(
			uuid_compare(uuid_from_id(id, G_MAXUINT64), uuid_from_id(id + 1, 0)), <, 0);
	}
}

TEST("/uuids/uuid7-refused", test_uuid7_refused)
{
	const Uuid good = uuid_from_id(G_GINT64_CONSTANT(1724551110456385539), G_MAXUINT64);
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
			assert_uuid7_refused(uuid, ID_ERROR_INVALID);
	}
	for (guint64 variant = 0; variant < 4; variant++) {
		Uuid uuid = {good.high, (good.low & G_MAXUINT64 >> 2) | variant << 62};

		if (variant != 2)
			assert_uuid7_refused(uuid, ID_ERROR_INVALID);
	}
	for (gsize i = 0; i < G_N_ELEMENTS(times); i++) {
		Uuid uuid = {(guint64)times[i].time_ms << 16 | (good.high & 0xffff), good.low};

		if (times[i].valid)
			assert_converts(uuid, (times[i].time_ms - first_ms) << 22 | 139267);
		else
			assert_uuid7_refused(uuid, ID_ERROR_OUT_OF_RANGE);
	}
}

/* A generator of ULIDs or of UUIDs. */
typedef struct {
	gboolean is_uuid7;
	ScriptedClock clock; /* clock of source_init() */
	UuidGenerator generator;
} Source;

static void source_init_with(Source *self, gboolean is_uuid7, const Clock *clock)
{
	self->is_uuid7 = is_uuid7;
	uuid_generator_init(&self->generator, clock);
}

static void source_init(Source *self, gboolean is_uuid7, gint64 now_ms)
{
	scripted_clock_init(&self->clock, now_ms);
	source_init_with(self, is_uuid7, &self->clock.clock);
}

static void source_clear(Source *self)
{
	uuid_generator_clear(&self->generator);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Source, source_clear)

static gboolean source_draw_many(Source *self, gsize count, Uuid *out_values, GError **error)
{
	return self->is_uuid7 ? uuid_generator_draw(&self->generator, count, out_values, error)
			      : ulid_generator_draw(&self->generator, count, out_values, error);
}

static Uuid source_draw(Source *self)
{
	g_autoptr(GError) error = NULL;
	Uuid value;

	g_assert_true(source_draw_many(self, 1, &value, &error));
	g_assert_no_error(error);
	if (self->is_uuid7) {
		g_assert_cmpuint(version_of(value), ==, 7);
		g_assert_cmpuint(variant_of(value), ==, 2);
	}
	return value;
}

/* Asserts that the draw is refused and changes nothing. */
static void source_refuses(Source *self, gsize count, gint code)
{
	const Uuid untouched = {1, 2};
	const UuidGenerator before = self->generator;
	g_autoptr(GError) error = NULL;
	Uuid values[4] = {untouched, untouched, untouched, untouched};

	g_assert_false(source_draw_many(self, count, values, &error));
	g_assert_true(g_error_matches(error, ID_ERROR, code));
	for (gsize i = 0; i < G_N_ELEMENTS(values); i++)
		assert_equal(values[i], untouched);
	g_assert_cmpint(self->generator.last_ms, ==, before.last_ms);
	assert_equal(self->generator.last, before.last);
	g_assert_cmpuint(self->generator.fork_generation, ==, before.fork_generation);
}

/* Changes the last ULID that was drawn. */
static void source_set_last_ulid(Source *self, Ulid last)
{
	self->generator.last_ms = ulid_time_ms(last);
	self->generator.last = last;
}

/* Initializes a generator in the millisecond of @last, the last ULID that it has drawn. */
static void source_init_after_ulid(Source *self, Ulid last)
{
	source_init(self, FALSE, ulid_time_ms(last));
	source_draw(self); /* sets the fork generation */
	source_set_last_ulid(self, last);
}

static guint64 counter_of(Uuid uuid)
{
	return (uuid.high & 0xfff) << 30 | (uuid.low >> 32 & 0x3fffffff);
}

/* Returns whether @value follows @last within a millisecond. One ULID in 2^64 does by chance. */
static gboolean source_is_next(const Source *self, Uuid last, Uuid value)
{
	return self->is_uuid7 ? counter_of(value) == counter_of(last) + 1
			      : value.low == last.low + 1;
}

static gint64 source_time_ms(const Source *self, Uuid value)
{
	return self->is_uuid7 ? uuid_time_ms(value) : ulid_time_ms(value);
}

TEST("/uuids/clock-before-1970", test_clock_before_1970)
{
	for (gboolean is_uuid7 = FALSE; is_uuid7 <= TRUE; is_uuid7++) {
		gint code = ID_ERROR_OUT_OF_RANGE;
		g_auto(Source) source;

		source_init(&source, is_uuid7, -1);
		source_refuses(&source, 1, code);
		g_assert_cmpint(source.generator.last_ms, ==, -1);
		scripted_clock_set_ms(&source.clock, T0_MS);
		source_draw(&source);
		scripted_clock_set_ms(&source.clock, -1);
		source_refuses(&source, 1, code);
	}
}

/* Within a millisecond, and while the clock is back, the value grows by 1. A later millisecond has
 * new random bits. */
TEST("/uuids/clock", test_clock)
{
	static const struct {
		gint64 clock_ms; /* after T0 */
		gint64 time_ms;  /* time in the value, after T0 */
		gboolean goes_on;
	} steps[] = {
		{0, 0, FALSE},       {0, 0, TRUE},      {1, 1, FALSE},      {1, 1, TRUE},
		{0, 1, TRUE},        {-T0_MS, 1, TRUE}, {1, 1, TRUE},       {2, 2, FALSE},
		{1000, 1000, FALSE}, {3, 1000, TRUE},   {1000, 1000, TRUE}, {1001, 1001, FALSE},
	};

	for (gboolean is_uuid7 = FALSE; is_uuid7 <= TRUE; is_uuid7++) {
		g_auto(Source) source;
		Uuid last = {0};

		source_init(&source, is_uuid7, T0_MS);
		for (gsize i = 0; i < G_N_ELEMENTS(steps); i++) {
			scripted_clock_set_ms(&source.clock, T0_MS + steps[i].clock_ms);

			Uuid value = source_draw(&source);

			g_assert_cmpint(source_time_ms(&source, value), ==,
					T0_MS + steps[i].time_ms);
			g_assert_cmpint(uuid_compare(value, last), >, 0);
			g_assert_cmpint(source_is_next(&source, last, value), ==, steps[i].goes_on);
			last = value;
		}
	}
}

/* The child inherits the parent's generator, but must not draw the same values. */
TEST("/uuids/fork", test_fork)
{
	for (gboolean is_uuid7 = FALSE; is_uuid7 <= TRUE; is_uuid7++) {
		g_auto(Source) source;
		int status;
		Uuid last;
		pid_t pid;

		source_init(&source, is_uuid7, T0_MS);
		last = source_draw(&source);
		pid = fork();
		g_assert_cmpint(pid, >=, 0);
		if (pid == 0) {
			Uuid first = source_draw(&source);
			Uuid second = source_draw(&source);

			_exit(source_time_ms(&source, first) == T0_MS + 1 &&
					      !source_is_next(&source, last, first) &&
					      source_is_next(&source, first, second)
				      ? 0
				      : 1);
		}
		g_assert_cmpint(waitpid(pid, &status, 0), ==, pid);
		g_assert_cmpint(status, ==, 0);

		Uuid next = source_draw(&source);

		g_assert_cmpint(source_time_ms(&source, next), ==, T0_MS);
		g_assert_true(source_is_next(&source, last, next));
	}
}

TEST("/uuids/ulid-vectors-monotonic", test_ulid_vectors_monotonic)
{
	g_autoptr(JsonNode) root = vectors_load("ulid.json");
	JsonArray *vectors = vectors_array(root, "monotonic");

	for (guint i = 0; i < json_array_get_length(vectors); i++) {
		JsonObject *vector = json_array_get_object_element(vectors, i);
		Ulid previous = parse_ulid(json_object_get_string_member(vector, "previous"));
		g_auto(Source) source;

		source_init_after_ulid(&source, previous);
		if (json_object_get_null_member(vector, "same_millisecond_next"))
			source_refuses(&source, 1, ID_ERROR_OVERFLOW);
		else
			assert_equal(source_draw(&source),
				     parse_ulid(json_object_get_string_member(
					     vector, "same_millisecond_next")));
	}
}

/* The first ULID is random at the Unix epoch, too. */
TEST("/uuids/ulid-first", test_ulid_first)
{
	g_auto(Source) source;
	Ulid ulid;

	source_init(&source, FALSE, 0);
	ulid = source_draw(&source);
	g_assert_cmpint(ulid_time_ms(ulid), ==, 0);
	g_assert_cmphex(ulid.low, >, 1000);
}

TEST("/uuids/ulid-batch", test_ulid_batch)
{
	const Ulid last = {T0_MS << 16, G_MAXUINT64 - 500}; /* carries into the high half */
	g_auto(Source) source;
	g_autoptr(GError) error = NULL;
	Ulid ulids[1000];

	source_init_after_ulid(&source, last);
	g_assert_true(source_draw_many(&source, 1000, ulids, &error));
	for (gsize i = 0; i < G_N_ELEMENTS(ulids); i++) {
		g_assert_cmphex(ulids[i].low, ==, last.low + 1 + i);
		g_assert_cmphex(ulids[i].high, ==, last.high + (i >= 500));
	}
	assert_equal(source_draw(&source), (Ulid){last.high + 1, 500});
}

/* A millisecond ends with the largest random bits. The next millisecond starts again. */
TEST("/uuids/ulid-overflow", test_ulid_overflow)
{
	const Ulid last = {T0_MS << 16 | 0xffff, G_MAXUINT64 - 3};
	g_auto(Source) source;
	g_autoptr(GError) error = NULL;
	Ulid ulids[3];

	source_init_after_ulid(&source, last);
	source_refuses(&source, 4, ID_ERROR_OVERFLOW);
	g_assert_true(source_draw_many(&source, 3, ulids, &error));
	assert_equal(ulids[2], (Ulid){last.high, G_MAXUINT64});
	source_refuses(&source, 1, ID_ERROR_OVERFLOW);
	scripted_clock_set_ms(&source.clock, 0);
	source_refuses(&source, 1, ID_ERROR_OVERFLOW);
	scripted_clock_set_ms(&source.clock, T0_MS + 1);
	g_assert_cmpint(ulid_time_ms(source_draw(&source)), ==, T0_MS + 1);
	/* no ULID follows the largest one */
	source_set_last_ulid(&source, (Ulid){G_MAXUINT64, G_MAXUINT64});
	source_refuses(&source, 1, ID_ERROR_OVERFLOW);
}

/* The bits after the counter are random in each UUID. The start of the counter is random in each
 * millisecond, except for its highest bit. */
TEST("/uuids/uuid7-random-bits", test_uuid7_random_bits)
{
	g_auto(Source) source;
	guint64 seen_counter = 0;
	guint64 seen_random = 0;
	Uuid first;

	source_init(&source, TRUE, T0_MS);
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

/* After the counter's maximum, the next UUID has the next millisecond, ahead of the clock. */
TEST("/uuids/uuid7-overflow", test_uuid7_overflow)
{
	g_auto(Source) source;
	g_autoptr(GError) error = NULL;
	Uuid uuids[3];

	source_init(&source, TRUE, T0_MS);
	source_draw(&source);
	source.generator.last.low = MAX_COUNTER - 3;
	g_assert_true(source_draw_many(&source, 3, uuids, &error));
	for (guint64 i = 0; i < G_N_ELEMENTS(uuids); i++) {
		g_assert_cmpint(uuid_time_ms(uuids[i]), ==, T0_MS);
		g_assert_cmphex(counter_of(uuids[i]), ==, MAX_COUNTER - 2 + i);
	}

	Uuid ahead = source_draw(&source);

	g_assert_cmpint(uuid_time_ms(ahead), ==, T0_MS + 1);
	g_assert_cmphex(counter_of(ahead), <=, MAX_COUNTER >> 1);
	/* a batch has a single millisecond */
	source.generator.last.low = MAX_COUNTER - 2;
	g_assert_true(source_draw_many(&source, 3, uuids, &error));
	for (guint64 i = 0; i < G_N_ELEMENTS(uuids); i++) {
		g_assert_cmpint(uuid_time_ms(uuids[i]), ==, T0_MS + 2);
		g_assert_cmphex(counter_of(uuids[i]), ==, counter_of(uuids[0]) + i);
	}
	/* the clock catches up */
	scripted_clock_set_ms(&source.clock, T0_MS + 3);
	g_assert_cmpint(uuid_time_ms(source_draw(&source)), ==, T0_MS + 3);
}

typedef struct {
	Source *source;
	_Atomic(const Uuid *) shown; /* last value of one of the threads */
	gsize n_values;              /* values that each thread draws */
} Crowd;

typedef struct {
	Crowd *crowd;
	Uuid *values;
} Drawer;

static void *drawer_run(void *user_data)
{
	Drawer *self = user_data;
	Crowd *crowd = self->crowd;

	for (gsize n = 0; n < crowd->n_values;) {
		gsize count = MIN(n % MAX_BATCH + 1, crowd->n_values - n);
		const Uuid *before = atomic_load(&crowd->shown);
		g_autoptr(GError) error = NULL;

		g_assert_true(source_draw_many(crowd->source, count, &self->values[n], &error));
		for (gsize i = 0; i < count; i++) {
			const Uuid *value = &self->values[n + i];

			if (before != NULL)
				g_assert_cmpint(uuid_compare(*before, *value), <, 0);
			before = value;
		}
		atomic_store(&crowd->shown, before);
		n += count;
	}
	return NULL;
}

static int compare_values(const void *a, const void *b)
{
	return uuid_compare(*(const Uuid *)a, *(const Uuid *)b);
}

/* Checks threads that draw from one generator in real time: a value is larger than all values that
 * any thread received before the draw. */
static void check_threads(gboolean is_uuid7)
{
	SystemClock clock;
	g_auto(Source) source;
	Crowd crowd = {.source = &source, .n_values = scaled(400000)};
	gsize n_values = N_THREADS * crowd.n_values;
	g_autofree Uuid *values = g_new(Uuid, n_values);
	Drawer drawers[N_THREADS];
	pthread_t threads[N_THREADS];

	system_clock_init(&clock);
	source_init_with(&source, is_uuid7, &clock.clock);
	for (gsize i = 0; i < N_THREADS; i++) {
		drawers[i] = (Drawer){&crowd, &values[i * crowd.n_values]};
		g_assert_cmpint(pthread_create(&threads[i], NULL, drawer_run, &drawers[i]), ==, 0);
	}
	for (gsize i = 0; i < N_THREADS; i++)
		g_assert_cmpint(pthread_join(threads[i], NULL), ==, 0);
	qsort(values, n_values, sizeof(*values), compare_values);
	for (gsize i = 1; i < n_values; i++)
		g_assert_cmpint(uuid_compare(values[i - 1], values[i]), <, 0);
}

TEST("/uuids/ulid-threads", test_ulid_threads)
{
	check_threads(FALSE);
}

TEST("/uuids/uuid7-threads", test_uuid7_threads)
{
	check_threads(TRUE);
}
