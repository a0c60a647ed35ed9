/* SPDX-License-Identifier: Apache-2.0 */

/* Runs the program as a user would: SNOWFLAKECTL names it, VECTORS the folder of test vectors. */

#include <json-glib/json-glib.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/unit/client/fake-server.h"

typedef struct {
	int status;
	char *out;
	char *err;
} Run;

static void run_clear(Run *self)
{
	g_free(self->out);
	g_free(self->err);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Run, run_clear)

/* Runs @script in a shell in which "ctl" is the program, in UTC and the C locale. */
static Run run_script(const char *script)
{
	g_autofree char *full = g_strdup_printf(
		"ctl() { \"$SNOWFLAKECTL\" \"$@\"; }; export TZ=UTC LC_ALL=C; %s", script);
	const char *argv[] = {"/bin/sh", "-c", full, NULL};
	g_autoptr(GError) error = NULL;
	int wait_status;
	Run run = {0};

	g_test_message("%s", script);
	g_spawn_sync(NULL, (char **)argv, NULL, G_SPAWN_DEFAULT, NULL, NULL, &run.out, &run.err,
		     &wait_status, &error);
	g_assert_no_error(error);
	g_assert_true(WIFEXITED(wait_status));
	run.status = WEXITSTATUS(wait_status);
	return run;
}

static JsonParser *parse(const char *text)
{
	g_autoptr(GError) error = NULL;
	JsonParser *parser = json_parser_new();

	json_parser_load_from_data(parser, text, -1, &error);
	g_assert_no_error(error);
	return parser;
}

static JsonParser *load_vectors(const char *name)
{
	g_autofree char *path = g_build_filename(g_getenv("VECTORS"), name, NULL);
	g_autoptr(GError) error = NULL;
	JsonParser *parser = json_parser_new();

	json_parser_load_from_file(parser, path, &error);
	g_assert_no_error(error);
	return parser;
}

static const char *string_of(JsonArray *array, guint i, const char *member)
{
	return json_object_get_string_member(json_array_get_object_element(array, i), member);
}

static gint64 int_of(JsonArray *array, guint i, const char *member)
{
	return json_object_get_int_member(json_array_get_object_element(array, i), member);
}

/* The array that "ctl decode --json @options" makes of the @member of all @vectors. */
static JsonParser *decode_all(const char *options, JsonArray *vectors, const char *member)
{
	g_autoptr(GString) script = g_string_new("ctl decode --json ");

	g_string_append(script, options);
	for (guint i = 0; i < json_array_get_length(vectors); i++)
		g_string_append_printf(script, " %s", string_of(vectors, i, member));

	g_auto(Run) run = run_script(script->str);

	g_assert_cmpstr(run.err, ==, "");
	g_assert_cmpint(run.status, ==, 0);
	return parse(run.out);
}

static void decodes_every_form(void)
{
	static const struct {
		const char *options;
		const char *member;
	} cases[] = {
		{"", "id"},
		{"--from decimal", "id"},
		{"--from hex", "hex"},
		{"--from crockford", "base32_crockford"},
		{"--from base62", "base62"},
		{"--from base58", "base58_flickr"},
	};
	g_autoptr(JsonParser) file = load_vectors("text.json");
	JsonArray *vectors = json_object_get_array_member(
		json_node_get_object(json_parser_get_root(file)), "ids");

	g_assert_cmpuint(json_array_get_length(vectors), >, 5);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_autoptr(JsonParser) parser =
			decode_all(cases[i].options, vectors, cases[i].member);
		JsonArray *decoded = json_node_get_array(json_parser_get_root(parser));

		g_assert_cmpuint(json_array_get_length(decoded), ==,
				 json_array_get_length(vectors));
		for (guint j = 0; j < json_array_get_length(vectors); j++)
			g_assert_cmpstr(string_of(decoded, j, "id"), ==,
					string_of(vectors, j, "id"));
	}
}

static void decodes_the_parts(void)
{
	g_autoptr(JsonParser) file = load_vectors("layouts.json");
	JsonObject *layouts = json_node_get_object(json_parser_get_root(file));
	JsonArray *vectors = json_object_get_array_member(
		json_object_get_object_member(layouts, "twitter"), "ids");
	g_autoptr(JsonParser) parser = decode_all("--layout twitter", vectors, "id");
	JsonArray *decoded = json_node_get_array(json_parser_get_root(parser));

	g_assert_cmpuint(json_array_get_length(vectors), >, 3);
	g_assert_cmpuint(json_array_get_length(decoded), ==, json_array_get_length(vectors));
	for (guint i = 0; i < json_array_get_length(vectors); i++) {
		static const char *const members[] = {"timestamp_ms", "datacenter_id", "worker_id",
						      "sequence"};

		g_assert_cmpstr(string_of(decoded, i, "id"), ==, string_of(vectors, i, "id"));
		for (gsize j = 0; j < G_N_ELEMENTS(members); j++)
			g_assert_cmpint(int_of(decoded, i, members[j]), ==,
					int_of(vectors, i, members[j]));
	}
}

typedef struct {
	const char *script;
	int status;
	const char *out; /* all of it */
	const char *err; /* the start of it; "": there is none */
} Case;

static void check(const Case *test)
{
	g_auto(Run) run = run_script(test->script);

	g_assert_cmpstr(run.out, ==, test->out);
	if (test->err[0] == '\0')
		g_assert_cmpstr(run.err, ==, "");
	else if (!g_str_has_prefix(run.err, test->err))
		g_assert_cmpstr(run.err, ==, test->err); /* fails, and shows both */
	g_assert_cmpint(run.status, ==, test->status);
}

#define HEADER                                                                                     \
	"                 id  time (UTC)                local time                     "           \
	"datacenter  "                                                                             \
	"worker  sequence\n"
#define LINE                                                                                       \
	" 910499571847892992  2017-09-20T13:43:08.849Z  2017-09-20T13:43:08.849+00:00          "   \
	"17  "                                                                                     \
	"    25         0\n"
#define LINE_IN_INDIA                                                                              \
	" 910499571847892992  2017-09-20T13:43:08.849Z  2017-09-20T19:13:08.849+05:30          "   \
	"17  "                                                                                     \
	"    25         0\n"
#define JSON                                                                                       \
	"[\n {\"id\":\"910499571847892992\",\"timestamp_ms\":1505914988849,"                       \
	"\"time\":\"2017-09-20T13:43:08.849Z\",\"datacenter_id\":17,\"worker_id\":25,"             \
	"\"sequence\":0}\n]\n"

static void decode_prints(void)
{
	static const Case cases[] = {
		{"ctl decode 910499571847892992", 0, HEADER LINE, ""},
		{"ctl decode 0x0ca2be895c239000", 0, HEADER LINE, ""},
		{"ctl decode 0XCA2BE895C239000", 0, HEADER LINE, ""},
		{"ctl decode --from crockford 0s8nyh5e27400", 0, HEADER LINE, ""},
		{"echo 910499571847892992 | ctl decode", 0, HEADER LINE, ""},
		{"printf '\\n 910499571847892992\\r\\n\\n910499571847892992' | ctl decode", 0,
		 HEADER LINE LINE, ""},
		{"TZ=Asia/Kolkata ctl decode 910499571847892992", 0, HEADER LINE_IN_INDIA, ""},
		{"ctl --json decode 910499571847892992", 0, JSON, ""},
		{"ctl decode 910499571847892992 --json", 0, JSON, ""},
		{"ctl decode </dev/null", 0, "", ""},
		{"ctl decode --json </dev/null", 0, "[]\n", ""},
		/* a bad one is named, the others are shown */
		{"ctl decode abc 910499571847892992 9223372036854775808", 1, HEADER LINE,
		 "snowflakectl: \"abc\" is neither digits nor 0x and hex digits; say what it is "
		 "with "
		 "--from crockford, base62 or base58\nsnowflakectl: \"9223372036854775808\" is "},
		{"ctl decode --json abc 910499571847892992", 1, JSON, "snowflakectl: \"abc\" "},
		{"ctl decode ''", 1, "", "snowflakectl: \"\" "},
		{"ctl decode -- -5", 1, "", "snowflakectl: \"-5\" "},
		/* a line's cost grows with its length, not with the square of it */
		{"head -c 16000000 /dev/zero | ctl decode", 1, "", "snowflakectl: \"??"},
		{"printf '5\\0006\\n' | ctl decode", 1, "", "snowflakectl: \"5?6\" "},
		{"ctl decode \"$(printf '\\033[2J')\"", 1, "", "snowflakectl: \"\\x1b[2J\" "},
		{"ctl decode --from octal 7", 2, "", "snowflakectl: --from \"octal\""},
		{"ctl decode --layout none 7", 2, "", "snowflakectl: --layout: "},
		{"ctl decode 7 >/dev/full", 1, "",
		 "snowflakectl: cannot write to standard output: "},
		{"ctl decode 7 >&-", 1, "", "snowflakectl: cannot write to standard output: "},
		{"ctl decode <.", 1, "", "snowflakectl: cannot read standard input"},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check(&cases[i]);
}

static void refuses_wrong_use(void)
{
	static const Case cases[] = {
		{"ctl", 2, "", "snowflakectl: a command is missing"},
		{"ctl --json", 2, "", "snowflakectl: a command is missing"},
		{"ctl frobnicate", 2, "", "snowflakectl: there is no command \"frobnicate\""},
		{"ctl id --from hex", 2, "",
		 "snowflakectl: Unknown option --from; see snowflakectl --help\n"},
		{"ctl id 7", 2, "", "snowflakectl: id takes no argument"},
		{"ctl id -n 0", 2, "",
		 "snowflakectl: -n N: \"0\" is not a whole number from 1 to 9223372036854775807\n"},
		{"ctl id -n -1", 2, "", "snowflakectl: -n N: \"-1\" is not "},
		{"ctl id -n 0x10", 2, "", "snowflakectl: -n N: \"0x10\" is not "},
		{"ctl id -n 9223372036854775808", 2, "", "snowflakectl: -n N: \"92233"},
		{"ctl id -n ''", 2, "", "snowflakectl: -n N: \"\" is not "},
		{"ctl id --timeout 0", 2, "",
		 "snowflakectl: --timeout MS: \"0\" is not a whole number from 1 to 3600000\n"},
		{"ctl id --timeout 2s", 2, "", "snowflakectl: --timeout MS: \"2s\" is not "},
		{"ctl id --server ''", 2, "",
		 "snowflakectl: --server, one at a time: \"\" is not HOST:PORT: "},
		{"ctl id --server a --server a:1,b:1", 2, "",
		 "snowflakectl: --server, one at a time: \"a:1,b:1\" is not HOST:PORT: "},
		{"SNOWFLAKE_SERVERS=a,b:x ctl id", 2, "",
		 "snowflakectl: SNOWFLAKE_SERVERS: \"b:x\" is not HOST:PORT: "},
		{"ctl ping -c 0", 2, "", "snowflakectl: -c N: \"0\" is not "},
		{"ctl ping -i -1", 2, "", "snowflakectl: -i MS: \"-1\" is not "},
		{"ctl ping -i 3600001", 2, "",
		 "snowflakectl: -i MS: \"3600001\" is not a whole number from 0 to 3600000\n"},
		{"SNOWFLAKE_SERVERS=a:0 ctl ping", 2, "", "snowflakectl: SNOWFLAKE_SERVERS: "},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check(&cases[i]);
}

static void shows_help(void)
{
	static const Case cases[] = {
		{"ctl --help | grep -c -e SNOWFLAKE_SERVERS -e 'COMMAND --help'", 0, "2\n", ""},
		{"ctl id -h | grep -c -e --agent -e --timeout", 0, "2\n", ""},
		{"ctl --help id | grep -c -e --agent", 0, "1\n", ""},
		{"ctl registry --help | grep -c -e --server", 1, "0\n", ""},
		{"ctl --help >/dev/full", 1, "", "snowflakectl: cannot write to standard output: "},
		{"ctl id --help >/dev/full", 1, "",
		 "snowflakectl: cannot write to standard output: "},
	};

	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check(&cases[i]);
}

static FakeNext serve(const FakeRequest *request, GByteArray *out, gpointer data)
{
	atomic_llong *next = data;

	if (g_strcmp0(request->agent, "broken") == 0)
		fake_reply_declared(out, request, 3, "why", 250);
	else if (g_str_equal(request->method, "get_ids"))
		fake_reply_ids(out, request, atomic_fetch_add(next, request->count),
			       (guint)request->count);
	else if (g_str_equal(request->method, "get_worker"))
		fake_reply_worker(out, request, "serving");
	else if (g_str_equal(request->method, "get_timestamp"))
		fake_reply_i64(out, request, g_get_real_time() / 1000 + 60000);
	else
		fake_reply_exception(out, request, 1, "unknown");
	return FAKE_KEEP;
}

/* Holds no worker ID yet. */
static FakeNext serve_waiting(const FakeRequest *request, GByteArray *out, gpointer data)
{
	if (!g_str_equal(request->method, "get_worker"))
		return serve(request, out, data);
	fake_reply_worker(out, request, "waiting");
	return FAKE_KEEP;
}

/* Has no clock to speak of. */
static FakeNext serve_before_1970(const FakeRequest *request, GByteArray *out, gpointer data)
{
	if (!g_str_equal(request->method, "get_timestamp"))
		return serve(request, out, data);
	fake_reply_i64(out, request, -1);
	return FAKE_KEEP;
}

/* Of 2010: the four calls, and an error of its own. */
static FakeNext serve_2010(const FakeRequest *request, GByteArray *out, gpointer data)
{
	atomic_llong *next = data;

	if (g_strcmp0(request->agent, "snowflakectl") == 0 &&
	    g_str_equal(request->method, "get_id"))
		fake_reply_i64(out, request, atomic_fetch_add(next, 1));
	else if (g_str_equal(request->method, "get_id"))
		fake_reply_exception(out, request, 6, "InvalidUserAgentError: why");
	else if (g_str_equal(request->method, "get_ids") ||
		 g_str_equal(request->method, "get_worker"))
		fake_reply_exception(out, request, 1, "unknown");
	else
		fake_reply_i64(out, request, 5);
	return FAKE_KEEP;
}

/* Sets the variables of the scripts: $A and $OLD are servers, $DEAD is none. */
static void export_servers(const FakeServer *server, const FakeServer *old)
{
	g_autoptr(FakeServer) dead = fake_server_new(NULL, NULL);

	g_setenv("A", fake_server_text(server), TRUE);
	g_setenv("OLD", fake_server_text(old), TRUE);
	g_setenv("DEAD", fake_server_text(dead), TRUE);
}

static void id_prints(void)
{
	static const Case cases[] = {
		{"ctl --server $A id", 0, "1\n", ""},
		{"ctl id -n 3 --server=$A", 0, "2\n3\n4\n", ""},
		{"ctl -n 2 --server $A id", 0, "5\n6\n", ""},
		{"ctl id --json --server $A -n 2", 0, "[\n \"7\",\n \"8\"\n]\n", ""},
		{"SNOWFLAKE_SERVERS=\" $DEAD,, $A \" ctl id", 0, "9\n", ""},
		{"ctl --server $DEAD --server $A id", 0, "10\n", ""},
		{"ctl --server $A id -n 2500 | tail -n 1", 0, "2510\n", ""},
		{"ctl --server $A id -n 2490 | sort -n | uniq | wc -l", 0, "2490\n", ""},
		{"ctl --server $OLD id -n 2", 0, "42\n43\n", ""},
		/* numbers are decimal */
		{"ctl --server $OLD -n 010 id | tail -n 1", 0, "53\n", ""},
		{"ctl --server $OLD -- id", 0, "54\n", ""},
		/* a reader that has had enough is no error; a full disk is */
		{"{ ctl --server $A id -n 100000; echo $? >&2; } | head -n 1", 0, "5001\n", "0\n"},
		{"ctl --server $A id >/dev/full", 1, "",
		 "snowflakectl: cannot write to standard output: No space left on device\n"},
		{"ctl --server $DEAD id", 1, "", "snowflakectl: 127.0.0.1:"},
		{"ctl --server $DEAD id --json", 1, "[]\n", "snowflakectl: 127.0.0.1:"},
		{"ctl --server $OLD id --agent 1x 2>&1 | cut -d ' ' -f 3-", 0,
		 "InvalidUserAgentError: why\n", ""},
		{"ctl --server $A id --agent broken 2>&1 | cut -d ' ' -f 3-", 0,
		 "WorkerIdUnavailable: why\n", ""},
		{"ctl --server $A id --agent broken 2>/dev/null", 1, "", ""},
	};
	atomic_llong next = 1;
	atomic_llong next_old = 42;
	g_autoptr(FakeServer) server = fake_server_new(serve, &next);
	g_autoptr(FakeServer) old = fake_server_new(serve_2010, &next_old);

	export_servers(server, old);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check(&cases[i]);
}

static void ping_prints(void)
{
	atomic_llong next = 1;
	atomic_llong next_old = 42;
	g_autoptr(FakeServer) server = fake_server_new(serve, &next);
	g_autoptr(FakeServer) old = fake_server_new(serve_2010, &next_old);

	export_servers(server, old);

	g_auto(Run) json = run_script("ctl ping --json -c 2 -i 0 --server $DEAD --server $A");
	g_autoptr(JsonParser) parser = parse(json.out);
	JsonArray *pongs = json_node_get_array(json_parser_get_root(parser));

	g_assert_cmpint(json.status, ==, 0);
	g_assert_cmpuint(json_array_get_length(pongs), ==, 2);
	for (guint i = 0; i < 2; i++) {
		g_assert_cmpstr(string_of(pongs, i, "server"), ==, fake_server_text(server));
		g_assert_cmpstr(string_of(pongs, i, "state"), ==, "serving");
		g_assert_cmpint(int_of(pongs, i, "datacenter_id"), ==, 3);
		g_assert_cmpint(int_of(pongs, i, "worker_id"), ==, 7);
		g_assert_cmpint(int_of(pongs, i, "round_trip_us"), >, 0);
		/* its clock is a minute ahead: half a round trip and half a millisecond are allowed
		 */
		g_assert_cmpint(ABS(int_of(pongs, i, "clock_skew_us") - 60 * 1000000), <=,
				int_of(pongs, i, "round_trip_us") / 2 + 501);
	}

	g_auto(Run) text = run_script("ctl ping --server $OLD | sed 's/[0-9.+-]* ms/N ms/g'");
	g_autofree char *expected = g_strdup_printf(
		"%s: datacenter 5, worker 5, clock N ms, round trip N ms\n", fake_server_text(old));

	g_assert_cmpstr(text.out, ==, expected);
	check(&(Case){"ctl ping -c 2 -i 0 --server $DEAD 2>/dev/null", 1, "", ""});
	check(&(Case){"ctl ping --json --server $DEAD 2>/dev/null", 1, "[]\n", ""});
}

static void ping_fails_without_a_serving_server(void)
{
	static const Case cases[] = {
		{"ctl ping --server $A | sed 's/.*7, \\([a-z]*\\), .*/\\1/'", 0, "waiting\n", ""},
		{"ctl ping --server $A >/dev/null", 1, "", ""},
		{"ctl ping --json --server $A | tail -n 1", 0, "]\n", ""},
		{"ctl ping --server $OLD 2>/dev/null", 1, "", ""},
		{"ctl ping --server $OLD 2>&1 | cut -d ' ' -f 3-", 0,
		 "not an answer of a Snowflake server: a time of -1 ms\n", ""},
	};
	atomic_llong next = 1;
	g_autoptr(FakeServer) waiting = fake_server_new(serve_waiting, &next);
	g_autoptr(FakeServer) timeless = fake_server_new(serve_before_1970, &next);

	export_servers(waiting, timeless);
	for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
		check(&cases[i]);
}

/* Knows of very many others. */
static FakeNext serve_many(const FakeRequest *request, GByteArray *out, gpointer data)
{
	if (!g_str_equal(request->method, "get_workers"))
		return serve(request, out, data);
	fake_reply_workers(out, request, 4097);
	return FAKE_KEEP;
}

static void workers_does_not_ask_everybody(void)
{
	atomic_llong next = 1;
	g_autoptr(FakeServer) server = fake_server_new(serve_many, &next);

	export_servers(server, server);
	check(&(Case){"ctl workers --server $A", 1, "",
		      "snowflakectl: the server lists 4097 others, and more than 4096 are not "});
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_unsetenv("SNOWFLAKE_SERVERS");
	g_test_add_func("/snowflakectl/decodes-every-form", decodes_every_form);
	g_test_add_func("/snowflakectl/decodes-the-parts", decodes_the_parts);
	g_test_add_func("/snowflakectl/decode-prints", decode_prints);
	g_test_add_func("/snowflakectl/refuses-wrong-use", refuses_wrong_use);
	g_test_add_func("/snowflakectl/shows-help", shows_help);
	g_test_add_func("/snowflakectl/id-prints", id_prints);
	g_test_add_func("/snowflakectl/ping-prints", ping_prints);
	g_test_add_func("/snowflakectl/ping-fails", ping_fails_without_a_serving_server);
	g_test_add_func("/snowflakectl/workers-many", workers_does_not_ask_everybody);
	return g_test_run();
}
