/* SPDX-License-Identifier: Apache-2.0 */
#include "core/uuid.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit-test.h"

static const Uuid sample = {0x017f22e279b07cc3, 0x98c4dc0c0c07398f}; /* RFC 9562, A.6 */

/* In a child of _Fork(), in which no handler of pthread_atfork() runs. */
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

TEST("/uuid/random", test_random)
{
	Uuid before = uuid_random();
	Uuid first = draw_in_child(), second = draw_in_child(), after = uuid_random();

	g_assert_cmpint(uuid_compare(first, second), !=, 0);
	g_assert_cmpint(uuid_compare(first, after), !=, 0);
	g_assert_cmpint(uuid_compare(before, after), !=, 0);
	g_assert_cmphex(first.high >> 12 & 15, ==, 4); /* RFC 9562, 5.4 */
	g_assert_cmphex(first.low >> 62, ==, 2);
}

TEST("/uuid/text", test_text)
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
			g_assert_cmphex(uuid.high, ==, cases[i].uuid.high);
			g_assert_cmphex(uuid.low, ==, cases[i].uuid.low);
		}
	}
}

TEST("/uuid/refused", test_refused)
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
		g_assert_error(error, UUID_ERROR, UUID_ERROR_INVALID);
		g_assert_true(g_str_is_ascii(error->message));
		g_assert_cmpint(uuid_compare(uuid, sample), ==, 0);
	}
}

TEST("/uuid/bytes", test_bytes)
{
	static const guint8 expected[UUID_BYTES] = {0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0, 0x7c, 0xc3,
						    0x98, 0xc4, 0xdc, 0x0c, 0x0c, 0x07, 0x39, 0x8f};
	guint8 bytes[UUID_BYTES];

	uuid_to_bytes(sample, bytes);
	g_assert_cmpmem(bytes, UUID_BYTES, expected, UUID_BYTES);
	g_assert_cmpint(uuid_compare(uuid_from_bytes(bytes), sample), ==, 0);
}

/* Ascending, each against each. */
TEST("/uuid/compare", test_compare)
{
	static const Uuid uuids[] = {
		{0, 0}, {0, 1}, {0, G_MAXUINT64}, {1, 0}, {G_MAXINT64, 5}, {G_MAXUINT64, 4},
	};

	for (int i = 0; i < (int)G_N_ELEMENTS(uuids); i++) {
		for (int j = 0; j < (int)G_N_ELEMENTS(uuids); j++)
			g_assert_cmpint(uuid_compare(uuids[i], uuids[j]), ==, (i > j) - (i < j));
	}
}
