/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/entry.h"

#include <string.h>

#include "common/thrift/reader.h"

/* GLib reads past whatever is no base64. So what was read is written again, and has to be what was
 * there. */
static gboolean decode(const char *line, gsize length, guint8 *out, gsize *out_length)
{
	char again[AUDIT_ENTRY_MAX_LINE_BYTES + 8];
	int state = 0, save = 0;
	guint bits = 0;
	gsize written;

	*out_length = g_base64_decode_step(line, length, out, &state, &bits);
	state = 0;
	written = g_base64_encode_step(out, *out_length, FALSE, again, &state, &save);
	written += g_base64_encode_close(FALSE, again + written, &state, &save);
	return written == length && memcmp(again, line, length) == 0;
}

static void expect_field(ThriftReader *reader, BinaryType type, gint16 id)
{
	gint16 found = 0;

	if (thrift_reader_field(reader, &found) != type || found != id)
		reader->bad = TRUE;
}

static gboolean read_struct(AuditEntry *entry, gsize length)
{
	ThriftReader reader = {.at = entry->bytes, .left = length};
	gint16 id;
	gsize agent_length;

	expect_field(&reader, BINARY_I64, 1);
	entry->id = thrift_reader_i64(&reader);
	expect_field(&reader, BINARY_STRING, 2);
	entry->agent = thrift_reader_bytes(&reader, &agent_length);
	entry->agent_length = (guint)agent_length;
	expect_field(&reader, BINARY_I64, 3);
	entry->tag = thrift_reader_i64(&reader);
	return thrift_reader_field(&reader, &id) == BINARY_STOP && !reader.bad && reader.left == 0;
}

/* (nullable): what is wrong. */
static const char *read_gap(AuditEntry *entry)
{
	if (entry->id != 0)
		return "an ID without a useragent";
	if (entry->tag < 1)
		return "a gap of no ID";
	entry->missing = (guint64)entry->tag;
	entry->tag = 0;
	return NULL;
}

/* (nullable): what is wrong. */
static const char *parse(const char *line, gsize length, AuditEntry *entry)
{
	gsize decoded;

	entry->missing = 0;
	if (length > AUDIT_ENTRY_MAX_LINE_BYTES)
		return "longer than " G_STRINGIFY(AUDIT_ENTRY_MAX_LINE_BYTES) " bytes";
	if (!decode(line, length, entry->bytes, &decoded))
		return "not base64";
	if (!read_struct(entry, decoded))
		return "not an AuditLogEntry";
	if (entry->id < 0)
		return "a negative ID";
	return entry->agent_length == 0 ? read_gap(entry) : NULL;
}

gboolean audit_entry_parse(const char *line, gsize length, AuditEntry *out_entry,
			   const char **out_reason)
{
	const char *reason = parse(line, length, out_entry);

	if (reason != NULL)
		*out_reason = reason;
	return reason == NULL;
}
