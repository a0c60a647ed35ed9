/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <string.h>

#include "common/strict-json.h"
#include "core/text.h"

#include "tests/unit/unit-test.h"

/* Texts that are not JSON, or not the JSON of this project. json-glib alone accepts most of them.
 */
static const char *const BAD[] = {
	"",
	" \n",
	"[]",
	"5",
	"null",
	"var a = {}",
	"\xef\xbb\xbf{}",
	"{\"a\":\"\xff\"}",
	"{",
	"{}}",
	"{} {}",
	"{\"a\":1}{\"b\":[]}",
	"[] {}",
	"{} []",
	"5 {\"a\":1}",
	"{\"a\":1} {\"b\":",
	"{}x",
	"{} /* a */",
	"{// a\n}",
	"{a:1}",
	"{'a':1}",
	"{\"a\"}",
	"{\"a\":}",
	"{\"a\":1,}",
	"{,\"a\":1}",
	"{\"a\":1 \"b\":2}",
	"{\"a\":[1,]}",
	"{\"a\":[1}",
	"{\"a\":01}",
	"{\"a\":-01}",
	"{\"a\":0x1}",
	"{\"a\":+1}",
	"{\"a\":-}",
	"{\"a\":.5}",
	"{\"a\":1.}",
	"{\"a\":1e}",
	"{\"a\":1e+}",
	"{\"a\":99999999999999999999}",
	"{\"a\":tru}",
	"{\"a\":TRUE}",
	"{\"a\":truex}",
	"{\"a\":NaN}",
	"{\"a\":\"x}",
	"{\"a\":\"\n\"}",
	"{\"a\":\"\\x41\"}",
	"{\"a\":\"\\u12\"}",
	"{\"a\":\"\\u0000\"}",
	"{\"a\":\"\\ud83d\"}",
	"{\"a\":\"\\ud83dx\"}",
	"{\"a\":\"\\ud83d\\u0041\"}",
	"{\"a\":\"\\uD83D\\ud83d\"}",
	"{\"a\":\"\\ud83d\\ude00\"}",
	"{\"a\":\"\\\\\\ud83d\\u0041\"}",
	"{\"\\ud83d\\u0041\":1}",
	"{\"a\":\"\\ude00\"}",
	"{\"a\":\"\\ud55c\"}",
	"{\"a\":\"\\",
	"{\"a\":1,\"a\":1}",
	"{\"a\":1,\"\\u0061\":2}",
};

static const char *const GOOD[] = {
	"{}",
	" {\t}\r\n",
	"{\"a\":1}",
	"{ \"a\" : -1 , \"b\" : [ ] , \"c\" : { } }",
	"{\"a\":[1,2.5,null,true,false,\"x\",{\"a\":1,\"b\":[{}]}]}",
	"{\"a\":9223372036854775807,\"b\":-9223372036854775807,\"c\":0}",
	"{\"a\":\"\\\"\\\\/\\b\\f\\n\\r\\t\"}",
	"{\"a\":\"\xc3\xa9\xf0\x9f\x98\x80\"}",
	"{\"a\":\"\\\\ud83d\"}",
};

/* Parses an exact copy of the text, so that a sanitizer detects reads past its end. */
static JsonObject *parse(const char *text, gsize length, GError **error)
{
	g_autofree char *copy = g_memdup2(text, length);

	return strict_json_parse_object(copy, length, error);
}

TEST("/strict-json/bad", test_bad)
{
	for (gsize i = 0; i < G_N_ELEMENTS(BAD); i++) {
		g_autofree char *shown = g_strescape(BAD[i], NULL);
		g_autoptr(GError) error = NULL;

		g_test_message("%s", shown);
		g_assert_null(parse(BAD[i], strlen(BAD[i]), &error));
		g_assert_error(error, ID_ERROR, ID_ERROR_INVALID);
		g_assert_null(parse(BAD[i], strlen(BAD[i]), NULL));
	}
}

/* Refused texts leak no memory: a damaged record may be read each second for months. */
TEST("/strict-json/bad-ones-leave-nothing", test_bad_ones_leave_nothing)
{
	size_t before = mallinfo2().uordblks;

	for (guint round = 0; round < 2000; round++)
		for (gsize i = 0; i < G_N_ELEMENTS(BAD); i++)
			g_assert_null(parse(BAD[i], strlen(BAD[i]), NULL));
	g_assert_cmpuint(mallinfo2().uordblks, <, before + 64 * 1024);
}

TEST("/strict-json/good", test_good)
{
	for (gsize i = 0; i < G_N_ELEMENTS(GOOD); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(JsonObject) object = parse(GOOD[i], strlen(GOOD[i]), &error);

		g_test_message("%s", GOOD[i]);
		g_assert_no_error(error);
		g_assert_nonnull(object);
	}
}

/* Each truncation of a valid text is refused, and so is the text with another byte. */
TEST("/strict-json/cut-and-lengthened", test_cut_and_lengthened)
{
	static const char TEXT[] = "{\"a\":[1,2.5,null,\"x\"],\"b\":{\"c\":-1}}";

	for (gsize length = 0; length < strlen(TEXT); length++)
		g_assert_null(parse(TEXT, length, NULL));
	g_assert_null(parse(TEXT, sizeof(TEXT), NULL)); /* with the NUL */
	for (guint byte = 0; byte < 256; byte++) {
		g_autofree char *longer = g_strdup_printf("%s%c", TEXT, (char)byte);
		g_autoptr(JsonObject) object = parse(longer, strlen(TEXT) + 1, NULL);
		gboolean white = byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';

		g_assert_true((object != NULL) == white);
	}
}

TEST("/strict-json/int", test_int)
{
	static const struct {
		const char *text;
		const char *fault; /* NULL if the value is 5 */
	} CASES[] = {
		{"{\"a\":5}", NULL},
		{"{\"b\":5}", "\"a\" is missing"},
		{"{\"a\":11}", "\"a\" is 11, not from -3 to 10"},
		{"{\"a\":-4}", "\"a\" is -4, not from -3 to 10"},
		{"{\"a\":5.5}", "\"a\" is not a whole number"},
		{"{\"a\":\"5\"}", "\"a\" is not a whole number"},
		{"{\"a\":true}", "\"a\" is not a whole number"},
		{"{\"a\":null}", "\"a\" is not a whole number"},
		{"{\"a\":[5]}", "\"a\" is not a whole number"},
		{"{\"a\":{\"a\":5}}", "\"a\" is not a whole number"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autoptr(GError) error = NULL;
		g_autoptr(JsonObject) object = parse(CASES[i].text, strlen(CASES[i].text), NULL);
		gint64 number = 77;
		gboolean good = strict_json_get_int(object, "a", -3, 10, &number, &error);

		g_test_message("%s", CASES[i].text);
		g_assert_true(good == (CASES[i].fault == NULL));
		g_assert_cmpint(number, ==, good ? 5 : 77);
		g_assert_cmpstr(good ? NULL : error->message, ==, CASES[i].fault);
	}
}

TEST("/strict-json/string", test_string)
{
	static const char TEXT[] = "{\"a\":\"\xc3\xa9\",\"b\":5,\"c\":null}";
	g_autoptr(JsonObject) object = parse(TEXT, strlen(TEXT), NULL);
	g_autoptr(GError) error = NULL;

	g_assert_cmpstr(strict_json_get_string(object, "a", &error), ==, "\xc3\xa9");
	g_assert_no_error(error);
	g_assert_null(strict_json_get_string(object, "b", &error));
	g_assert_cmpstr(error->message, ==, "\"b\" is not a string");
	g_clear_error(&error);
	g_assert_null(strict_json_get_string(object, "c", &error));
	g_clear_error(&error);
	g_assert_null(strict_json_get_string(object, "d", &error));
	g_assert_cmpstr(error->message, ==, "\"d\" is missing");
}

/* A printed text can be parsed again, with any characters in its strings. */
TEST("/strict-json/print", test_print)
{
	static const char *const STRINGS[] = {"", "a", "\"\\/\n\t\x01\x7f",
					      "\xc3\xa9\xf0\x9f\x98\x80", "\\ud83d"};

	for (gsize i = 0; i < G_N_ELEMENTS(STRINGS); i++) {
		JsonObject *object = json_object_new();

		json_object_set_string_member(object, "a", STRINGS[i]);
		json_object_set_int_member(object, "b", -999999999999999999);

		g_autofree char *text = strict_json_print(object);
		g_autoptr(JsonObject) again = parse(text, strlen(text), NULL);
		gint64 number;

		g_test_message("%s", text);
		g_assert_nonnull(again);
		g_assert_null(strchr(text, '\n'));
		g_assert_cmpstr(strict_json_get_string(again, "a", NULL), ==, STRINGS[i]);
		g_assert_true(strict_json_get_int(again, "b", G_MININT64, 0, &number, NULL));
		g_assert_cmpint(number, ==, -999999999999999999);
	}
}
