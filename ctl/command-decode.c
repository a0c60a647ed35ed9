/* SPDX-License-Identifier: Apache-2.0 */
#include <json-glib/json-glib.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/id-text.h"
#include "core/layout.h"
#include "core/text.h"
#include "ctl/command.h"
#include "ctl/output.h"
#include "ctl/screen.h"
#include "ctl/table.h"
#include "ctl/time-text.h"
#include "ctl/wide-text.h"

#define LINE_COLUMNS        106
#define MAX_UNFLUSHED_LINES 1000
#define MAX_LINE_BYTES      1000 /* of standard input; no ID has a tenth of it */

static char *form_name;
static char *layout_text;

static const GOptionEntry entries[] = {
	{"from", 0, 0, G_OPTION_ARG_STRING, &form_name,
	 "What the IDs are written in: decimal, hex, crockford, base62 or base58", "FORM"},
	{"layout", 0, 0, G_OPTION_ARG_STRING, &layout_text,
	 "How the IDs divide: a name, as layouts shows them, or all fields (default twitter)",
	 "LAYOUT"},
	G_OPTION_ENTRY_NULL,
};

/* Above the lines of each kind. */
typedef enum { HEAD_NONE, HEAD_ID, HEAD_ULID, HEAD_UUID } Head;

typedef struct {
	Layout layout;
	gboolean has_form;
	IdTextForm form; /* if has_form; otherwise each ID tells */
	gboolean json;
	gboolean is_short; /* lines without the local time */
	CtlArray array;
	Head head; /* of the last line */
	gboolean any_bad;
} Decoder;

static gboolean read_id(const Decoder *self, const char *text, gint64 *out_id, GError **error)
{
	IdTextForm form = self->form;

	if (self->has_form || id_text_form_of(text, &form))
		return id_text_decode(form, text, out_id, error);

	g_autofree char *shown = text_escape(text, strlen(text));

	g_set_error(error, ID_TEXT_ERROR, ID_TEXT_ERROR_INVALID,
		    "\"%s\" is neither digits nor 0x and hex digits, nor a ULID or UUID; say "
		    "what it is with --from crockford, base62 or base58",
		    shown);
	return FALSE;
}

static char *local_time(gint64 time_ms)
{
	g_autoptr(GDateTime) seconds = ctl_time_text_local(time_ms);
	g_autofree char *time = g_date_time_format(seconds, "%Y-%m-%dT%H:%M:%S");
	g_autofree char *zone = g_date_time_format(seconds, "%:z");

	return g_strdup_printf("%s.%03d%s", time, (int)(time_ms % 1000), zone);
}

/* (transfer full): a line has it where there is room. */
static char *local_column(const Decoder *self, const char *text)
{
	return self->is_short ? g_strdup("") : g_strdup_printf("%-29s  ", text);
}

static void print_head(const Decoder *self)
{
	g_autofree char *local = local_column(self, "local time");

	ctl_output_print("%19s  %-24s  %s%10s  %6s  %8s\n", "id", "time (UTC)", local, "datacenter",
			 "worker", "sequence");
}

static void print_line(Decoder *self, gint64 id, const LayoutParts *parts)
{
	g_autofree char *utc = text_time_ms(parts->time_ms);
	g_autofree char *time = local_time(parts->time_ms);
	g_autofree char *local = local_column(self, time);

	if (self->head != HEAD_ID)
		print_head(self);
	self->head = HEAD_ID;
	ctl_output_print("%19" G_GINT64_FORMAT "  %-24s  %s%10u  %6u  %8u\n", id, utc, local,
			 parts->datacenter_id, parts->worker_id, parts->sequence);
}

static void print_json(Decoder *self, gint64 id, const LayoutParts *parts)
{
	g_autofree char *decimal = g_strdup_printf("%" G_GINT64_FORMAT, id);
	g_autofree char *utc = text_time_ms(parts->time_ms);
	JsonObject *object = json_object_new();

	json_object_set_string_member(object, "id", decimal);
	json_object_set_int_member(object, "timestamp_ms", parts->time_ms);
	json_object_set_string_member(object, "time", utc);
	json_object_set_int_member(object, "datacenter_id", parts->datacenter_id);
	json_object_set_int_member(object, "worker_id", parts->worker_id);
	json_object_set_int_member(object, "sequence", parts->sequence);
	ctl_array_add_object(&self->array, object);
}

static gboolean decode_wide(Decoder *self, CtlWideKind kind, const char *text, GError **error)
{
	Head head = kind == CTL_WIDE_ULID ? HEAD_ULID : HEAD_UUID;
	CtlWide wide;

	if (!ctl_wide_parse(kind, text, &wide, error))
		return FALSE;
	if (self->json) {
		ctl_array_add_object(&self->array, ctl_wide_to_json(&wide));
		return TRUE;
	}
	if (self->head != head)
		ctl_wide_print_head(kind);
	self->head = head;
	ctl_wide_print_line(&wide);
	return TRUE;
}

static gboolean decode_id(Decoder *self, const char *text, GError **error)
{
	gint64 id;

	if (!read_id(self, text, &id, error) || !layout_check_id(&self->layout, id, error))
		return FALSE;

	LayoutParts parts = layout_decode(&self->layout, id);

	if (self->json)
		print_json(self, id, &parts);
	else
		print_line(self, id, &parts);
	return TRUE;
}

static void decode(Decoder *self, const char *text)
{
	g_autoptr(GError) error = NULL;
	CtlWideKind kind;
	gboolean decoded = !self->has_form && ctl_wide_kind_of(text, &kind)
				   ? decode_wide(self, kind, text, &error)
				   : decode_id(self, text, &error);

	if (!decoded) {
		ctl_output_complain("%s", error->message);
		self->any_bad = TRUE;
	}
}

/* What is decoded is seen before more is waited for; and Ctrl-C is heard. */
static void flush_now_and_then(void)
{
	static guint lines; /* since the last time */
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	if (++lines < MAX_UNFLUSHED_LINES && poll(&input, 1, 0) != 0)
		return;
	ctl_output_flush();
	lines = 0;
}

/* %FALSE: there is none. One that is longer than any ID is cut, and made to be none. */
static gboolean read_line(char line[MAX_LINE_BYTES + 1])
{
	gsize length = 0;
	int byte;

	flush_now_and_then();
	while ((byte = getc_unlocked(stdin)) != EOF && byte != '\n') {
		if (length == 0 && g_ascii_isspace(byte))
			continue;
		/* a NUL would end the text for all that follows: make it show */
		if (length < MAX_LINE_BYTES)
			line[length++] = byte != '\0' ? (char)byte : '?';
		else if (!g_ascii_isspace(byte))
			line[length - 1] = '?';
	}
	line[length] = '\0';
	return byte != EOF || length > 0;
}

static void decode_standard_input(Decoder *self)
{
	char line[MAX_LINE_BYTES + 1];

	while (read_line(line)) {
		g_strchomp(line);
		if (line[0] != '\0')
			decode(self, line);
	}
	if (ferror(stdin)) {
		ctl_output_complain("cannot read standard input");
		self->any_bad = TRUE;
	}
}

static gboolean prepare(Decoder *self)
{
	if (form_name != NULL && !id_text_form_from_name(form_name, &self->form)) {
		g_autofree char *shown = text_escape(form_name, strlen(form_name));

		ctl_output_complain(
			"--from \"%s\": there are decimal, hex, crockford, base62 and base58",
			shown);
		return FALSE;
	}
	return ctl_options_layout(layout_text, &self->layout);
}

static CtlStatus run(const CtlOptions *options, const char *const *arguments)
{
	Decoder decoder = {
		.layout = LAYOUT_TWITTER,
		.has_form = form_name != NULL,
		.json = options->json,
		.is_short = ctl_screen_columns() < LINE_COLUMNS,
	};

	if (!prepare(&decoder))
		return CTL_USAGE;
	if (arguments[0] == NULL)
		decode_standard_input(&decoder);
	for (gsize i = 0; arguments[i] != NULL; i++)
		decode(&decoder, arguments[i]);
	if (decoder.any_bad)
		ctl_array_end_failed(&decoder.array);
	else if (decoder.json)
		ctl_array_end(&decoder.array);
	return decoder.any_bad ? CTL_FAILED : CTL_OK;
}

const CtlCommand ctl_decode_command = {
	.name = "decode",
	.arguments = "[ID...]",
	.summary = "Shows what IDs consist of.",
	.details = "Without arguments, reads them from standard input, a line each. Digits "
		   "are decimal, 0x and hex digits hexadecimal, 26 letters and digits a ULID, "
		   "a UUID is one of version 7; anything else needs --from.",
	.entries = entries,
	.run = run,
};
