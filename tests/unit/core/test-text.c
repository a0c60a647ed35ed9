/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text.h"
#include "tests/unit/unit-test.h"

#define SIXTEEN    "0123456789abcdef"
#define SIXTY_FOUR SIXTEEN SIXTEEN SIXTEEN SIXTEEN

TEST("/text/escape", test_escape)
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
		/* characters that reverse the text, end a line or are invisible, in UTF-8 */
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

TEST("/text/number", test_number)
{
	static const struct {
		const char *text;
		guint base;
		guint64 number; /* result for the range 5 to 300; 0 if refused */
	} cases[] = {
		{"5", 10, 5},     {"300", 10, 300}, {"007", 10, 7},
		{"0404", 8, 260}, {"ff", 16, 255},  {"4", 10, 0},
		{"301", 10, 0},   {"", 10, 0},      {"8", 8, 0},
		{" 7", 10, 0},    {"\t7", 10, 0},   {"\v7", 10, 0},
		{"+7", 10, 0},    {"-7", 10, 0},    {"7 ", 10, 0},
		{"0x7", 16, 0},   {"7.0", 10, 0},   {"18446744073709551621", 10, 0},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		guint64 number = 1;
		gboolean is_one = text_parse_number(cases[i].text, cases[i].base, 5, 300, &number);

		g_assert_true(is_one == (cases[i].number != 0));
		g_assert_cmpuint(number, ==, is_one ? cases[i].number : 1);
	}
}

TEST("/text/time", test_time)
{
	static const struct {
		gint64 time_ms;
		const char *text;
	} cases[] = {
		{-1, "1969-12-31T23:59:59.999Z"}, /* a clock that was not set */
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
