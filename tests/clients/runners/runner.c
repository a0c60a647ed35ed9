/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/clients/runners/runner.h"

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define US_PER_MS 1000

typedef struct {
	const RunnerKind *kind;
	RunnerOptions options;
	gpointer client; /* NULL: it is closed */
} Runner;

/* The outcome of a row of calls. */
typedef struct {
	GArray *ids;
	gint64 took_us; /* of the last call */
	GError *error;
} Calls;

G_DEFINE_QUARK(runner_unsupported, runner_unsupported)

static void calls_clear(Calls *self)
{
	g_clear_pointer(&self->ids, g_array_unref);
	g_clear_error(&self->error);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Calls, calls_clear)

static void options_clear(RunnerOptions *self)
{
	g_strfreev(self->servers);
	g_free(self->agent);
	g_free(self->ca);
	g_free(self->certificate);
	g_free(self->key);
	*self = (RunnerOptions){0};
}

/* Commands */

static gint64 number_of(JsonObject *command, const char *name, gint64 otherwise)
{
	return json_object_get_int_member_with_default(command, name, otherwise);
}

static char *text_of(JsonObject *command, const char *name)
{
	return command == NULL
		       ? NULL
		       : g_strdup(json_object_get_string_member_with_default(command, name, NULL));
}

static char **servers_of(JsonObject *command)
{
	g_autoptr(GStrvBuilder) builder = g_strv_builder_new();
	JsonArray *servers = json_object_get_array_member(command, "servers");

	for (guint i = 0; i < json_array_get_length(servers); i++)
		g_strv_builder_add(builder, json_array_get_string_element(servers, i));
	return g_strv_builder_end(builder);
}

static void options_read(RunnerOptions *self, JsonObject *command)
{
	JsonObject *tls = json_object_has_member(command, "tls")
				  ? json_object_get_object_member(command, "tls")
				  : NULL;

	options_clear(self);
	*self = (RunnerOptions){
		.servers = servers_of(command),
		.agent = text_of(command, "agent"),
		.timeout_ms = (guint)number_of(command, "timeout_ms",
					       SNOWFLAKE_CLIENT_DEFAULT_TIMEOUT_MS),
		.prefetch_ms = (int)number_of(command, "prefetch_ms", -1),
		.max_age_ms = (int)number_of(command, "max_age_ms", -1),
		.ca = text_of(tls, "ca"),
		.certificate = text_of(tls, "certificate"),
		.key = text_of(tls, "key"),
	};
}

/* Answers */

static void say(JsonBuilder *answer)
{
	g_autoptr(JsonGenerator) generator = json_generator_new();
	g_autoptr(JsonNode) root = json_builder_get_root(answer);
	g_autofree char *line = NULL;

	json_generator_set_root(generator, root);
	line = json_generator_to_data(generator, NULL);
	printf("%s\n", line);
	fflush(stdout);
}

static JsonBuilder *answer_new(void)
{
	JsonBuilder *answer = json_builder_new();

	json_builder_begin_object(answer);
	return answer;
}

static void add_text(JsonBuilder *answer, const char *name, const char *text)
{
	json_builder_set_member_name(answer, name);
	json_builder_add_string_value(answer, text);
}

static void add_number(JsonBuilder *answer, const char *name, gint64 number)
{
	json_builder_set_member_name(answer, name);
	json_builder_add_int_value(answer, number);
}

static void say_ended(JsonBuilder *answer)
{
	json_builder_end_object(answer);
	say(answer);
}

static void say_unsupported(const char *why)
{
	g_autoptr(JsonBuilder) answer = answer_new();

	add_text(answer, "unsupported", why);
	say_ended(answer);
}

static void say_ok(void)
{
	g_autoptr(JsonBuilder) answer = answer_new();

	json_builder_set_member_name(answer, "ok");
	json_builder_add_boolean_value(answer, TRUE);
	say_ended(answer);
}

static void add_ids(JsonBuilder *answer, const char *name, const GArray *ids)
{
	json_builder_set_member_name(answer, name);
	json_builder_begin_array(answer);
	for (guint i = 0; i < ids->len; i++) {
		char text[24];

		g_snprintf(text, sizeof(text), "%" G_GINT64_FORMAT, g_array_index(ids, gint64, i));
		json_builder_add_string_value(answer, text);
	}
	json_builder_end_array(answer);
}

static const char *kind_of(const GError *error)
{
	switch ((SnowflakeClientError)error->code) {
	case SNOWFLAKE_CLIENT_ERROR_INVALID_ARGUMENT: /* the library has one code for all of them */
		return strstr(error->message, "agent") != NULL ? "invalid-agent"
							       : "invalid-argument";
	case SNOWFLAKE_CLIENT_ERROR_CLOCK:
		return "clock";
	case SNOWFLAKE_CLIENT_ERROR_UNAVAILABLE:
		return "unavailable";
	case SNOWFLAKE_CLIENT_ERROR_TIMEOUT:
		return "timeout";
	case SNOWFLAKE_CLIENT_ERROR_UNREACHABLE:
	case SNOWFLAKE_CLIENT_ERROR_PROTOCOL: /* garbage */
	case SNOWFLAKE_CLIENT_ERROR_UNSUPPORTED:
	default:
		return "unreachable";
	}
}

/* Where @server is told of in a message, as "SERVER: WHY", or NULL. */
static const char *find_attempt(const char *message, const char *server)
{
	g_autofree char *head = g_strdup_printf("%s: ", server);
	const char *found = strstr(message, head);

	while (found != NULL && found > message && found[-1] != ' ')
		found = strstr(found + 1, head);
	return found;
}

/* The library says "SERVER: WHY; SERVER: WHY". */
static void add_attempts(JsonBuilder *answer, char *const *servers, const char *message)
{
	json_builder_set_member_name(answer, "attempts");
	json_builder_begin_array(answer);
	for (; servers != NULL && *servers != NULL; servers++) {
		const char *found = find_attempt(message, *servers);

		if (found == NULL)
			continue;
		json_builder_begin_array(answer);
		json_builder_add_string_value(answer, *servers);
		json_builder_add_string_value(answer, found + strlen(*servers) + 2);
		json_builder_end_array(answer);
	}
	json_builder_end_array(answer);
}

static void add_error(const Runner *self, JsonBuilder *answer, const GError *error)
{
	add_text(answer, "error", kind_of(error));
	add_text(answer, "message", error->message);
	add_attempts(answer, self->options.servers, error->message);
	if (self->client != NULL && self->kind->retry_after_ms != NULL)
		add_number(answer, "retry_after_ms", self->kind->retry_after_ms(self->client));
}

static void say_calls(const Runner *self, const Calls *calls)
{
	g_autoptr(JsonBuilder) answer = answer_new();

	add_ids(answer, "ids", calls->ids);
	if (calls->error != NULL) {
		add_error(self, answer, calls->error);
		add_number(answer, "took_ms", calls->took_us / US_PER_MS);
	}
	say_ended(answer);
}

/* What is done */

static Calls calls_init(void)
{
	return (Calls){.ids = g_array_new(FALSE, FALSE, sizeof(gint64))};
}

static gboolean call_next(const Runner *self, gpointer client, Calls *calls)
{
	gint64 began_us = g_get_monotonic_time();
	gint64 id = 0;
	gboolean done = self->kind->next(client, self->options.agent, &id, &calls->error);

	calls->took_us = g_get_monotonic_time() - began_us;
	if (done)
		g_array_append_val(calls->ids, id);
	return done;
}

static void do_hello(Runner *self, JsonObject *command)
{
	g_autoptr(JsonBuilder) answer = answer_new();

	(void)command;
	add_text(answer, "language", "C");
	add_text(answer, "package", self->kind->name);
	json_builder_set_member_name(answer, "lacks");
	json_builder_begin_object(answer);
	for (guint i = 0; self->kind->lacks[i][0] != NULL; i++)
		add_text(answer, self->kind->lacks[i][0], self->kind->lacks[i][1]);
	json_builder_end_object(answer);
	say_ended(answer);
}

static void close_client(Runner *self)
{
	if (self->client != NULL)
		self->kind->close(self->client);
	self->client = NULL;
}

static void do_open(Runner *self, JsonObject *command)
{
	g_autoptr(GError) error = NULL;

	close_client(self);
	options_read(&self->options, command);
	self->client = self->kind->open(&self->options, &error);
	if (self->client != NULL) {
		say_ok();
	} else if (error->domain == runner_unsupported_quark()) {
		say_unsupported(error->message);
	} else {
		g_autoptr(JsonBuilder) answer = answer_new();

		add_error(self, answer, error);
		add_number(answer, "took_ms", 0);
		say_ended(answer);
	}
}

static void do_next(Runner *self, JsonObject *command)
{
	g_auto(Calls) calls = calls_init();
	gint64 count = number_of(command, "count", 1);
	gulong pause_us =
		(gulong)(json_object_get_double_member_with_default(command, "pause_ms", 0) *
			 US_PER_MS);

	for (gint64 i = 0; i < count && call_next(self, self->client, &calls); i++)
		if (pause_us > 0 && i + 1 < count)
			g_usleep(pause_us); /* lint: allow sleep: the pace that was asked for */
	say_calls(self, &calls);
}

static void do_next_ids(Runner *self, JsonObject *command)
{
	g_auto(Calls) calls = calls_init();
	guint count = (guint)number_of(command, "count", 1);
	gint64 began_us;

	g_array_set_size(calls.ids, count);
	began_us = g_get_monotonic_time();
	if (!self->kind->next_ids(self->client, self->options.agent, count,
				  (gint64 *)(gpointer)calls.ids->data, &calls.error))
		g_array_set_size(calls.ids, 0);
	calls.took_us = g_get_monotonic_time() - began_us;
	say_calls(self, &calls);
}

/* One of the threads of a storm. */
typedef struct {
	const Runner *runner;
	gpointer client;
	_Atomic gint64 *left;
	Calls calls;
	gint64 failed;
} Storm;

static gpointer storm(gpointer data)
{
	Storm *self = data;

	while (atomic_fetch_sub(self->left, 1) > 0)
		while (!call_next(self->runner, self->client, &self->calls)) {
			g_clear_error(&self->calls.error);
			self->failed++;
		}
	return NULL;
}

static gboolean write_ids(FILE *file, const GArray *ids)
{
	for (guint i = 0; i < ids->len; i++)
		if (fprintf(file, "%" G_GINT64_FORMAT "\n", g_array_index(ids, gint64, i)) < 0)
			return FALSE;
	return TRUE;
}

static void say_storm(Storm *threads, gint64 n_threads, const char *path)
{
	g_autoptr(JsonBuilder) answer = answer_new();
	FILE *file = g_fopen(path, "w");
	gint64 taken = 0, failed = 0;

	for (gint64 i = 0; i < n_threads; i++) {
		if (file == NULL || !write_ids(file, threads[i].calls.ids))
			exit(EXIT_FAILURE);
		taken += threads[i].calls.ids->len;
		failed += threads[i].failed;
	}
	if (fclose(file) != 0)
		exit(EXIT_FAILURE);
	add_number(answer, "taken", taken);
	add_number(answer, "failed", failed);
	say_ended(answer);
}

static gpointer client_of_thread(Runner *self)
{
	g_autoptr(GError) error = NULL;
	gpointer client =
		self->kind->is_shared ? self->client : self->kind->open(&self->options, &error);

	if (client == NULL)
		exit(EXIT_FAILURE);
	return client;
}

static void do_storm(Runner *self, JsonObject *command)
{
	gint64 n_threads = number_of(command, "threads", 1);
	_Atomic gint64 left = number_of(command, "count", 1);
	g_autofree Storm *storms = g_new0(Storm, (gsize)n_threads);
	g_autofree GThread **threads = g_new0(GThread *, (gsize)n_threads);

	for (gint64 i = 0; i < n_threads; i++) {
		storms[i] = (Storm){.runner = self,
				    .client = client_of_thread(self),
				    .left = &left,
				    .calls = calls_init()};
		threads[i] = g_thread_new("storm", storm, &storms[i]);
	}
	for (gint64 i = 0; i < n_threads; i++)
		g_thread_join(threads[i]);
	say_storm(storms, n_threads, json_object_get_string_member(command, "file"));
	for (gint64 i = 0; i < n_threads; i++) {
		calls_clear(&storms[i].calls);
		if (!self->kind->is_shared)
			self->kind->close(storms[i].client);
	}
}

static void take(Runner *self, gint64 count, Calls *calls)
{
	for (gint64 i = 0; i < count && call_next(self, self->client, calls); i++)
		;
}

/* The child's IDs come through a pipe, as lines. */
static void read_child(int fd, GArray *ids)
{
	FILE *file = fdopen(fd, "r");
	gint64 id;

	while (fscanf(file, "%" G_GINT64_FORMAT, &id) == 1)
		g_array_append_val(ids, id);
	fclose(file);
}

static G_NORETURN void be_child(Runner *self, gint64 count, int fd)
{
	g_auto(Calls) calls = calls_init();
	FILE *file = fdopen(fd, "w");

	take(self, count, &calls);
	if (!write_ids(file, calls.ids) || fclose(file) != 0)
		_exit(EXIT_FAILURE);
	_exit(calls.error != NULL);
}

static void do_fork(Runner *self, JsonObject *command)
{
	if (self->kind->no_fork != NULL) {
		say_unsupported(self->kind->no_fork);
		return;
	}

	g_autoptr(JsonBuilder) answer = answer_new();
	g_auto(Calls) own = calls_init();
	g_auto(Calls) child = calls_init();
	gint64 count = number_of(command, "count", 1);
	int ends[2];
	pid_t pid;

	if (pipe(ends) != 0 || (pid = fork()) < 0)
		exit(EXIT_FAILURE);
	if (pid == 0) {
		close(ends[0]);
		be_child(self, count, ends[1]);
	}
	close(ends[1]);
	take(self, count, &own);
	read_child(ends[0], child.ids);
	waitpid(pid, NULL, 0);
	add_ids(answer, "parent", own.ids);
	add_ids(answer, "child", child.ids);
	if (own.error != NULL)
		add_text(answer, "message", own.error->message);
	say_ended(answer);
}

static void do_close(Runner *self, JsonObject *command)
{
	(void)command;
	close_client(self);
	say_ok();
}

static const struct {
	const char *name;
	void (*act)(Runner *self, JsonObject *command);
	gboolean needs_client;
} commands[] = {
	{"hello", do_hello, FALSE},      {"open", do_open, FALSE},  {"next", do_next, TRUE},
	{"next_ids", do_next_ids, TRUE}, {"storm", do_storm, TRUE}, {"fork", do_fork, TRUE},
	{"close", do_close, FALSE},
};

static void obey(Runner *self, JsonObject *command)
{
	const char *what = json_object_get_string_member_with_default(command, "do", "");

	for (guint i = 0; i < G_N_ELEMENTS(commands); i++) {
		if (strcmp(what, commands[i].name) != 0)
			continue;
		if (commands[i].needs_client && self->client == NULL)
			say_unsupported("a client that was freed cannot be asked");
		else
			commands[i].act(self, command);
		return;
	}
	say_unsupported("there is none of this in C");
}

int runner_main(const RunnerKind *kind)
{
	Runner self = {.kind = kind};
	g_autofree char *line = NULL;
	size_t size = 0;
	int status = EXIT_SUCCESS;

	while (status == EXIT_SUCCESS && getline(&line, &size, stdin) > 0) {
		g_autoptr(GError) error = NULL;
		g_autoptr(JsonNode) command = json_from_string(line, &error);

		if (command != NULL && JSON_NODE_HOLDS_OBJECT(command)) {
			obey(&self, json_node_get_object(command));
		} else {
			fprintf(stderr, "not a JSON object: %s\n", line);
			status = EXIT_FAILURE;
		}
	}
	close_client(&self);
	options_clear(&self.options);
	return status;
}
