/* SPDX-License-Identifier: Apache-2.0 */

/* "decode": shows the parts of IDs, ULIDs and UUIDs. */

#include <json-glib/json-glib.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/id-text.h"
#include "core/layout.h"
#include "core/text.h"
#include "core/ulid.h"
#include "core/uuid.h"
#include "ctl/command.h"
#include "ctl/format.h"
#include "ctl/output.h"

#define MAX_UNFLUSHED_LINES 1000
/* maximum length of a line of standard input; no ID is longer than a tenth of it */
#define MAX_LINE_BYTES      1000

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

/* Each kind has its own heading. */
typedef enum { KIND_NONE, KIND_ID, KIND_ULID, KIND_UUID } Kind;

typedef struct {
	Kind kind;
	Uuid bits;       /* the ULID or the UUID */
	gint64 time_ms;  /* since the Unix epoch */
	gboolean has_id; /* an ID, or a UUID of the reserved kind (uuid.h); if so: */
	gint64 id;
	LayoutParts parts;
} Decoded;

typedef struct {
	Layout layout;
	gboolean has_form;
	IdTextForm form; /* used if has_form; otherwise the form of each ID is detected */
	gboolean json;
	Kind heading; /* the heading printed last */
	gboolean any_bad;
} Decoder;

/* Refuses UUIDs whose version is not 7. */
static gboolean decode_uuid(const char *text, Decoded *out_decoded, GError **error)
{
	g_autoptr(GError) without_id = NULL;

	if (!uuid_parse(text, &out_decoded->bits, error))
		return FALSE;
	out_decoded->kind = KIND_UUID;
	out_decoded->time_ms = uuid_time_ms(out_decoded->bits);
	out_decoded->has_id = uuid_to_id(out_decoded->bits, &out_decoded->id, &without_id);
	if (g_error_matches(without_id, ID_ERROR, ID_ERROR_INVALID)) {
		g_propagate_prefixed_error(error, g_steal_pointer(&without_id), "\"%s\": ", text);
		return FALSE;
	}
	if (out_decoded->has_id)
		out_decoded->parts = layout_decode(&LAYOUT_TWITTER, out_decoded->id);
	return TRUE;
}

static gboolean decode_id(const Decoder *self, const char *text, Decoded *out_decoded,
			  GError **error)
{
	IdTextForm form = self->form;

	if (!self->has_form && !id_text_form_of(text, &form)) {
		g_autofree char *shown = text_escape(text, strlen(text));

		return id_error_set(error, ID_ERROR_INVALID,
				    "\"%s\" is not a decimal number, a hexadecimal number that "
				    "begins with 0x, a ULID or a UUID; for another form, use "
				    "--from crockford, base62 or base58",
				    shown);
	}
	if (!id_text_decode(form, text, &out_decoded->id, error) ||
	    !layout_check_id(&self->layout, out_decoded->id, error))
		return FALSE;
	out_decoded->kind = KIND_ID;
	out_decoded->has_id = TRUE;
	out_decoded->parts = layout_decode(&self->layout, out_decoded->id);
	out_decoded->time_ms = out_decoded->parts.time_ms;
	return TRUE;
}

/* Returns: (transfer full): its text; an ID in decimal */
static char *decoded_text(const Decoded *decoded)
{
	char text[UUID_TEXT_SIZE];

	if (decoded->kind == KIND_ULID)
		ulid_to_text(decoded->bits, text);
	else if (decoded->kind == KIND_UUID)
		uuid_to_text(decoded->bits, text);
	else
		g_snprintf(text, sizeof(text), "%" G_GINT64_FORMAT, decoded->id);
	return g_strdup(text);
}

/* Returns: (transfer full) (nullable): the time in RFC 3339 form; %NULL if that form cannot express
 * it, as is the case for some 48-bit times. */
static char *time_text(const Decoded *decoded)
{
	return decoded->time_ms <= CTL_FORMAT_MAX_TIME_MS ? text_time_ms(decoded->time_ms) : NULL;
}

/* Returns: (transfer full): the 80 random bits of a ULID in hex digits */
static char *random_text(const Decoded *decoded)
{
	return g_strdup_printf("%04x%016" G_GINT64_MODIFIER "x",
			       (guint)(decoded->bits.high & G_MAXUINT16), decoded->bits.low);
}

static void print_id(const Decoded *decoded, gboolean with_heading)
{
	const LayoutParts *parts = &decoded->parts;
	g_autofree char *utc = text_time_ms(parts->time_ms);

	if (with_heading)
		ctl_output_print("%19s  %-24s  %10s  %6s  %8s\n", "id", "time (UTC)", "datacenter",
				 "worker", "sequence");
	ctl_output_print("%19" G_GINT64_FORMAT "  %-24s  %10u  %6u  %8u\n", decoded->id, utc,
			 parts->datacenter_id, parts->worker_id, parts->sequence);
}

static void print_wide(const Decoded *decoded, gboolean with_heading)
{
	const LayoutParts *parts = &decoded->parts;
	g_autofree char *text = decoded_text(decoded);
	g_autofree char *time = time_text(decoded);

	if (decoded->kind == KIND_ULID) {
		g_autofree char *random = random_text(decoded);

		if (with_heading)
			ctl_output_print("%-26s  %-24s  %s\n", "ulid", "time (UTC)", "random");
		ctl_output_print("%s  %-24s  %s\n", text, time != NULL ? time : "-", random);
		return;
	}
	if (with_heading)
		ctl_output_print("%-36s  %-24s  %19s  %10s  %6s  %8s\n", "uuid", "time (UTC)",
				 "made from id", "datacenter", "worker", "sequence");
	ctl_output_print("%s  %-24s  ", text, time != NULL ? time : "-");
	if (decoded->has_id)
		ctl_output_print("%19" G_GINT64_FORMAT "  %10u  %6u  %8u\n", decoded->id,
				 parts->datacenter_id, parts->worker_id, parts->sequence);
	else
		ctl_output_print("%19s  %10s  %6s  %8s\n", "-", "-", "-", "-");
}

/* Returns: (transfer full) */
static JsonObject *decoded_to_json(const Decoded *decoded)
{
	static const char *const NAMES[] = {
		[KIND_ID] = "id", [KIND_ULID] = "ulid", [KIND_UUID] = "uuid"};
	JsonObject *object = json_object_new();
	g_autofree char *text = decoded_text(decoded);
	g_autofree char *time = time_text(decoded);

	json_object_set_string_member(object, NAMES[decoded->kind], text);
	json_object_set_int_member(object, "timestamp_ms", decoded->time_ms);
	ctl_format_json_text(object, "time", time);
	if (decoded->kind == KIND_ULID) {
		g_autofree char *random = random_text(decoded);

		json_object_set_string_member(object, "random", random);
	} else if (!decoded->has_id) {
		json_object_set_null_member(object, "id");
	} else {
		if (decoded->kind == KIND_UUID)
			ctl_format_json_id(object, "id", decoded->id);
		json_object_set_int_member(object, "datacenter_id", decoded->parts.datacenter_id);
		json_object_set_int_member(object, "worker_id", decoded->parts.worker_id);
		json_object_set_int_member(object, "sequence", decoded->parts.sequence);
	}
	return object;
}

static void decode_text(Decoder *self, const char *text)
{
	g_autoptr(GError) error = NULL;
	gsize length = strlen(text);
	Decoded decoded = {0};

	if (!self->has_form && length == UUID_TEXT_SIZE - 1)
		decode_uuid(text, &decoded, &error);
	else if (self->has_form || length != ULID_TEXT_SIZE - 1)
		decode_id(self, text, &decoded, &error);
	else if (ulid_parse(text, &decoded.bits, &error))
		decoded = (Decoded){.kind = KIND_ULID,
				    .bits = decoded.bits,
				    .time_ms = ulid_time_ms(decoded.bits)};
	if (error != NULL) {
		ctl_output_complain("%s", error->message);
		self->any_bad = TRUE;
		return;
	}
	if (self->json)
		ctl_output_add_object(decoded_to_json(&decoded));
	else if (decoded.kind == KIND_ID)
		print_id(&decoded, self->heading != KIND_ID);
	else
		print_wide(&decoded, self->heading != decoded.kind);
	self->heading = decoded.kind;
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
	};
	char line[MAX_LINE_BYTES + 1];

	if (form_name != NULL && !id_text_form_from_name(form_name, &decoder.form)) {
		g_autofree char *shown = text_escape(form_name, strlen(form_name));

		return ctl_output_misuse(
			"--from \"%s\" is not decimal, hex, crockford, base62 or base58", shown);
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
	ctl_output_end_array(decoder.json, !decoder.any_bad);
	return decoder.any_bad ? CTL_FAILED : CTL_OK;
}

const CtlCommand ctl_decode_command = {
	.name = "decode",
	.arguments = "[ID...]",
	.summary = "Shows the parts of IDs.",
	.details = "Without arguments, reads IDs from standard input, one per line. Recognizes "
		   "decimal numbers, 0x with hex digits, ULIDs and version 7 UUIDs. Other forms "
		   "require --from.",
	.takes_no_server = TRUE,
	.entries = decode_entries,
	.run = run_decode,
};
