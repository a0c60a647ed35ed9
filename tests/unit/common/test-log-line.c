/* SPDX-License-Identifier: Apache-2.0 */
#include "common/log.h"
#include "tests/unit/unit-test.h"

#include <json-glib/json-glib.h>
#include <string.h>

#define A_DAY_MS              86400000
#define REPLACEMENT_CHARACTER "\xef\xbf\xbd"

static LogLine line_of(const LogField *fields)
{
	return (LogLine){.time_ms = A_DAY_MS,
			 .level = "warning",
			 .priority = 4,
			 .event = "some-event",
			 .fields = fields};
}

static char *logfmt_of(const LogField *fields, gsize room)
{
	GString *out = g_string_new(NULL);
	const LogLine line = line_of(fields);

	log_line_append(out, &line, FALSE, room);
	return g_string_free(out, FALSE);
}

static char *json_of(const LogField *fields, gsize room)
{
	GString *out = g_string_new(NULL);
	const LogLine line = line_of(fields);

	log_line_append(out, &line, TRUE, room);
	return g_string_free(out, FALSE);
}

TEST("/log-line/logfmt", test_logfmt)
{
	static const struct {
		const char *text;
		const char *quoted;
	} CASES[] = {
		{"plain", "plain"},
		{"/var/lib/x-1.2_3:4", "/var/lib/x-1.2_3:4"},
		{"", "\"\""},
		{"a b", "\"a b\""},
		{"a=b", "\"a=b\""},
		{"a\"b", "\"a\\\"b\""},
		{"a\\b", "\"a\\\\b\""},
		{"a\nb\tc\rd", "\"a\\nb\\tc\\rd\""},
		{"\x1b[31m", "\"\\u001b[31m\""},
		{"\x7f", "\"\\u007f\""},
		{"\xc3\xb6l", "\xc3\xb6l"},
		{"\xc2\x9b", "\"\\u009b\""},
		{"\xff", "\"\\u00ff\""},
		{"\xc3", "\"\\u00c3\""},
		{"a\xe2\x80\xaetxt", "\"a\\u202etxt\""},
		{"\xf3\xa0\x80\xa1"
		 "1",
		 "\"\\udb40\\udc21"
		 "1\""}, /* a tag */
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *line = logfmt_of(
			(LogField[]){log_text("a", CASES[i].text), log_number("b", -1), {0}},
			LOG_LINE_MOST_BYTES);
		g_autofree char *expected =
			g_strdup_printf("event=some-event a=%s b=-1", CASES[i].quoted);

		g_assert_cmpstr(line, ==, expected);
	}
}

static const char *const HOSTILE[] = {
	"",
	"plain",
	"\"},{\"level\":\"error",
	"a\nb\r\t\x01\x1f\x7f",
	"\\",
	"\xc3\xb6\xf0\x9f\x98\x80\xe2\x80\xa8\xc2\x9b",
	"\xff\xc3",
	"\xed\xa0\x80", /* half of a pair, in UTF-8 */
	"</script>%s%n",
};

TEST("/log-line/json", test_json)
{
	for (gsize i = 0; i < G_N_ELEMENTS(HOSTILE); i++) {
		g_autofree char *line = json_of(
			(LogField[]){log_text("a", HOSTILE[i]), log_number("b", G_MININT64), {0}},
			LOG_LINE_MOST_BYTES);
		g_autofree char *valid = g_utf8_make_valid(HOSTILE[i], -1);
		g_autoptr(JsonNode) root = json_from_string(line, NULL);
		JsonObject *object;

		g_test_message("%s", line);
		g_assert_nonnull(root);
		g_assert_null(strchr(line, '\n'));
		object = json_node_get_object(root);
		g_assert_cmpuint(json_object_get_size(object), ==, 5);
		g_assert_cmpstr(json_object_get_string_member(object, "time"), ==,
				"1970-01-02T00:00:00.000Z");
		g_assert_cmpstr(json_object_get_string_member(object, "level"), ==, "warning");
		g_assert_cmpstr(json_object_get_string_member(object, "event"), ==, "some-event");
		g_assert_cmpstr(json_object_get_string_member(object, "a"), ==, valid);
		g_assert_cmpint(json_object_get_int_member(object, "b"), ==, G_MININT64);
	}
}

/* A line fits and is complete, for texts of any length and any expansion of their bytes. */
TEST("/log-line/room", test_room)
{
	static const char *const UNITS[] = {"x", "\x01", "\"", "\xc3\xb6", "\xff", "\x80"};

	for (gsize i = 0; i < G_N_ELEMENTS(UNITS); i++)
		for (gsize n = 1; n < 5000; n = n * 3 / 2 + 1) {
			g_autoptr(GString) text = g_string_new(NULL);
			g_autofree char *logfmt = NULL;
			g_autofree char *json = NULL;
			g_autoptr(JsonNode) root = NULL;

			while (text->len < n)
				g_string_append(text, UNITS[i]);
			const LogField fields[] = {log_text("a", text->str),
						   log_number("b", 1),
						   log_text("c", text->str),
						   {0}};

			logfmt = logfmt_of(fields, 300);
			json = json_of(fields, 300);
			root = json_from_string(json, NULL);
			g_assert_cmpuint(strlen(logfmt), <=, 300);
			g_assert_cmpuint(strlen(json), <=, 300);
			g_assert_nonnull(strstr(logfmt, " b=1 c="));
			g_assert_nonnull(root);
			if (g_utf8_validate(UNITS[i], -1, NULL)) /* it is cut between characters */
				g_assert_null(strstr(json, REPLACEMENT_CHARACTER));
			if (n > 300)
				g_assert_nonnull(strstr(logfmt, "..."));
		}
}

/* Expects the same as other programs: uuid.uuid5(uuid.UUID(LOG_LINE_NAMESPACE), "starting") in
 * Python. */
TEST("/log-line/message-id", test_message_id)
{
	static const struct {
		const char *event;
		const char *id;
	} CASES[] = {
		{"starting", "9873b16bf1325852a320c346f0c7d064"},
		{"worker-lost", "71e5916bb29b52a796618e8f1916a085"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *id = log_line_message_id(CASES[i].event);

		g_assert_cmpstr(id, ==, CASES[i].id);
	}
}

/* Returns: (transfer full): the value of @key, read as the journal reads it. */
static char *datagram_value(const GString *datagram, const char *key)
{
	for (gsize at = 0; at < datagram->len;) {
		const char *name = datagram->str + at;
		gsize name_bytes = strcspn(name, "\n");
		guint64 length;

		memcpy(&length, name + name_bytes + 1, sizeof length);
		length = GUINT64_FROM_LE(length);
		at += name_bytes + 1 + sizeof length;
		g_assert_cmpuint(at + length, <, datagram->len);
		g_assert_true(datagram->str[at + length] == '\n');
		if (strlen(key) == name_bytes && strncmp(name, key, name_bytes) == 0)
			return g_strndup(datagram->str + at, length);
		at += length + 1;
	}
	return NULL;
}

TEST("/log-line/datagram", test_datagram)
{
	static const struct {
		const char *key;
		const char *value;
	} CASES[] = {
		{"MESSAGE", "event=some-event worker_id=7 error=\"two\\nlines\""},
		{"PRIORITY", "4"},
		{"MESSAGE_ID", "34c8c1510e605b578a7821157d846cc9"},
		{"SYSLOG_IDENTIFIER", "test-log-line"},
		{"SNOWFLAKE_EVENT", "some-event"},
		{"SNOWFLAKE_WORKER_ID", "7"},
		{"SNOWFLAKE_ERROR", "two\nlines"},
	};
	const LogField fields[] = {
		log_number("worker_id", 7), log_text("error", "two\nlines"), {0}};
	const LogLine line = line_of(fields);
	g_autoptr(GString) datagram = log_line_datagram(&line);

	for (gsize i = 0; i < G_N_ELEMENTS(CASES); i++) {
		g_autofree char *value = datagram_value(datagram, CASES[i].key);

		g_assert_cmpstr(value, ==, CASES[i].value);
	}
}
