/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"

#include "tests/unit/core/vectors.h"

#include <string.h>

#define MAX_ID "9223372036854775807"

/* What the vectors call the forms. */
static const struct {
	TextForm form;
	const char *member;
} forms[] = {
	{TEXT_DECIMAL, "id"},
	{TEXT_HEX, "hex"},
	{TEXT_CROCKFORD, "base32_crockford"},
	{TEXT_BASE62, "base62"},
	{TEXT_BASE58, "base58_flickr"},
};

static void check_decodes(TextForm form, const char *text, gint64 expected)
{
	g_autoptr(GError) error = NULL;
	gint64 id = -1;

	g_assert_true(text_decode(form, text, &id, &error));
	g_assert_no_error(error);
	g_assert_cmpint(id, ==, expected);
}

static void check_refuses(TextForm form, const char *text, const char *message)
{
	g_autoptr(GError) error = NULL;
	gint64 id = -7;

	g_assert_false(text_decode(form, text, &id, &error));
	g_assert_error(error, TEXT_ERROR, TEXT_ERROR_INVALID);
	g_assert_cmpint(id, ==, -7);
	if (message != NULL)
		g_assert_cmpstr(error->message, ==, message);
}

static void test_vectors(void)
{
	g_autoptr(JsonNode) root = vectors_load("text.json");
	JsonArray *ids = json_object_get_array_member(json_node_get_object(root), "ids");

	g_assert_cmpuint(json_array_get_length(ids), >, 0);
	for (guint i = 0; i < json_array_get_length(ids); i++) {
		JsonObject *vector = json_array_get_object_element(ids, i);
		gint64 id = g_ascii_strtoll(json_object_get_string_member(vector, "id"), NULL, 10);

		for (gsize j = 0; j < G_N_ELEMENTS(forms); j++) {
			const char *text = json_object_get_string_member(vector, forms[j].member);
			char buffer[TEXT_MAX];

			g_assert_true(text_encode(forms[j].form, id, buffer) == buffer);
			g_assert_cmpstr(buffer, ==, text);
			check_decodes(forms[j].form, text, id);
		}
	}
}

static void test_vectors_reject(void)
{
	g_autoptr(JsonNode) root = vectors_load("text.json");
	JsonObject *lists = json_object_get_object_member(json_node_get_object(root), "reject");
	guint n_lists = 0;

	for (gsize i = 0; i < G_N_ELEMENTS(forms); i++) {
		if (!json_object_has_member(lists, forms[i].member))
			continue;

		JsonArray *texts = json_object_get_array_member(lists, forms[i].member);

		for (guint j = 0; j < json_array_get_length(texts); j++)
			check_refuses(forms[i].form, json_array_get_string_element(texts, j), NULL);
		n_lists++;
	}
	g_assert_cmpuint(n_lists, ==, json_object_get_size(lists));
	g_assert_cmpuint(n_lists, >, 0);
}

static void test_round_trip(void)
{
	for (gsize i = 0; i < G_N_ELEMENTS(forms); i++) {
		/* each power of two and its neighbours: all lengths, all carries */
		for (int bit = 0; bit < 63; bit++) {
			for (gint64 delta = -1; delta <= 1; delta++) {
				gint64 id = (G_GINT64_CONSTANT(1) << bit) + delta;
				char buffer[TEXT_MAX];

				check_decodes(forms[i].form, text_encode(forms[i].form, id, buffer),
					      id);
			}
		}
	}
}

static void test_decode(void)
{
	static const struct {
		TextForm form;
		const char *text;
		gint64 id;
	} cases[] = {
		{TEXT_DECIMAL, "007", 7},
		{TEXT_DECIMAL, "0000000000000000007", 7},
		{TEXT_HEX, "0x7f", 127},
		{TEXT_HEX, "0X7F", 127},
		{TEXT_HEX, "fF", 255},
		{TEXT_HEX, "0x7fffffffffffffff", G_MAXINT64},
		{TEXT_CROCKFORD, "7zzzzzzzzzzzz", G_MAXINT64},
		{TEXT_CROCKFORD, "iIlLoO", 34636800},
		{TEXT_CROCKFORD, "a", 10},
		{TEXT_BASE62, "z", 61},
		{TEXT_BASE58, "11111111112", 1},
		{TEXT_BASE58, "Z", 57},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check_decodes(cases[i].form, cases[i].text, cases[i].id);
}

static void test_decode_refuses(void)
{
	static const struct {
		TextForm form;
		const char *text;
		const char *message;
	} cases[] = {
		{TEXT_DECIMAL, "", "\"\" is not an ID in decimal: it has no digits"},
		{TEXT_DECIMAL, "9223372036854775808",
		 "\"9223372036854775808\" is not an ID in decimal: it is above " MAX_ID},
		{TEXT_DECIMAL, "9999999999999999999",
		 "\"9999999999999999999\" is not an ID in decimal: it is above " MAX_ID},
		{TEXT_DECIMAL, "00000000000000000007",
		 "\"00000000000000000007\" is not an ID in decimal: it has more than 19 digits"},
		{TEXT_DECIMAL, "-1",
		 "\"-1\" is not an ID in decimal: character 1 is no digit of it"},
		{TEXT_DECIMAL, "+1",
		 "\"+1\" is not an ID in decimal: character 1 is no digit of it"},
		{TEXT_DECIMAL, "1 ",
		 "\"1 \" is not an ID in decimal: character 2 is no digit of it"},
		{TEXT_DECIMAL, "1\n",
		 "\"1\\x0a\" is not an ID in decimal: character 2 is no digit of it"},
		{TEXT_DECIMAL, "0x1f",
		 "\"0x1f\" is not an ID in decimal: character 2 is no digit of it"},
		{TEXT_HEX, "0x", "\"0x\" is not an ID in hex: it has no digits"},
		{TEXT_HEX, "0x0x1", "\"0x0x1\" is not an ID in hex: character 4 is no digit of it"},
		{TEXT_HEX, "8000000000000000",
		 "\"8000000000000000\" is not an ID in hex: it is above " MAX_ID},
		{TEXT_HEX, "00000000000000000",
		 "\"00000000000000000\" is not an ID in hex: it has more than 16 digits"},
		{TEXT_CROCKFORD, "u",
		 "\"u\" is not an ID in crockford: character 1 is no digit of it"},
		{TEXT_CROCKFORD, "0-0",
		 "\"0-0\" is not an ID in crockford: character 2 is no digit of it"},
		{TEXT_BASE62, "\xc3\xa9",
		 "\"\\xc3\\xa9\" is not an ID in base62: character 1 is no digit of it"},
		{TEXT_BASE62, "000000000000",
		 "\"000000000000\" is not an ID in base62: it has more than 11 digits"},
		{TEXT_BASE58, "111111111111",
		 "\"111111111111\" is not an ID in base58: it has more than 11 digits"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check_refuses(cases[i].form, cases[i].text, cases[i].message);
}

static void test_form_names(void)
{
	static const char *const names[] = {"decimal", "hex", "crockford", "base62", "base58"};
	TextForm form = TEXT_BASE58;

	for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
		g_assert_true(text_form_from_name(names[i], &form));
		g_assert_cmpint(form, ==, (int)i);
		g_assert_cmpstr(text_form_name(form), ==, names[i]);
	}
	g_assert_false(text_form_from_name("base64", &form));
	g_assert_false(text_form_from_name("", &form));
	g_assert_cmpint(form, ==, TEXT_BASE58);
}

#define SIXTEEN    "0123456789abcdef"
#define SIXTY_FOUR SIXTEEN SIXTEEN SIXTEEN SIXTEEN

static void test_escape(void)
{
	static const struct {
		const char *bytes;
		gsize length;
		const char *text;
	} cases[] = {
		{"", 0, ""},
		{"get_id", 6, "get_id"},
		{"get_id\0zz", 9, "get_id\\x00zz"},
		{" !#~", 4, " !#~"},
		{"\\\"'", 3, "\\x5c\\x22\\x27"},
		{"\x1f\x7f\x80\xff", 4, "\\x1f\\x7f\\x80\\xff"},
		{"a\r\nb", 4, "a\\x0d\\x0ab"},
		/* what turns the writing round, ends a line or cannot be seen, in UTF-8 */
		{"\u202e\u2066", 6, "\\xe2\\x80\\xae\\xe2\\x81\\xa6"},
		{"\u2028\xc2\x85", 5, "\\xe2\\x80\\xa8\\xc2\\x85"},
		{"\u200b\ufeff", 6, "\\xe2\\x80\\x8b\\xef\\xbb\\xbf"},
		{SIXTY_FOUR, 64, SIXTY_FOUR},
		{SIXTY_FOUR "x", 65, SIXTY_FOUR "..."},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *text = text_escape(cases[i].bytes, cases[i].length);

		g_assert_cmpstr(text, ==, cases[i].text);
	}
}

static void test_time(void)
{
	static const struct {
		gint64 time_ms;
		const char *text;
	} cases[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{1288834974657, "2010-11-04T01:42:54.657Z"},
		{1709251199009, "2024-02-29T23:59:59.009Z"},
		{3487858230208, "2080-07-10T17:30:30.208Z"},
		{253402300799999, "9999-12-31T23:59:59.999Z"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *text = text_time_ms(cases[i].time_ms);

		g_assert_cmpstr(text, ==, cases[i].text);
	}
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/text/vectors", test_vectors);
	g_test_add_func("/text/vectors-reject", test_vectors_reject);
	g_test_add_func("/text/round-trip", test_round_trip);
	g_test_add_func("/text/decode", test_decode);
	g_test_add_func("/text/decode-refuses", test_decode_refuses);
	g_test_add_func("/text/form-names", test_form_names);
	g_test_add_func("/text/escape", test_escape);
	g_test_add_func("/text/time", test_time);
	return g_test_run();
}
