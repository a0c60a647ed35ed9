/* SPDX-License-Identifier: Apache-2.0 */
/* Formats the events of log.h. It is separate from log.c, so that tests can replace log.c. */
#include "common/log.h"

#include <errno.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "core/text.h"
#include "core/uuid.h"

/* Returns: (transfer full): @text, shortened to @most_bytes with "..." at the end if it is
 * longer */
static char *cut_text(const char *text, gsize most_bytes)
{
	gsize length = strnlen(text, most_bytes + 1);

	if (length <= most_bytes)
		return g_strdup(text);
	length = most_bytes;
	while (length > 0 && ((guchar)text[length] & 0xc0) == 0x80) /* not inside a character */
		length--;
	return g_strdup_printf("%.*s...", (int)length, text);
}

/* Returns: (transfer full): the value of the field, of at most @most_bytes as in cut_text() */
static char *field_text(const LogField *field, gsize most_bytes)
{
	return field->text != NULL ? cut_text(field->text, most_bytes)
				   : g_strdup_printf("%" G_GINT64_FORMAT, field->number);
}

/* logfmt */

/* Appends a character escaped as in JSON. Readers of logfmt understand this form. */
static void append_escaped(GString *out, gunichar character)
{
	switch (character) {
	case '\n':
		g_string_append(out, "\\n");
		break;
	case '\r':
		g_string_append(out, "\\r");
		break;
	case '\t':
		g_string_append(out, "\\t");
		break;
	case '"':
	case '\\':
		g_string_append_c(out, '\\');
		g_string_append_c(out, (char)character);
		break;
	default:
		if (character <= 0xffff)
			g_string_append_printf(out, "\\u%04x", character);
		else /* a surrogate pair, as JSON requires */
			g_string_append_printf(out, "\\u%04x\\u%04x",
					       0xd800 + ((character - 0x10000) >> 10),
					       0xdc00 + (character & 0x3ff));
	}
}

/* Escapes quotes, backslashes and bytes that are not printable UTF-8. Adds double quotes if the
 * text needs them. */
static void append_quoted(GString *out, const char *text)
{
	gsize begin = out->len;
	gboolean plain = *text != '\0';

	for (const char *p = text; *p != '\0';) {
		gunichar c = g_utf8_get_char_validated(p, -1);
		gboolean valid = (gint)c >= 0;
		gsize length = valid ? (gsize)(g_utf8_next_char(p) - p) : 1;

		if (valid && g_unichar_isprint(c) && c != '"' && c != '\\') {
			g_string_append_len(out, p, (gssize)length);
			plain = plain && c != ' ' && c != '=';
		} else {
			append_escaped(out, valid ? c : (guchar)*p);
			plain = FALSE;
		}
		p += length;
	}
	if (plain)
		return;
	g_string_insert_c(out, (gssize)begin, '"');
	g_string_append_c(out, '"');
}

static void append_logfmt(GString *out, const LogLine *line, gsize most_bytes)
{
	g_string_append_printf(out, "event=%s", line->event);
	for (const LogField *field = line->fields; field->key != NULL; field++) {
		g_autofree char *text = field_text(field, most_bytes);

		g_string_append_printf(out, " %s=", field->key);
		append_quoted(out, text);
	}
}

/* JSON */

static void build_text(JsonBuilder *builder, const char *key, const char *text)
{
	g_autofree char *valid = g_utf8_make_valid(text, -1);

	json_builder_set_member_name(builder, key);
	json_builder_add_string_value(builder, valid);
}

static void append_json(GString *out, const LogLine *line, gsize most_bytes)
{
	g_autoptr(JsonBuilder) builder = json_builder_new();
	g_autoptr(JsonGenerator) generator = json_generator_new();
	g_autoptr(JsonNode) root = NULL;
	g_autofree char *time = text_time_ms(line->time_ms);

	json_builder_begin_object(builder);
	build_text(builder, "time", time);
	build_text(builder, "level", line->level);
	build_text(builder, "event", line->event);
	for (const LogField *field = line->fields; field->key != NULL; field++) {
		if (field->text != NULL) {
			g_autofree char *text = cut_text(field->text, most_bytes);

			build_text(builder, field->key, text);
		} else {
			json_builder_set_member_name(builder, field->key);
			json_builder_add_int_value(builder, field->number);
		}
	}
	json_builder_end_object(builder);
	root = json_builder_get_root(builder);
	json_generator_set_root(generator, root);
	json_generator_to_gstring(generator, out);
}

void log_line_append(GString *out, const LogLine *line, gboolean is_json, gsize room)
{
	gsize begin = out->len;

	for (gsize most_bytes = room;; most_bytes /= 2) {
		if (is_json)
			append_json(out, line, most_bytes);
		else
			append_logfmt(out, line, most_bytes);
		if (out->len - begin <= room || most_bytes == 0)
			return;
		g_string_truncate(out, begin);
	}
}

/* The journal */

char *log_line_message_id(const char *event)
{
	g_autoptr(GChecksum) sha1 = g_checksum_new(G_CHECKSUM_SHA1);
	guint8 bytes[20];
	gsize length = sizeof bytes;
	Uuid id;
	gboolean is_valid = uuid_parse(LOG_LINE_NAMESPACE, &id, NULL);

	g_assert(is_valid);
	uuid_to_bytes(id, bytes);
	g_checksum_update(sha1, bytes, UUID_BYTES);
	g_checksum_update(sha1, (const guchar *)event, -1);
	g_checksum_get_digest(sha1, bytes, &length);
	id = uuid_from_bytes(bytes);
	id.high = (id.high & ~G_GUINT64_CONSTANT(0xf000)) | 0x5000; /* version 5 */
	id.low = id.low << 2 >> 2 | G_GUINT64_CONSTANT(1) << 63;    /* the RFC's variant */
	return g_strdup_printf("%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x", id.high,
			       id.low);
}

/* Writes the value with its length, so that it can contain newlines. */
static void append_field(GString *datagram, const char *key, const char *value)
{
	guint64 length = GUINT64_TO_LE(strlen(value));

	g_string_append(datagram, key);
	g_string_append_c(datagram, '\n');
	g_string_append_len(datagram, (const char *)&length, sizeof length);
	g_string_append(datagram, value);
	g_string_append_c(datagram, '\n');
}

GString *log_line_datagram(const LogLine *line)
{
	GString *datagram = g_string_sized_new(1024);
	g_autoptr(GString) message = g_string_new(NULL);
	g_autofree char *id = log_line_message_id(line->event);
	g_autofree char *priority = g_strdup_printf("%u", line->priority);

	log_line_append(message, line, FALSE, LOG_LINE_MOST_BYTES);
	append_field(datagram, "MESSAGE", message->str);
	append_field(datagram, "PRIORITY", priority);
	append_field(datagram, "MESSAGE_ID", id);
	append_field(datagram, "SYSLOG_IDENTIFIER", program_invocation_short_name);
	append_field(datagram, "SNOWFLAKE_EVENT", line->event);
	for (const LogField *field = line->fields; field->key != NULL; field++) {
		g_autofree char *upper = g_ascii_strup(field->key, -1);
		g_autofree char *key = g_strconcat("SNOWFLAKE_", upper, NULL);
		g_autofree char *text = field_text(field, LOG_LINE_MOST_BYTES);
		g_autofree char *valid = g_utf8_make_valid(text, -1);

		append_field(datagram, key, valid);
	}
	return datagram;
}
