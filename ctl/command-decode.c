/* SPDX-License-Identifier: Apache-2.0 */

/* "decode" shows the parts of IDs, ULIDs and UUIDs. "convert" converts a UUID to an ID, and an ID
 * to a UUID. */

#include <json-glib/json-glib.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/id-text.h"
#include "core/layout.h"
#include "core/random.h"
#include "core/text.h"
#include "core/ulid.h"
#include "core/uuid.h"
#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"
#include "ctl/screen.h"

#define LINE_COLUMNS        106
#define MAX_UNFLUSHED_LINES 1000
/* maximum length of a line of standard input; no ID is longer than a tenth of it */
#define MAX_LINE_BYTES      1000
#define RANDOM_TEXT_SIZE    21 /* text of a ULID's 80 random bits */

static char *form_name;
static char *layout_text;

static const GOptionEntry decode_entries[] = {
	{"from", 0, 0, G_OPTION_ARG_STRING, &form_name,
	 "Form of the IDs: decimal, hex, crockford, base62 or base58", "FORM"},
	{"layout", 0, 0, G_OPTION_ARG_STRING, &layout_text,
	 "Layout of the IDs: a name from snowflakectl layouts, or all fields (default twitter)",
	 "LAYOUT"},
	G_OPTION_ENTRY_NULL,
};

/* ULIDs and UUIDs */

typedef enum { WIDE_ULID, WIDE_UUID } WideKind;

typedef struct {
	WideKind kind;
	Uuid bits;
	gint64 time_ms;  /* since the Unix epoch */
	gboolean has_id; /* a UUID whose time is in LAYOUT_TWITTER */
	gint64 id;       /* its ID, for a UUID of the reserved kind (uuid.h) */
} Wide;

/* Rejects UUIDs of versions other than 7. @out_wide: (out): untouched on failure */
static gboolean wide_parse(WideKind kind, const char *text, Wide *out_wide, GError **error)
{
	g_autoptr(GError) without_id = NULL;
	Wide wide = {.kind = kind};

	if (kind == WIDE_ULID) {
		if (!ulid_parse(text, &wide.bits, error))
			return FALSE;
		wide.time_ms = ulid_time_ms(wide.bits);
		*out_wide = wide;
		return TRUE;
	}
	if (!uuid_parse(text, &wide.bits, error))
		return FALSE;
	wide.time_ms = uuid_time_ms(wide.bits);
	wide.has_id = uuid_to_id(wide.bits, &wide.id, &without_id);
	if (g_error_matches(without_id, ID_ERROR, ID_ERROR_INVALID)) {
		g_propagate_prefixed_error(error, g_steal_pointer(&without_id), "\"%s\": ", text);
		return FALSE;
	}
	*out_wide = wide;
	return TRUE;
}

/* Returns: (transfer full) (nullable): the time in RFC 3339 form; %NULL if that form cannot express
 * it, as is the case for some 48-bit times. */
static char *wide_time(gint64 time_ms)
{
	return time_ms <= CTL_FORMAT_MAX_TIME_MS ? text_time_ms(time_ms) : NULL;
}

static void write_random(Ulid ulid, char out_text[static RANDOM_TEXT_SIZE])
{
	g_snprintf(out_text, RANDOM_TEXT_SIZE, "%04x%016" G_GINT64_MODIFIER "x",
		   (guint)(ulid.high & G_MAXUINT16), ulid.low);
}

static void wide_print_line(const Wide *self, gboolean with_head)
{
	g_autofree char *time = wide_time(self->time_ms);
	char text[UUID_TEXT_SIZE];
	char random[RANDOM_TEXT_SIZE];

	if (self->kind == WIDE_ULID) {
		if (with_head)
			ctl_output_print("%-26s  %-24s  %s\n", "ulid", "time (UTC)", "random");
		ulid_to_text(self->bits, text);
		write_random(self->bits, random);
		ctl_output_print("%s  %-24s  %s\n", text, time != NULL ? time : "-", random);
		return;
	}
	if (with_head)
		ctl_output_print("%-36s  %-24s  %19s  %10s  %6s  %8s\n", "uuid", "time (UTC)",
				 "made from id", "datacenter", "worker", "sequence");
	uuid_to_text(self->bits, text);
	ctl_output_print("%s  %-24s  ", text, time != NULL ? time : "-");
	if (!self->has_id) {
		ctl_output_print("%19s  %10s  %6s  %8s\n", "-", "-", "-", "-");
		return;
	}

	LayoutParts parts = layout_decode(&LAYOUT_TWITTER, self->id);

	ctl_output_print("%19" G_GINT64_FORMAT "  %10u  %6u  %8u\n", self->id, parts.datacenter_id,
			 parts.worker_id, parts.sequence);
}

static void set_parts(JsonObject *object, const LayoutParts *parts)
{
	json_object_set_int_member(object, "datacenter_id", parts->datacenter_id);
	json_object_set_int_member(object, "worker_id", parts->worker_id);
	json_object_set_int_member(object, "sequence", parts->sequence);
}

/* Returns: (transfer full) */
static JsonObject *wide_to_json(const Wide *self)
{
	JsonObject *object = json_object_new();
	g_autofree char *time = wide_time(self->time_ms);
	char text[UUID_TEXT_SIZE];
	char random[RANDOM_TEXT_SIZE];

	if (self->kind == WIDE_ULID)
		ulid_to_text(self->bits, text);
	else
		uuid_to_text(self->bits, text);
	json_object_set_string_member(object, self->kind == WIDE_ULID ? "ulid" : "uuid", text);
	json_object_set_int_member(object, "timestamp_ms", self->time_ms);
	ctl_format_json_text(object, "time", time);
	if (self->kind == WIDE_ULID) {
		write_random(self->bits, random);
		json_object_set_string_member(object, "random", random);
	} else if (self->has_id) {
		g_autofree char *decimal = g_strdup_printf("%" G_GINT64_FORMAT, self->id);
		LayoutParts parts = layout_decode(&LAYOUT_TWITTER, self->id);

		json_object_set_string_member(object, "id", decimal);
		set_parts(object, &parts);
	} else {
		json_object_set_null_member(object, "id");
	}
	return object;
}

/* decode */

/* The heading that was printed last. Each kind of line has its own heading. */
typedef enum { HEAD_NONE, HEAD_ID, HEAD_ULID, HEAD_UUID } Head;

typedef struct {
	Layout layout;
	gboolean has_form;
	IdTextForm form; /* used if has_form; otherwise the form of each ID is detected */
	gboolean json;
	gboolean is_short; /* omit the local time from lines */
	CtlArray array;
	Head head; /* heading that belongs to the last line */
	gboolean any_bad;
} Decoder;

static void print_id(Decoder *self, gint64 id, const LayoutParts *parts)
{
	g_autofree char *utc = text_time_ms(parts->time_ms);
	g_autoptr(GDateTime) local = ctl_format_local_time(parts->time_ms);
	g_autofree char *seconds = g_date_time_format(local, "%Y-%m-%dT%H:%M:%S");
	g_autofree char *zone = g_date_time_format(local, "%:z");
	g_autofree char *time =
		g_strdup_printf("%s.%03d%s", seconds, (int)(parts->time_ms % 1000), zone);

	if (self->head != HEAD_ID) {
		ctl_output_print("%19s  %-24s  ", "id", "time (UTC)");
		if (!self->is_short)
			ctl_output_print("%-29s  ", "local time");
		ctl_output_print("%10s  %6s  %8s\n", "datacenter", "worker", "sequence");
	}
	self->head = HEAD_ID;
	ctl_output_print("%19" G_GINT64_FORMAT "  %-24s  ", id, utc);
	if (!self->is_short)
		ctl_output_print("%-29s  ", time);
	ctl_output_print("%10u  %6u  %8u\n", parts->datacenter_id, parts->worker_id,
			 parts->sequence);
}

static gboolean decode_wide(Decoder *self, WideKind kind, const char *text, GError **error)
{
	Head head = kind == WIDE_ULID ? HEAD_ULID : HEAD_UUID;
	Wide wide;

	if (!wide_parse(kind, text, &wide, error))
		return FALSE;
	if (self->json) {
		ctl_array_add_object(&self->array, wide_to_json(&wide));
		return TRUE;
	}
	wide_print_line(&wide, self->head != head);
	self->head = head;
	return TRUE;
}

static gboolean decode_id(Decoder *self, const char *text, GError **error)
{
	IdTextForm form = self->form;
	gint64 id;

	if (!self->has_form && !id_text_form_of(text, &form)) {
		g_autofree char *shown = text_escape(text, strlen(text));

		g_set_error(error, ID_ERROR, ID_ERROR_INVALID,
			    "\"%s\" is not a decimal number, a hexadecimal number that begins "
			    "with 0x, a ULID or a UUID; "
			    "for another form, give --from crockford, base62 or base58",
			    shown);
		return FALSE;
	}
	if (!id_text_decode(form, text, &id, error) || !layout_check_id(&self->layout, id, error))
		return FALSE;

	LayoutParts parts = layout_decode(&self->layout, id);

	if (self->json) {
		g_autofree char *decimal = g_strdup_printf("%" G_GINT64_FORMAT, id);
		g_autofree char *utc = text_time_ms(parts.time_ms);
		JsonObject *object = json_object_new();

		json_object_set_string_member(object, "id", decimal);
		json_object_set_int_member(object, "timestamp_ms", parts.time_ms);
		json_object_set_string_member(object, "time", utc);
		set_parts(object, &parts);
		ctl_array_add_object(&self->array, object);
	} else {
		print_id(self, id, &parts);
	}
	return TRUE;
}

static void decode_text(Decoder *self, const char *text)
{
	g_autoptr(GError) error = NULL;
	gsize length = strlen(text);
	gboolean is_uuid = length == UUID_TEXT_SIZE - 1;
	gboolean is_wide = !self->has_form && (is_uuid || length == ULID_TEXT_SIZE - 1);
	gboolean decoded =
		is_wide ? decode_wide(self, is_uuid ? WIDE_UUID : WIDE_ULID, text, &error)
			: decode_id(self, text, &error);

	if (!decoded) {
		ctl_output_complain("%s", error->message);
		self->any_bad = TRUE;
	}
}

/* Reads a line. Returns %FALSE at the end of the input. If a line is longer than any ID, truncates
 * it and appends a question mark, so that it is invalid. */
static gboolean read_line(char line[MAX_LINE_BYTES + 1])
{
	static guint n_unflushed; /* number of unflushed lines */
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	gsize length = 0;
	int byte;

	/* flush before a read that may block, so that the output is visible and Ctrl-C takes
	 * effect */
	if (++n_unflushed >= MAX_UNFLUSHED_LINES || poll(&input, 1, 0) == 0) {
		ctl_output_flush();
		n_unflushed = 0;
	}
	while ((byte = getc_unlocked(stdin)) != EOF && byte != '\n') {
		if (length == 0 && g_ascii_isspace(byte))
			continue;
		/* replace NULs, because they would end the text */
		if (length < MAX_LINE_BYTES)
			line[length++] = byte != '\0' ? (char)byte : '?';
		else if (!g_ascii_isspace(byte))
			line[length - 1] = '?';
	}
	line[length] = '\0';
	return byte != EOF || length > 0;
}

static CtlStatus run_decode(const CtlOptions *options, const char *const *arguments)
{
	Decoder decoder = {
		.layout = LAYOUT_TWITTER,
		.has_form = form_name != NULL,
		.json = options->json,
		.is_short = ctl_screen_columns() < LINE_COLUMNS,
	};

	char line[MAX_LINE_BYTES + 1];

	if (form_name != NULL && !id_text_form_from_name(form_name, &decoder.form)) {
		g_autofree char *shown = text_escape(form_name, strlen(form_name));

		ctl_output_complain(
			"--from \"%s\" is not decimal, hex, crockford, base62 or base58", shown);
		return CTL_USAGE;
	}
	if (!ctl_options_layout(layout_text, &decoder.layout))
		return CTL_USAGE;
	while (arguments[0] == NULL && read_line(line)) {
		g_strchomp(line);
		if (line[0] != '\0')
			decode_text(&decoder, line);
	}
	if (arguments[0] == NULL && ferror(stdin)) {
		ctl_output_complain("cannot read standard input");
		decoder.any_bad = TRUE;
	}
	for (gsize i = 0; arguments[i] != NULL; i++)
		decode_text(&decoder, arguments[i]);
	if (decoder.any_bad)
		ctl_array_end_failed(&decoder.array);
	else if (decoder.json)
		ctl_array_end(&decoder.array);
	return decoder.any_bad ? CTL_FAILED : CTL_OK;
}

const CtlCommand ctl_decode_command = {
	.name = "decode",
	.arguments = "[ID...]",
	.summary = "Shows the parts of IDs.",
	.details = "Without arguments, reads IDs from standard input, one per line. Recognizes "
		   "decimal numbers, 0x with hex digits, ULIDs and UUIDs of version 7. Other forms "
		   "require --from.",
	.entries = decode_entries,
	.run = run_decode,
};

/* convert */

/* Returns: (transfer full) (nullable): the ID of a UUID, or a UUID of an ID. */
static char *convert_text(const char *text, GError **error)
{
	char uuid_text[UUID_TEXT_SIZE];
	IdTextForm form;
	Uuid uuid;
	gint64 id;

	if (strlen(text) == UUID_TEXT_SIZE - 1) {
		if (!uuid_parse(text, &uuid, error))
			return NULL;
		if (!uuid_to_id(uuid, &id, error)) {
			g_prefix_error(error, "\"%s\": ", text);
			return NULL;
		}
		return g_strdup_printf("%" G_GINT64_FORMAT, id);
	}
	if (!id_text_form_of(text, &form)) {
		g_autofree char *shown = text_escape(text, strlen(text));

		g_set_error(error, ID_ERROR, ID_ERROR_INVALID,
			    "\"%s\" is neither a UUID nor a decimal ID nor a hexadecimal ID that "
			    "begins with 0x",
			    shown);
		return NULL;
	}
	if (!id_text_decode(form, text, &id, error))
		return NULL;
	uuid_to_text(uuid_from_id(id, random_u64()), uuid_text);
	return g_strdup(uuid_text);
}

static CtlStatus run_convert(const CtlOptions *options, const char *const *arguments)
{
	CtlArray array = {0};
	gboolean any_bad = FALSE;

	if (arguments[0] == NULL) {
		ctl_output_complain("convert takes a UUID or an ID");
		return CTL_USAGE;
	}
	for (gsize i = 0; arguments[i] != NULL; i++) {
		g_autoptr(GError) error = NULL;
		g_autofree char *result = convert_text(arguments[i], &error);
		g_autofree char *quoted = options->json ? g_strdup_printf("\"%s\"", result) : NULL;

		any_bad |= result == NULL;
		if (result == NULL)
			ctl_output_complain("%s", error->message);
		else if (options->json)
			ctl_array_add(&array, quoted);
		else
			ctl_output_print("%s\n", result);
	}
	if (any_bad)
		ctl_array_end_failed(&array);
	else if (options->json)
		ctl_array_end(&array);
	return any_bad ? CTL_FAILED : CTL_OK;
}

const CtlCommand ctl_convert_command = {
	.name = "convert",
	.arguments = "UUID|ID...",
	.summary = "Converts a UUID to the ID that it was made from, or an ID to a UUID.",
	.details =
		"A UUID has 52 random bits, so each conversion of an ID gives a different UUID. A "
		"UUID of version 7 does not show whether it was made from an ID.",
	.takes_no_server = TRUE,
	.run = run_convert,
};
