/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/screen.h"
#include "tests/unit/unit-test.h"

#include <string.h>

#define WIDE   "\u6771" /* two columns */
#define ACCENT "\u0301" /* no column */
#define RED    "\033[1;31m"
#define END    "\033[0m"

/* Returns: (transfer full): the drawing of @text as the only line */
static char *draw_top(const char *text, guint columns)
{
	g_autoptr(GPtrArray) none = g_ptr_array_new();
	const CtlScreenText screen = {text, none, none};
	char *drawn = ctl_screen_draw(&screen, columns, G_MAXUINT);

	g_assert_true(g_str_has_suffix(drawn, "\n"));
	drawn[strlen(drawn) - 1] = '\0';
	return drawn;
}

TEST("/ctl-screen/width", test_width)
{
	static const struct {
		const char *text;
		guint width;
	} cases[] = {
		{"", 0},           {"abc", 3},         {"\u00e9", 1},
		{"e" ACCENT, 1},   {WIDE, 2},          {"a" WIDE ACCENT "b", 4},
		{"\U0001f600", 2}, {RED "abc" END, 3}, {"a" RED "b" END "c", 3},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		const char *text = cases[i].text;
		g_autofree char *whole = draw_top(text, cases[i].width);
		g_autofree char *cut = draw_top(text, MAX(cases[i].width, 1) - 1);

		g_assert_cmpstr(whole, ==, text);
		g_assert_true(cases[i].width == 0 || !g_str_equal(cut, text));
	}
}

TEST("/ctl-screen/cut", test_cut)
{
	static const struct {
		const char *text;
		guint columns;
		const char *shown;
	} cases[] = {
		{"", 1, ""},
		{"abc", G_MAXUINT, "abc"},
		{"abc", 3, "abc"},
		{"abcd", 3, "ab>"},
		{"abc", 2, "a>"},
		{"abc", 1, ">"},
		{"a", 1, "a"},
		{WIDE WIDE, 4, WIDE WIDE},
		{WIDE WIDE, 3, WIDE ">"},
		{"a" WIDE WIDE, 4, "a" WIDE ">"},
		{WIDE WIDE WIDE, 4, WIDE ">"},
		{"e" ACCENT "fg", 2, "e" ACCENT ">"},
		{RED "abc" END, 3, RED "abc" END},
		{RED "abc" END, 2, RED "a" END ">"},
		{"a" RED "b" END "cd", 3, "a" RED "b" END END ">"},
		{"ab" RED "cd" END, 3, "ab" RED END ">"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autofree char *shown = draw_top(cases[i].text, cases[i].columns);
		g_autofree char *again = draw_top(shown, cases[i].columns);

		g_assert_cmpstr(shown, ==, cases[i].shown);
		g_assert_cmpstr(again, ==, shown);
	}
}

TEST("/ctl-screen/wrap", test_wrap)
{
	static const struct {
		const char *text;
		guint columns;
		const char *lines;
	} cases[] = {
		{"", 3, "|"},
		{"abc", G_MAXUINT, "abc|"},
		{"abc", 3, "abc|"},
		{"abcd", 3, "abc|d|"},
		{"abcdef", 3, "abc|def|"},
		{WIDE WIDE, 3, WIDE "|" WIDE "|"},
		{WIDE WIDE, 1, ">|>|"}, /* it cannot be shown */
		{"ab" ACCENT "c", 2, "ab" ACCENT "|c|"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GPtrArray) none = g_ptr_array_new();
		g_autoptr(GPtrArray) below = g_ptr_array_new();

		g_ptr_array_add(below, (gpointer)cases[i].text);

		const CtlScreenText screen = {"", none, below};
		g_autofree char *drawn = ctl_screen_draw(&screen, cases[i].columns, G_MAXUINT);

		/* an empty top comes first */
		g_assert_cmpstr(g_strdelimit(drawn, "\n", '|') + 1, ==, cases[i].lines);
	}
}

static GPtrArray *split(const char *text)
{
	g_auto(GStrv) lines = g_strsplit(text, "|", -1);
	GPtrArray *array = g_ptr_array_new_with_free_func(g_free);

	for (gsize i = 0; text[0] != '\0' && lines[i] != NULL; i++)
		g_ptr_array_add(array, g_strdup(lines[i]));
	return array;
}

TEST("/ctl-screen/draw", test_draw)
{
	static const struct {
		const char *table;
		const char *below;
		guint columns, lines;
		const char *drawn;
	} cases[] = {
		{"head|1|2|3", "note", 80, 24, "top\nhead\n1\n2\n3\nnote\n"},
		{"head|1|2|3", "note", G_MAXUINT, G_MAXUINT, "top\nhead\n1\n2\n3\nnote\n"},
		{"", "", 80, 24, "top\n"},
		{"", "note", 80, 24, "top\nnote\n"},
		{"head|1|2|3", "", 80, 6, "top\nhead\n1\n2\n3\n"},
		{"head|1|2|3", "", 80, 5, "top\nhead\n1\n... and 2 more\n"},
		{"head|1|2|3", "note", 80, 6, "top\nhead\n1\n... and 2 more\nnote\n"},
		{"head|1|2|3", "note", 3, 7, "top\nhe>\n1\n..>\nnot\ne\n"},
		{"head|1|2|3", "a|b|c", 80, 6, "top\nhead\n... and 3 more\na\n... and 2 more\n"},
		{"head|1|2|3", "a|b|c|d|e|f", 80, 10,
		 "top\nhead\n1\n2\n3\na\nb\nc\n... and 3 more\n"},
		{"head|1|2|3|4|5", "a|b|c|d|e|f", 80, 10,
		 "top\nhead\n1\n2\n... and 3 more\na\nb\nc\n... and 3 more\n"},
		{"head|1", "a|b|c|d|e|f", 80, 9, "top\nhead\n1\na\nb\nc\nd\n... and 2 more\n"},
		{"head|1|2|3", "note", 80, 4, "top\nhead\n... and 3 more\n"},
		{"head|1|2|3", "note", 80, 3, "top\n... and 3 more\n"},
		{"head|1|2|3", "note", 80, 2, "top\n"},
		{"head|1|2|3", "note", 80, 1, "top\n"},
		{"", "a|b|c", 80, 4, "top\na\n... and 2 more\n"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(GPtrArray) table = split(cases[i].table);
		g_autoptr(GPtrArray) below = split(cases[i].below);
		const CtlScreenText text = {"top", table, below};
		g_autofree char *drawn = ctl_screen_draw(&text, cases[i].columns, cases[i].lines);

		g_assert_cmpstr(drawn, ==, cases[i].drawn);
	}
}
