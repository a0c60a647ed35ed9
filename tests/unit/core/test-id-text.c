/* SPDX-License-Identifier: Apache-2.0 */
#include "core/id-text.h"
#include "core/text.h"

#include "tests/unit/core/vectors.h"
#include "tests/unit/unit-test.h"

#include <string.h>

#define MAX_ID "9223372036854775807"

static const struct {
	IdTextForm form;
	const char *member; /* name of the member in the vectors */
	const char *digits;
} forms[] = {
	{ID_TEXT_DECIMAL, "id", "0123456789"},
	{ID_TEXT_HEX, "hex", "0123456789abcdef"},
	{ID_TEXT_CROCKFORD, "base32_crockford", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"},
	{ID_TEXT_BASE62, "base62",
	 "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"},
	{ID_TEXT_BASE58, "base58_flickr",
	 "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"},
};

static void check_decodes(IdTextForm form, const char *text, gint64 expected)
{
	g_autoptr(GError) error = NULL;
	gint64 id = -1;

	g_assert_true(id_text_decode(form, text, &id, &error));
	g_assert_no_error(error);
	g_assert_cmpint(id, ==, expected);
}

static void check_refuses(IdTextForm form, const char *text, const char *message)
{
	g_autoptr(GError) error = NULL;
	gint64 id = -7;

	g_assert_false(id_text_decode(form, text, &id, &error));
	g_assert_error(error, ID_ERROR, ID_ERROR_INVALID);
	g_assert_cmpint(id, ==, -7);
	if (message != NULL)
		g_assert_cmpstr(error->message, ==, message);
}

TEST("/id-text/vectors", test_vectors)
{
	g_autoptr(JsonNode) root = vectors_load("text.json");
	JsonArray *ids = vectors_array(root, "ids");

	for (guint i = 0; i < json_array_get_length(ids); i++) {
		JsonObject *vector = json_array_get_object_element(ids, i);
		gint64 id = g_ascii_strtoll(json_object_get_string_member(vector, "id"), NULL, 10);

		for (gsize j = 0; j < G_N_ELEMENTS(forms); j++) {
			const char *text = json_object_get_string_member(vector, forms[j].member);
			g_autofree char *encoded = id_text_encode(forms[j].form, id);

			g_assert_cmpstr(encoded, ==, text);
			check_decodes(forms[j].form, text, id);
		}
	}
}

TEST("/id-text/vectors-reject", test_vectors_reject)
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

TEST("/id-text/digits", test_digits)
{
	for (gsize i = 0; i < G_N_ELEMENTS(forms); i++) {
		for (gint64 digit = 0; forms[i].digits[digit] != '\0'; digit++) {
			const char text[] = {forms[i].digits[digit], '\0'};

			check_decodes(forms[i].form, text, digit);
		}
	}
}

TEST("/id-text/round-trip", test_round_trip)
{
	for (gsize i = 0; i < G_N_ELEMENTS(forms); i++) {
		/* each power of two and its neighbours: all lengths, all carries */
		for (int bit = 0; bit < 63; bit++) {
			for (gint64 delta = -1; delta <= 1; delta++) {
				gint64 id = (G_GINT64_CONSTANT(1) << bit) + delta;
				g_autofree char *text = id_text_encode(forms[i].form, id);

				check_decodes(forms[i].form, text, id);
			}
		}
	}
}

TEST("/id-text/decode", test_decode)
{
	static const struct {
		IdTextForm form;
		const char *text;
		gint64 id;
	} cases[] = {
		{ID_TEXT_DECIMAL, "007", 7},
		{ID_TEXT_DECIMAL, "0000000000000000007", 7},
		{ID_TEXT_HEX, "0x7f", 127},
		{ID_TEXT_HEX, "0X7F", 127},
		{ID_TEXT_HEX, "fF", 255},
		{ID_TEXT_HEX, "0x7fffffffffffffff", G_MAXINT64},
		{ID_TEXT_CROCKFORD, "7zzzzzzzzzzzz", G_MAXINT64},
		{ID_TEXT_CROCKFORD, "iIlLoO", 34636800},
		{ID_TEXT_CROCKFORD, "a", 10},
		{ID_TEXT_BASE62, "z", 61},
		{ID_TEXT_BASE58, "11111111112", 1},
		{ID_TEXT_BASE58, "Z", 57},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check_decodes(cases[i].form, cases[i].text, cases[i].id);
}

TEST("/id-text/decode-refuses", test_decode_refuses)
{
	static const struct {
		IdTextForm form;
		const char *text;
		const char *message;
	} cases[] = {
		{ID_TEXT_DECIMAL, "", "\"\" is not an ID in decimal: it has no digits"},
		{ID_TEXT_DECIMAL, "9223372036854775808",
		 "\"9223372036854775808\" is not an ID in decimal: it is above " MAX_ID},
		{ID_TEXT_DECIMAL, "9999999999999999999",
		 "\"9999999999999999999\" is not an ID in decimal: it is above " MAX_ID},
		{ID_TEXT_DECIMAL, "00000000000000000007",
		 "\"00000000000000000007\" is not an ID in decimal: it has more than 19 digits"},
		{ID_TEXT_DECIMAL, "-1",
		 "\"-1\" is not an ID in decimal: character 1 is not a digit"},
		{ID_TEXT_DECIMAL, "+1",
		 "\"+1\" is not an ID in decimal: character 1 is not a digit"},
		{ID_TEXT_DECIMAL, "1 ",
		 "\"1 \" is not an ID in decimal: character 2 is not a digit"},
		{ID_TEXT_DECIMAL, "1\n",
		 "\"1\\x0a\" is not an ID in decimal: character 2 is not a digit"},
		{ID_TEXT_DECIMAL, "0x1f",
		 "\"0x1f\" is not an ID in decimal: character 2 is not a digit"},
		{ID_TEXT_HEX, "0x", "\"0x\" is not an ID in hex: it has no digits"},
		{ID_TEXT_HEX, "0x0x1", "\"0x0x1\" is not an ID in hex: character 4 is not a digit"},
		{ID_TEXT_HEX, "8000000000000000",
		 "\"8000000000000000\" is not an ID in hex: it is above " MAX_ID},
		{ID_TEXT_HEX, "00000000000000000",
		 "\"00000000000000000\" is not an ID in hex: it has more than 16 digits"},
		{ID_TEXT_CROCKFORD, "u",
		 "\"u\" is not an ID in crockford: character 1 is not a digit"},
		{ID_TEXT_CROCKFORD, "0-0",
		 "\"0-0\" is not an ID in crockford: character 2 is not a digit"},
		{ID_TEXT_BASE62, "\xc3\xa9",
		 "\"\\xc3\\xa9\" is not an ID in base62: character 1 is not a digit"},
		{ID_TEXT_BASE62, "000000000000",
		 "\"000000000000\" is not an ID in base62: it has more than 11 digits"},
		{ID_TEXT_BASE58, "111111111111",
		 "\"111111111111\" is not an ID in base58: it has more than 11 digits"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check_refuses(cases[i].form, cases[i].text, cases[i].message);
}

TEST("/id-text/form-names", test_form_names)
{
	static const char *const names[] = {"decimal", "hex", "crockford", "base62", "base58"};
	IdTextForm form = ID_TEXT_BASE58;

	for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
		g_assert_true(id_text_form_from_name(names[i], &form));
		g_assert_cmpint(form, ==, (int)i);
	}
	g_assert_false(id_text_form_from_name("base64", &form));
	g_assert_false(id_text_form_from_name("", &form));
	g_assert_cmpint(form, ==, ID_TEXT_BASE58);
}
